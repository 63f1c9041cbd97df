// SPDX-License-Identifier: MIT
#pragma once
// Reads from an object store, for tests of feedline::remote.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <stdlib.h>
#include <unistd.h>

#include <feedline/remote/object_store.hpp>
#include <feedline/remote/remote_options.hpp>

namespace feedline::test {

[[maybe_unused]] inline const int no_proxy = ::setenv("no_proxy", "*", 1); // before there are threads

/// Sets variables of S3, of Hugging Face and of proxies, and no others of them, as long as it exists. No file and no server
/// of this machine has keys of S3 unless the variables say so.
class environment {
 public:
  explicit environment(const std::map<std::string, std::string>& variables) {
    clear();
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }

  environment(const environment&) = delete;

  ~environment() { clear(); }

 private:
  static void clear() {
    std::vector<std::string> names{"HF_TOKEN", "HF_ENDPOINT", "https_proxy"};
    for (char** variable = ::environ; *variable; ++variable)
      if (const std::string_view text = *variable; text.starts_with("AWS_"))
        names.emplace_back(text.substr(0, text.find('=')));
    for (const std::string& name : names) ::unsetenv(name.c_str());
    ::setenv("no_proxy", "*", 1);
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    ::setenv("AWS_CONFIG_FILE", "/dev/null", 1);
  }
};

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
