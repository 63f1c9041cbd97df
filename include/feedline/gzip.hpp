// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::gzip: gzip files that lie in memory, and TAR shards that are compressed as a whole.
#include <feedline/gzip/gunzip.hpp>
#include <feedline/gzip/gzip_error.hpp>
#include <feedline/gzip/tar_gz.hpp>
