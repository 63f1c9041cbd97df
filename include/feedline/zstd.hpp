// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::zstd: texts and TAR shards that are compressed with zstd.
#include <feedline/zstd/unzstd.hpp>
