# SPDX-License-Identifier: MIT
# The setup.py of the examples makes a wheel of what CMake builds. A script takes CMake's place, which would need a minute.
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

pytest.importorskip("setuptools", minversion="61")
pytest.importorskip("wheel")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
NAMES = {"python_audio": "feedline_audio", "python_images": "feedline_images"}
CMAKE = """#!/bin/sh
echo "$@" >> "$LOG"
[ -z "$FAILS" ] || exit 1
for argument; do
  case $argument in -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=*) mkdir -p "${argument#*=}"; echo module > "${argument#*=}/$MODULE" ;; esac
done
"""


def build(example, tmp_path, **environment):
    folder = tmp_path / "copied out"
    shutil.copytree(EXAMPLES / example, folder)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cmake").write_text(CMAKE)
    (tmp_path / "bin/cmake").chmod(0o755)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    environment = dict(dict(os.environ, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", LOG=str(tmp_path / "log"),
                            MODULE=NAMES[example] + suffix), **environment)
    return subprocess.run([sys.executable, "setup.py", "-q", "bdist_wheel", "-d", str(tmp_path / "wheels")], cwd=folder,
                          env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("example", NAMES)
def test_a_wheel_has_the_module_that_cmake_built(example, tmp_path):
    outcome = build(example, tmp_path, CMAKE_ARGS="-DFIRST=1 '-DSECOND=a b'")
    assert outcome.returncode == 0, outcome.stderr
    wheel, = (tmp_path / "wheels").iterdir()
    assert f"cp{sys.version_info[0]}{sys.version_info[1]}" in wheel.name and "any" not in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert [n for n in names if "dist-info" not in n] == [NAMES[example] + sysconfig.get_config_var("EXT_SUFFIX")]
    configured, built = (tmp_path / "log").read_text().splitlines()
    assert f"-DPython_EXECUTABLE={sys.executable}" in configured and configured.endswith("-DFIRST=1 -DSECOND=a b")
    assert built.startswith("--build")


def test_a_failure_of_cmake_says_what_to_do(tmp_path):
    outcome = build("python_audio", tmp_path, FAILS="1")
    assert outcome.returncode != 0 and "CMAKE_PREFIX_PATH must name the folder where feedline is installed" in outcome.stderr


def test_a_module_for_another_python_is_an_error(tmp_path):
    outcome = build("python_images", tmp_path, MODULE="feedline_images.other.so")
    assert outcome.returncode != 0 and "do CMAKE_ARGS name another Python?" in outcome.stderr


def test_the_examples_share_one_setup():
    assert len({setup.read_text() for setup in EXAMPLES.glob("python_*/setup.py")}) == 1
