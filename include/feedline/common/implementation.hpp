// SPDX-License-Identifier: MIT
#pragma once
// All definitions of common/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_COMMON
#include <feedline/detail/definitions.hpp>

#include <feedline/common/detail/beginnings.hpp>
