// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::cache: keeps what stages have computed, in memory or in a directory.
#include <feedline/cache/cache.hpp>
#include <feedline/cache/cache_options.hpp>
