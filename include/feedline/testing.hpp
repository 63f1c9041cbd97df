// SPDX-License-Identifier: MIT
#pragma once
// Checks that custom sources and stages keep the promises of the library. They need no test framework.
#include <feedline/testing/check_options.hpp>
#include <feedline/testing/check_source.hpp>
#include <feedline/testing/check_stage.hpp>

/// @namespace feedline::testing
/// Checks that custom sources and stages keep the promises of the library.
