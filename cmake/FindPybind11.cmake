# SPDX-License-Identifier: MIT
# Finds pybind11 and the headers of Python, and adds the target Pybind11::pybind11. A program that links it is an extension
# module: Python's own functions are resolved when Python loads it.
find_path(Pybind11_INCLUDE_DIR pybind11/pybind11.h)
mark_as_advanced(Pybind11_INCLUDE_DIR)
find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)

set(Pybind11_NOT_FOUND_MESSAGE "On Debian its packages are pybind11-dev and python3-dev.")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pybind11 DEFAULT_MSG Pybind11_INCLUDE_DIR Python_INCLUDE_DIRS)
if(Pybind11_FOUND AND NOT TARGET Pybind11::pybind11)
  add_library(Pybind11::pybind11 INTERFACE IMPORTED)
  target_include_directories(Pybind11::pybind11 SYSTEM INTERFACE "${Pybind11_INCLUDE_DIR}" ${Python_INCLUDE_DIRS})
endif()
include("${CMAKE_CURRENT_LIST_DIR}/FeedlinePythonStubs.cmake")
