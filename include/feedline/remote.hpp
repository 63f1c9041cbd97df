// SPDX-License-Identifier: MIT
#pragma once
// All of the component feedline::remote: reads shards from web servers and S3.
#include <feedline/core/retry.hpp>
#include <feedline/remote/object_store.hpp>
#include <feedline/remote/remote_options.hpp>
#include <feedline/remote/remote_store.hpp>
#include <feedline/remote/shard_cache.hpp>
