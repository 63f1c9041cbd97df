// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::zstd: files that are compressed with zstd.
#include <feedline/zstd/unzstd.hpp>
