// SPDX-License-Identifier: MIT
#pragma once
// All definitions of gzip/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/gzip/gunzip.ipp>
#include <feedline/gzip/tar_gz.ipp>
