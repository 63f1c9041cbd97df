// SPDX-License-Identifier: MIT
#pragma once
// All definitions of stage/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/stage/batch.ipp>
#include <feedline/stage/detail/rows_in_order.ipp>
#include <feedline/stage/shuffle.ipp>
#include <feedline/stage/windows.ipp>
