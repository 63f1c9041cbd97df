// SPDX-License-Identifier: MIT
#pragma once
// All definitions of detail/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_DETAIL
#include <feedline/detail/definitions.hpp>

#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/detail/share.hpp>
#include <feedline/detail/slot_pool.hpp>
#include <feedline/detail/type_name.hpp>
#include <feedline/detail/value_text.hpp>
