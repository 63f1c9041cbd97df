// SPDX-License-Identifier: MIT
#pragma once
// Reads from an object store, for tests of feedline::remote.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <stdlib.h>

#include <feedline/remote/remote_options.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::test {

[[maybe_unused]] inline const int no_proxy = ::setenv("no_proxy", "*", 1); // before there are threads

/// Tries again almost at once, and not for long.
inline remote_options quick(std::size_t attempts = 5) {
  return {.retry = {.attempts = attempts,
                    .first_pause = std::chrono::microseconds(1),
                    .factor = 1,
                    .for_at_most = std::chrono::nanoseconds(0)}};
}

inline std::string text_of(const object_part& part) {
  return {reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size()};
}

/// The store's metric with that name; -1 if it has none.
inline double metric(const object_store& store, std::string_view name) {
  double value = -1;
  const auto take = [&](const char* n, double v) {
    if (n == name) value = v;
  };
  store.metrics(take, take);
  return value;
}

/// Reads and waits.
inline object_part part_of(object_store& store, const std::string& name, std::uint64_t offset = 0,
                           std::size_t count = 100, const std::optional<object_info>& expected = {}) {
  return store.read(name, offset, count, expected)->get({});
}

/// The message of a failed read; empty if it succeeds.
inline std::string problem_of(object_store& store, const std::string& name, std::uint64_t offset = 0,
                              std::size_t count = 100, const std::optional<object_info>& expected = {}) {
  try {
    static_cast<void>(part_of(store, name, offset, count, expected));
  } catch (const object_error& error) {
    return error.what();
  } catch (const outage_error& error) {
    return error.what();
  }
  return {};
}

} // namespace feedline::test
