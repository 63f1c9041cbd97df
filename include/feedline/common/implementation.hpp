// SPDX-License-Identifier: MIT
#pragma once
// All definitions of common/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/common/detail/beginnings.ipp>
