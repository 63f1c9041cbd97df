# SPDX-License-Identifier: MIT
"""Builds the module of the .cpp file in this folder with CMake. CMAKE_ARGS may hold further options for CMake."""
import os
import pathlib
import shlex
import subprocess
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

here = pathlib.Path(__file__).resolve().parent
source, = here.glob("*.cpp")


class BuildWithCMake(build_ext):
    def build_extension(self, extension):
        target = pathlib.Path(self.get_ext_fullpath(extension.name)).resolve()
        build = pathlib.Path(self.build_temp).resolve() / extension.name
        options = [f"-DPython_EXECUTABLE={sys.executable}", f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target.parent}"]
        try:  # Python's own pybind11, if there is one, is newer than the system's
            import pybind11
            options.append(f"-DPybind11_INCLUDE_DIR={pybind11.get_include()}")
        except ImportError:
            pass
        options += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        try:
            subprocess.run(["cmake", "-S", str(here), "-B", str(build), *options], check=True)
            subprocess.run(["cmake", "--build", str(build), "--config", "Release"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"{error}\nThe module needs CMake 3.25, and CMAKE_PREFIX_PATH must name the folder where feedline is installed.")
        if not target.exists():
            sys.exit(f"CMake has not built {target}: do CMAKE_ARGS name another Python?")


setup(ext_modules=[Extension(source.stem, sources=[source.name, "CMakeLists.txt"])],
      cmdclass={"build_ext": BuildWithCMake}, packages=find_packages(), py_modules=[])
