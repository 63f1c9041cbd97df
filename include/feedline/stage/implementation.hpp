// SPDX-License-Identifier: MIT
#pragma once
// All definitions of stage/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_STAGE
#include <feedline/detail/definitions.hpp>

#include <feedline/stage/batch.hpp>
#include <feedline/stage/detail/rows_in_order.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/windows.hpp>
