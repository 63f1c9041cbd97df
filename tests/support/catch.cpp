// SPDX-License-Identifier: MIT
// The file for which CMake makes the precompiled header: a target without one that uses it gets none.
#include "support/catch.hpp"
