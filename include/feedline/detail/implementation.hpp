// SPDX-License-Identifier: MIT
#pragma once
// All definitions of detail/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/detail/block_cache.ipp>
#include <feedline/detail/given_size.ipp>
#include <feedline/detail/mapped_file.ipp>
#include <feedline/detail/open_file.ipp>
#include <feedline/detail/readable_text.ipp>
#include <feedline/detail/run_on_threads.ipp>
#include <feedline/detail/share.ipp>
#include <feedline/detail/slot_pool.ipp>
#include <feedline/detail/type_name.ipp>
#include <feedline/detail/value_text.ipp>
