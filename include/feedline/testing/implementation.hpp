// SPDX-License-Identifier: MIT
#pragma once
// All definitions of testing/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_TESTING
#include <feedline/detail/definitions.hpp>

#include <feedline/testing/check_source.hpp>
#include <feedline/testing/check_stage.hpp>
#include <feedline/testing/detail/observed.hpp>
#include <feedline/testing/detail/runs.hpp>
