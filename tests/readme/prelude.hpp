// SPDX-License-Identifier: MIT
#pragma once
// What README.md's shorter blocks take for granted.
#include <cassert>

#include <feedline/feedline.hpp>

namespace fl = feedline;
