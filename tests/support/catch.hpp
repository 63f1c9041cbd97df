// SPDX-License-Identifier: MIT
#pragma once
// Catch2 in either of its two layouts: 3 (many headers) or 2.13 (one header).
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
