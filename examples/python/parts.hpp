// SPDX-License-Identifier: MIT
#pragma once
// The parts of the module, each in its own file and its own submodule. One whose library is missing isn't built.
#include <pybind11/pybind11.h>

void add_images(pybind11::module_& m);
void add_audio(pybind11::module_& m);
void add_chess(pybind11::module_& m);
