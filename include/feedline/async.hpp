// SPDX-License-Identifier: MIT
#pragma once
// All of the component feedline::async: stages whose functions are coroutines.
#include <feedline/async/async_context.hpp>
#include <feedline/async/async_flat_map.hpp>
#include <feedline/async/async_generator.hpp>
#include <feedline/async/async_map.hpp>
#include <feedline/async/async_options.hpp>
#include <feedline/async/async_source.hpp>
#include <feedline/async/blocking.hpp>
#include <feedline/async/deadline.hpp>
#include <feedline/core/retry.hpp>
