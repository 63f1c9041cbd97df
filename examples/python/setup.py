# SPDX-License-Identifier: MIT
"""Builds the module feedline._native with CMake. CMAKE_ARGS may hold further options for CMake."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

here = pathlib.Path(__file__).resolve().parent
# A clone has the library two folders up, a source distribution in the folder `source`.
libraries = [folder for folder in (here / "source", here.parent.parent) if (folder / "cmake/FeedlineComponent.cmake").exists()]
if not libraries:
    sys.exit("The package is built with the library's headers: in a clone of feedline, or from a source distribution.")
library = libraries[0]


def version():
    text = (library / "include/feedline/version.hpp").read_text(encoding="utf-8")
    return ".".join(re.search(rf"version_{part} = (\d+);", text)[1] for part in ("major", "minor", "patch"))


class BuildWithCMake(build_ext):
    def build_extension(self, extension):
        target = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve()
        build = pathlib.Path(self.build_temp).resolve()
        options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target.parent}"]
        try:  # Python's own pybind11, if there is one, is newer than the system's
            import pybind11
            options.append(f"-DPybind11_INCLUDE_DIR={pybind11.get_include()}")
        except ImportError:
            pass
        options += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        try:
            subprocess.run(["cmake", "-S", str(here), "-B", str(build), *options], check=True)
            subprocess.run(["cmake", "--build", str(build), "--config", "Release", "--parallel", str(os.cpu_count())], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"{error}\nThe package needs CMake 3.25, a C++20 compiler and Python's headers: on Debian cmake, g++ and python3-dev.")
        if not target.exists():
            sys.exit(f"CMake has not built {target}: do CMAKE_ARGS name another Python?")
        shutil.copy(library / "LICENSE", target.parent / "LICENSE")


class WithLibrary(sdist):
    """Adds the library's headers, and the example whose pipeline a part has, so that the archive can be built anywhere."""

    def make_release_tree(self, base, files):
        super().make_release_tree(base, files)
        base = pathlib.Path(base)
        for name in ("include", "cmake", "CMakeLists.txt", "LICENSE"):
            source = library / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, base / "source" / name)
        for example in (here / "chess_training", here.parent / "chess_training"):
            if example.exists():
                shutil.copytree(example, base / "chess_training")
                break


sources = sorted(path.name for path in here.iterdir() if path.suffix in (".cpp", ".hpp")) + ["CMakeLists.txt"]
setup(version=version(), ext_modules=[Extension("feedline._native", sources=sources)],
      cmdclass={"build_ext": BuildWithCMake, "sdist": WithLibrary}, packages=find_packages(include=["feedline*"]),
      package_data={"feedline": ["py.typed", "*.pyi", "**/*.pyi"]})
