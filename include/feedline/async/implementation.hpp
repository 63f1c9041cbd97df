// SPDX-License-Identifier: MIT
#pragma once
// All definitions of async/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/async/detail/event_loops.ipp>
#include <feedline/async/detail/flight.ipp>
