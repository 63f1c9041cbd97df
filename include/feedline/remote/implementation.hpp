// SPDX-License-Identifier: MIT
#pragma once
// All definitions of remote/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/remote/detail/aws_keys.ipp>
#include <feedline/remote/detail/http_answer.ipp>
#include <feedline/remote/detail/url.ipp>
#include <feedline/remote/object_store.ipp>
#include <feedline/remote/remote_store.ipp>
#include <feedline/remote/shard_cache.ipp>
