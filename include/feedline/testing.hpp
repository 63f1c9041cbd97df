// SPDX-License-Identifier: MIT
#pragma once
// Checks for sources and stages of your own: that they keep what the library promises. They need no test framework.
#include <feedline/testing/check_options.hpp>
#include <feedline/testing/check_source.hpp>
#include <feedline/testing/check_stage.hpp>
