# SPDX-License-Identifier: MIT
# The setup.py of the package makes a wheel of what CMake builds, and an archive of sources that can be built anywhere. A script
# takes CMake's place, which would need minutes.
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest

pytest.importorskip("setuptools", minversion="61")
pytest.importorskip("wheel")
LIBRARY = pathlib.Path(__file__).resolve().parents[2]
MODULE = "_native" + sysconfig.get_config_var("EXT_SUFFIX")
CMAKE = """#!/bin/sh
echo "$@" >> "$LOG"
[ -z "$FAILS" ] || exit 1
for argument; do
  case $argument in -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=*) mkdir -p "${argument#*=}"; echo module > "${argument#*=}/$MODULE" ;; esac
done
"""


def clone(tmp_path):
    """The parts of the project that the package is built from; returns its folder."""
    folder = tmp_path / "a clone"
    for name in ("include/feedline/version.hpp", "cmake", "CMakeLists.txt", "LICENSE", "examples/python", "examples/chess_training"):
        source, target = LIBRARY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        else:
            shutil.copy(source, target)
    return folder / "examples/python"


def run_setup(folder, tmp_path, *command, **environment):
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin/cmake").write_text(CMAKE)
    (tmp_path / "bin/cmake").chmod(0o755)
    environment = dict(dict(os.environ, PATH=f"{tmp_path}/bin:{os.environ['PATH']}", LOG=str(tmp_path / "log"), MODULE=MODULE), **environment)
    return subprocess.run([sys.executable, "setup.py", "-q", *command], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=120)


def names_in_wheel(tmp_path, folder, **environment):
    outcome = run_setup(folder, tmp_path, "bdist_wheel", "-d", str(tmp_path / "wheels"), **environment)
    assert outcome.returncode == 0, outcome.stderr
    wheel, = (tmp_path / "wheels").iterdir()
    assert f"cp{sys.version_info[0]}{sys.version_info[1]}" in wheel.name and "any" not in wheel.name
    return [n for n in zipfile.ZipFile(wheel).namelist() if "dist-info" not in n]


def test_a_wheel_has_the_package_and_the_module_that_cmake_built(tmp_path):
    names = names_in_wheel(tmp_path, clone(tmp_path), CMAKE_ARGS="-DFIRST=1 '-DSECOND=a b'")
    assert {"feedline/" + n for n in ("__init__.py", "images.py", "images.pyi", "audio.py", "chess/loader.py", "py.typed", "LICENSE", MODULE)} <= set(names)
    assert all(n.startswith("feedline/") for n in names)
    configured, built = (tmp_path / "log").read_text().splitlines()
    assert f"-DPython_EXECUTABLE={sys.executable}" in configured and configured.endswith("-DFIRST=1 -DSECOND=a b")
    assert built.startswith("--build")


def test_an_archive_of_sources_can_be_built_anywhere(tmp_path):
    outcome = run_setup(clone(tmp_path), tmp_path, "sdist", "-d", str(tmp_path / "archives"))
    assert outcome.returncode == 0, outcome.stderr
    archive, = (tmp_path / "archives").iterdir()
    with tarfile.open(archive) as sources:
        sources.extractall(tmp_path / "elsewhere")
    folder, = (tmp_path / "elsewhere").iterdir()
    assert run_setup(folder, tmp_path, "sdist", "-d", str(tmp_path / "again")).returncode == 0
    again, = (tmp_path / "again").iterdir()
    with tarfile.open(again) as copied, tarfile.open(archive) as sources:
        assert sorted(copied.getnames()) == sorted(sources.getnames())
    for name in ("source/include/feedline/version.hpp", "source/cmake/FeedlineComponent.cmake", "source/CMakeLists.txt",
                 "chess_training/loader.hpp", "parts.hpp", "images.cpp", "CMakeLists.txt"):
        assert (folder / name).exists(), name
    assert f"feedline/{MODULE}" in names_in_wheel(tmp_path, folder)


def test_a_failure_of_cmake_says_what_to_do(tmp_path):
    outcome = run_setup(clone(tmp_path), tmp_path, "bdist_wheel", FAILS="1")
    assert outcome.returncode != 0 and "The package needs CMake 3.25" in outcome.stderr


def test_a_module_for_another_python_is_an_error(tmp_path):
    outcome = run_setup(clone(tmp_path), tmp_path, "bdist_wheel", MODULE="_native.other.so")
    assert outcome.returncode != 0 and "do CMAKE_ARGS name another Python?" in outcome.stderr
