// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::live: runs that feed other runs.
#include <feedline/live/broadcast.hpp>
#include <feedline/live/join.hpp>
