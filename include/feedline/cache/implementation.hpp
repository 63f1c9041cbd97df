// SPDX-License-Identifier: MIT
#pragma once
// All definitions of cache/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/cache/detail/cache_store.ipp>
