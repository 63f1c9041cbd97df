// SPDX-License-Identifier: MIT
#pragma once
// What each implementation.hpp includes first: checks that it is compiled as it must be.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#elif defined(FEEDLINE_ABI)
#error "Include the headers implementation.hpp before all others of feedline, which only declare functions"
#endif
