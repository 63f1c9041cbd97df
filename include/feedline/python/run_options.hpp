// SPDX-License-Identifier: MIT
#pragma once
// The options of a run as parameters of bind_loader's function.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <pybind11/pybind11.h>

#include <feedline/core/options.hpp>

/// Each option of a run that the constructor of a bound class takes. Its value is the default, unless a parameter of
/// bind_loader's function has this type.
namespace feedline::inline FEEDLINE_ABI::python::option {

/// Whether the run repeats the data for ever.
struct infinite {
  static constexpr const char* name = "infinite"; ///< in Python
  bool value = false;
};

/// The passes over the data of a finite run.
struct epochs {
  static constexpr const char* name = "epochs"; ///< in Python
  std::uint32_t value = 1;
};

/// The number of the first epoch.
struct first_epoch {
  static constexpr const char* name = "first_epoch"; ///< in Python
  std::optional<std::uint32_t> value{};
};

/// Keys every random decision.
struct seed {
  static constexpr const char* name = "seed"; ///< in Python
  std::optional<std::uint64_t> value{};
};

/// The number of this process; needs world_size.
struct rank {
  static constexpr const char* name = "rank"; ///< in Python
  std::optional<std::uint32_t> value{};
};

/// How many processes train together; needs rank.
struct world_size {
  static constexpr const char* name = "world_size"; ///< in Python
  std::optional<std::uint32_t> value{};
};

/// What happens to a sample that fails: "fail" or "skip".
struct on_error {
  static constexpr const char* name = "on_error"; ///< in Python
  std::string value = "fail";
};

/// How many failed samples "skip" accepts.
struct failure_limit {
  static constexpr const char* name = "failure_limit"; ///< in Python
  std::size_t value = default_failure_limit;
};

/// A function that receives each failure that is skipped, or None.
struct [[gnu::visibility("hidden")]] on_failure {
  static constexpr const char* name = "on_failure"; ///< in Python
  pybind11::object value = pybind11::none();
};

/// A function that receives sentences about something unusual, or None.
struct [[gnu::visibility("hidden")]] on_notice {
  static constexpr const char* name = "on_notice"; ///< in Python
  pybind11::object value = pybind11::none();
};

/// The most bytes that the run may hold; 0: no limit.
struct memory_budget {
  static constexpr const char* name = "memory_budget"; ///< in Python
  std::size_t value = 0;
};

/// Where to continue: what state_dict() returned, or None.
struct [[gnu::visibility("hidden")]] resume {
  static constexpr const char* name = "resume"; ///< in Python
  pybind11::object value = pybind11::none();
};

/// How a struct arrives: "dict", "namedtuple" or "tuple".
struct fields {
  static constexpr const char* name = "fields"; ///< in Python
  std::string value = "dict";
};

} // namespace feedline::inline FEEDLINE_ABI::python::option
