// SPDX-License-Identifier: MIT
// CMake makes the precompiled header for this file: a target that reuses one must have a file that compiles
// it.
#include "support/catch.hpp"
