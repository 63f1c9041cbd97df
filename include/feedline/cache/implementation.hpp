// SPDX-License-Identifier: MIT
#pragma once
// All definitions of cache/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_CACHE
#include <feedline/detail/definitions.hpp>

#include <feedline/cache/detail/cache_store.hpp>
