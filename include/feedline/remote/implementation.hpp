// SPDX-License-Identifier: MIT
#pragma once
// All definitions of remote/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_REMOTE
#include <feedline/detail/definitions.hpp>

#include <feedline/remote/detail/aws_keys.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/detail/url.hpp>
#include <feedline/remote/object_store.hpp>
#include <feedline/remote/remote_store.hpp>
#include <feedline/remote/shard_cache.hpp>
