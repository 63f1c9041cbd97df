// SPDX-License-Identifier: MIT
#pragma once
// All definitions of zstd/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_ZSTD
#include <feedline/detail/definitions.hpp>

#include <feedline/zstd/unzstd.hpp>
