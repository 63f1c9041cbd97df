// SPDX-License-Identifier: MIT
#pragma once
// All definitions of async/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_ASYNC
#include <feedline/detail/definitions.hpp>

#include <feedline/async/detail/event_loops.hpp>
#include <feedline/async/detail/flight.hpp>
