// SPDX-License-Identifier: MIT
// The rows of Arrow files for pipelines of Python functions, as dicts: {"image": {"bytes": b"…", "path": None}, "label": 3}.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <feedline/arrow.hpp>
#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/object.hpp>

#include "arrow_file.hpp"
#include "composed.hpp"
#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

namespace {

/// A date, time, timestamp or duration, as NumPy's types for these.
py::object time_of(const fl::arrow_value& value) {
  constexpr const char* units[]{"D", "s", "ms", "us", "ns"};
  const fl::arrow_field& field = *value.field();
  const bool is_date = field.type == fl::arrow_type::date || field.type == fl::arrow_type::timestamp;
  return py::module_::import("numpy").attr(is_date ? "datetime64" : "timedelta64")(
      value.as<std::int64_t>(), units[static_cast<std::size_t>(field.unit)]);
}

/// Adds an array of the list's numbers, if they are of this type and none is null.
template <class T>
bool add_array(const fl::arrow_value& list, py::object& made) {
  const fl::arrow_field& of = list.field()->children.front();
  const bool fits = std::is_integral_v<T>
                        ? of.type == fl::arrow_type::integer && of.is_signed == std::is_signed_v<T>
                        : of.type == fl::arrow_type::floating_point;
  if (!fits || of.bits != 8 * sizeof(T)) return false;
  try {
    const auto numbers = list.as<std::span<const T>>();
    made = py::array_t<T>(static_cast<py::ssize_t>(numbers.size()), numbers.data());
    return true;
  } catch (const fl::arrow_error&) { // nulls
    return false;
  }
}

template <class... T>
bool add_array_of(const fl::arrow_value& list, py::object& made) {
  return (add_array<T>(list, made) || ...);
}

py::object object_of(const fl::arrow_value& value);

py::object list_of(const fl::arrow_value& list) {
  py::object made;
  if (add_array_of<float, double, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                   std::uint16_t, std::uint32_t, std::uint64_t>(list, made))
    return made;
  py::list all(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) all[i] = object_of(list[i]);
  return all;
}

py::object object_of(const fl::arrow_value& value) {
  switch (value.type()) {
  case fl::arrow_type::null:
    return py::none();
  case fl::arrow_type::boolean:
    return py::bool_(value.as<bool>());
  case fl::arrow_type::integer:
    return value.field()->is_signed ? py::int_(value.as<std::int64_t>())
                                    : py::int_(value.as<std::uint64_t>());
  case fl::arrow_type::floating_point:
    return py::float_(value.as<double>());
  case fl::arrow_type::decimal:
    return py::module_::import("decimal").attr("Decimal")(value.as<std::string>());
  case fl::arrow_type::date:
  case fl::arrow_type::time:
  case fl::arrow_type::timestamp:
  case fl::arrow_type::duration:
    return time_of(value);
  case fl::arrow_type::utf8:
  case fl::arrow_type::large_utf8:
  case fl::arrow_type::utf8_view:
    return fl::python::text_of(value.as<std::string_view>());
  case fl::arrow_type::map: { // keys may occur twice, or be lists
    py::list all(value.size());
    for (std::size_t i = 0; i < value.size(); ++i)
      all[i] = py::make_tuple(object_of(value[i][0]), object_of(value[i][1]));
    return all;
  }
  case fl::arrow_type::list:
  case fl::arrow_type::large_list:
  case fl::arrow_type::fixed_size_list:
    return list_of(value);
  case fl::arrow_type::structure: {
    py::dict all;
    for (std::size_t i = 0; i < value.size(); ++i)
      all[fl::python::text_of(value.field()->children[i].name)] = object_of(value[i]);
    return all;
  }
  default: {
    const auto bytes = value.as<std::span<const std::byte>>();
    return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  }
}

/// Whether the rows of a file can be read only once, and so can't be counted.
bool is_pipe(const std::string& name) {
  std::error_code error;
  const auto status = std::filesystem::status(name, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

} // namespace

py::dict dict_of(const arrow_record_row& row, std::string_view without) {
  py::dict all;
  for (const auto& [name, value] : *row) {
    py::object made = name == without ? py::none() : object_of(value);
    // A function after others no longer knows the folder.
    if (name != without && value.type() == fl::arrow_type::structure) {
      py::dict parts = made;
      if (parts.size() == 2 && parts.contains("bytes") && parts.contains("path") &&
          parts["bytes"].is_none() && py::isinstance<py::str>(parts["path"])) {
        const std::string path = path_in_row(parts["path"].cast<std::string>(), row.file());
        std::error_code error;
        if (std::filesystem::is_regular_file(path, error)) parts["path"] = fl::python::text_of(path);
      }
    }
    all[fl::python::text_of(name)] = std::move(made);
  }
  return all;
}

composed arrow_rows(const fl::file_patterns& files, const std::vector<std::string>& columns, bool shuffle,
                    const fl::callback<std::string>& on_notice, std::size_t max_row_bytes) {
  const auto rows = fl::arrow_rows<fl::arrow_record>(arrow_files_of(files), columns,
                                                     {.max_row_bytes = max_row_bytes, .on_notice = on_notice})
                        .source();
  const bool is_counted = std::ranges::none_of(rows.files().names(), is_pipe);
  return in_order<arrow_record_row>(
             rows, shuffle, [](arrow_record_row& row) -> py::object { return dict_of(row); },
             is_counted ? "" : "rows of a pipe can be read only once")
      .with_growth(&composed::unknown);
}

void add_arrow(py::module_& m) {
  m.def("rows", [](const fl::file_patterns& files, const std::vector<std::string>& columns, bool shuffle,
                   std::int64_t max_row_bytes) {
    return arrow_rows(files, columns, shuffle, {},
                      checked("max_row_bytes", max_row_bytes, std::int64_t{1} << 40));
  });
}
