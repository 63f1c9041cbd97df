// SPDX-License-Identifier: MIT
#pragma once
// The options of a run as parameters of bind_loader's function.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/callback.hpp>
#include <feedline/core/options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Arguments whose types Python shows.
struct [[gnu::visibility("hidden")]] python_function : pybind11::object {
  using object::object;

  python_function() : object(pybind11::none()) {}

  static bool check_(pybind11::handle h) { return h.is_none() || PyCallable_Check(h.ptr()) != 0; }
};

struct [[gnu::visibility("hidden")]] function_of_failure : python_function {
  using python_function::python_function;
};

struct [[gnu::visibility("hidden")]] function_of_text : python_function {
  using python_function::python_function;
};

struct [[gnu::visibility("hidden")]] optional_state : pybind11::object {
  using object::object;

  optional_state() : object(pybind11::none()) {}

  static bool check_(pybind11::handle) { return true; } // resume_from() says more about a wrong one
};

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace pybind11::detail {

template <>
struct handle_type_name<feedline::detail::function_of_failure> {
  static constexpr auto name = const_name("Optional[Callable[[Dict[str, Any]], Any]]");
};

template <>
struct handle_type_name<feedline::detail::function_of_text> {
  static constexpr auto name = const_name("Optional[Callable[[str], Any]]");
};

template <>
struct handle_type_name<feedline::detail::optional_state> {
  static constexpr auto name = const_name("Union[Dict[str, Any], bytes, None]");
};

} // namespace pybind11::detail

/// The options of a run that the constructor of a bound class takes as keywords. A parameter of bind_loader's function with
/// one of these types is that option, at its place among the parameters and with a default of its own.
namespace feedline::inline FEEDLINE_ABI::python::option {

/// Whether the run repeats the data for ever.
struct infinite {
  static constexpr const char* name = "infinite"; ///< in Python
  bool value = false;                             ///< what Python gave, or the default
};

/// The passes over the data of a finite run. With an infinite one it is an error.
struct epochs {
  static constexpr const char* name = "epochs"; ///< in Python
  std::optional<std::uint32_t> value{};         ///< what Python gave, or the default; none: 1
};

/// The number of the first epoch of a finite run. With an infinite one it is an error.
struct first_epoch {
  static constexpr const char* name = "first_epoch"; ///< in Python
  std::optional<std::uint32_t> value{};              ///< what Python gave, or the default
};

/// Keys every random decision.
struct seed {
  static constexpr const char* name = "seed"; ///< in Python
  std::optional<std::uint64_t> value{};       ///< what Python gave, or the default
};

/// The number of this process; needs world_size.
struct rank {
  static constexpr const char* name = "rank"; ///< in Python
  std::optional<std::uint32_t> value{};       ///< what Python gave, or the default
};

/// How many processes train together; needs rank.
struct world_size {
  static constexpr const char* name = "world_size"; ///< in Python
  std::optional<std::uint32_t> value{};             ///< what Python gave, or the default
};

/// What happens to samples that can't be divided evenly among ranks: "drop", "wrap" or "keep".
struct remainder {
  static constexpr const char* name = "remainder"; ///< in Python
  std::string value = "drop";                      ///< what Python gave, or the default
};

/// Whether ranks divide the samples of files, not the files.
struct by_sample {
  static constexpr const char* name = "by_sample"; ///< in Python
  bool value = false;                              ///< what Python gave, or the default
};

/// What happens to a sample that fails: "fail" or "skip".
struct on_error {
  static constexpr const char* name = "on_error"; ///< in Python
  std::string value = "fail";                     ///< what Python gave, or the default
};

/// How many failed samples "skip" accepts.
struct failure_limit {
  static constexpr const char* name = "failure_limit"; ///< in Python
  std::size_t value = default_failure_limit;           ///< what Python gave, or the default
};

/// A function that receives each failure that is skipped, or None.
struct [[gnu::visibility("hidden")]] on_failure {
  static constexpr const char* name = "on_failure"; ///< in Python
  detail::function_of_failure value{};              ///< what Python gave, or the default
};

/// A function that receives sentences about something unusual, or None.
struct [[gnu::visibility("hidden")]] on_notice {
  static constexpr const char* name = "on_notice"; ///< in Python
  detail::function_of_text value{};                ///< what Python gave, or the default
  callback<std::string> notify{}; ///< the same for sources and stages, set where it is a parameter
};

/// The most bytes that the run may hold; 0: no limit.
struct memory_budget {
  static constexpr const char* name = "memory_budget"; ///< in Python
  std::size_t value = 0;                               ///< what Python gave, or the default
};

/// Where to continue: what state_dict() returned, or None.
struct [[gnu::visibility("hidden")]] resume {
  static constexpr const char* name = "resume"; ///< in Python
  detail::optional_state value{};               ///< what Python gave, or the default
};

/// Whether a state may be resumed with data that was appended since.
struct allow_grown_data {
  static constexpr const char* name = "allow_grown_data"; ///< in Python
  bool value = false;                                     ///< what Python gave, or the default
};

/// Whether a state may be resumed with other values of the parameters that checked_on_resume names.
struct allow_other_options {
  static constexpr const char* name = "allow_other_options"; ///< in Python
  bool value = false;                                        ///< what Python gave, or the default
};

/// Whether a batch has a last field `epoch`: that of each sample.
struct epoch {
  static constexpr const char* name = "epoch"; ///< in Python
  bool value = false;                          ///< what Python gave, or the default
};

/// How a struct arrives: "dict", "namedtuple" or "tuple".
struct fields {
  static constexpr const char* name = "fields"; ///< in Python
  std::string value = "dict";                   ///< what Python gave, or the default
};

} // namespace feedline::inline FEEDLINE_ABI::python::option

namespace feedline::inline FEEDLINE_ABI::python {

/// What bind_loader's function may return: a pipeline whose functions call Python objects, and these objects. The loader keeps them
/// alive; the pipeline itself should only point to them, so that Python's garbage collector finds those that refer to the
/// loader. Such a function of bind_loader takes a Python object, so that it has Python's lock.
template <class Item>
struct [[gnu::visibility("hidden")]] with_references {
  any_pipeline<Item> pipeline;              ///< which calls them
  std::vector<pybind11::object> references; ///< to them
};

/// One of bind_loader's `extra`: the parameters of its function that decide what an item is, such as the size of images. A state
/// has their values; one that was taken with others is refused, unless allow_other_options is True.
struct checked_on_resume {
  std::vector<std::string> parameters; ///< their names in Python
};

} // namespace feedline::inline FEEDLINE_ABI::python

/// Not an attribute of the constructor.
template <>
struct pybind11::detail::process_attribute<feedline::python::checked_on_resume>
    : process_attribute_default<feedline::python::checked_on_resume> {};
