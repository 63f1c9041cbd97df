// SPDX-License-Identifier: MIT
#pragma once
// The arguments of a bound class's constructor: how they come from Python, and which of them are options of the run.
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <feedline/python/run_options.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// In the order of the constructor's keywords.
using run_options_of_python =
    std::tuple<python::option::infinite, python::option::epochs, python::option::first_epoch,
               python::option::seed, python::option::rank, python::option::world_size,
               python::option::remainder, python::option::by_sample, python::option::on_error,
               python::option::failure_limit, python::option::on_failure, python::option::on_notice,
               python::option::memory_budget, python::option::resume, python::option::allow_grown_data,
               python::option::allow_other_options, python::option::epoch, python::option::fields>;

template <class T, class List>
inline constexpr bool is_in = false;
template <class T, class... U>
inline constexpr bool is_in<T, std::tuple<U...>> = (std::is_same_v<T, U> || ...);

template <class T>
concept python_option = is_in<T, run_options_of_python>;

template <class List, class Left>
struct options_without;

/// The options that aren't in a list of types, as a tuple.
template <class... Given, class... Option>
struct options_without<std::tuple<Given...>, std::tuple<Option...>> {
  using type = decltype(std::tuple_cat(
      std::declval<
          std::conditional_t<is_in<Option, std::tuple<Given...>>, std::tuple<>, std::tuple<Option>>>()...));
};

/// Refuses a name that an option of the run has.
template <class Extra, class... Option>
void check_name(const Extra& extra, const std::tuple<Option...>*) {
  if constexpr (std::is_base_of_v<pybind11::arg, Extra>) {
    const std::string_view given = extra.name ? extra.name : "";
    if (((given == Option::name) || ...))
      throw std::invalid_argument(
          "feedline: bind_loader has a parameter `" + std::string(given) +
          "`, which is the name of an option of the run: give it the type feedline::python::option::" +
          std::string(given) + " or another name");
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace pybind11::detail {

template <class Option>
class type_caster<Option, std::enable_if_t<feedline::detail::python_option<Option>>> {
  using value_caster = make_caster<decltype(Option::value)>;

 public:
  PYBIND11_TYPE_CASTER(Option, value_caster::name);

  bool load(handle source, bool convert) {
    value_caster caster;
    if (!caster.load(source, convert)) return false;
    value.value = cast_op<decltype(Option::value)>(std::move(caster));
    return true;
  }
};

/// A text or a path, or a sequence of them.
template <>
class type_caster<feedline::file_patterns> {
 public:
  static constexpr auto name =
      const_name("Union[str, os.PathLike[str], Sequence[Union[str, os.PathLike[str]]]]");

  template <class T>
  using cast_op_type = movable_cast_op_type<T>;

  operator feedline::file_patterns*() { return &value_; }

  operator feedline::file_patterns&() { return value_; }

  operator feedline::file_patterns&&() && { return std::move(value_); }

  bool load(handle source, bool) {
    std::vector<std::string> names;
    if (!add(names, source)) {
      if (!isinstance<sequence>(source)) return false;
      for (const handle one : reinterpret_borrow<sequence>(source))
        if (!add(names, one)) return false;
    }
    value_ = std::move(names);
    return true;
  }

 private:
  static bool add(std::vector<std::string>& names, handle one) {
    PyObject* bytes = nullptr;
    if (PyUnicode_FSConverter(one.ptr(), &bytes) == 0) {
      PyErr_Clear();
      return false;
    }
    names.push_back(std::string(reinterpret_steal<pybind11::bytes>(bytes)));
    return true;
  }

  feedline::file_patterns value_{std::vector<std::string>()};
};

} // namespace pybind11::detail
