// SPDX-License-Identifier: MIT
#pragma once
// All definitions of gzip/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_GZIP
#include <feedline/detail/definitions.hpp>

#include <feedline/gzip/gunzip.hpp>
#include <feedline/gzip/tar_gz.hpp>
