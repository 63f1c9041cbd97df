// SPDX-License-Identifier: MIT
#pragma once
// All definitions of testing/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/testing/check_source.ipp>
#include <feedline/testing/check_stage.ipp>
#include <feedline/testing/detail/observed.ipp>
#include <feedline/testing/detail/runs.ipp>
