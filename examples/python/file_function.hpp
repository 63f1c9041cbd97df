// SPDX-License-Identifier: MIT
#pragma once
// A function for map() of a pipeline of Python's that makes an array of an encoded file, which an item is or has.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/python/object.hpp>

#ifdef WITH_ARROW
#include "arrow_file.hpp"
#endif
#include "parts.hpp"

/// The member that a sample has, of several names.
inline std::string member_of(const feedline::tar_sample& sample, std::string_view names) {
  std::string_view last;
  const bool is_there = first_of(names, [&](std::string_view name) {
    last = name;
    return sample.find(name).has_value();
  });
  if (!is_there && last != names)
    throw std::runtime_error("the sample has no member `" + std::string(names) + "`: " + sample.origin());
  return std::string(last);
}

/// Without Python's lock: of a path, of bytes, or of the member of a sample, a row or a dict, which stays as it is but for that member.
template <class T>
class file_function final : public native_function {
 public:
  using tensor = feedline::tensor<T>;
  using maker = std::function<tensor(std::span<const std::byte> file, feedline::context& context)>;

  /// `members`: of which an item has one, separated by ";".
  file_function(const char* name, std::string members, maker make)
      : name_(name), members_(std::move(members)), make_(std::move(make)) {}

  const char* name() const noexcept override { return name_; }

  std::shared_ptr<native_function> of_member(const std::string& member) const override {
    return std::make_shared<file_function>(name_, member, make_);
  }

  feedline::python::object call(feedline::python::object&& item, feedline::context& context) const override {
    if (const auto* const path = item.value_if<std::string>())
      return {make_(feedline::read_file(*path), context), &array_of};
    if (const auto* const bytes = item.value_if<std::vector<std::byte>>())
      return {make_(*bytes, context), &array_of};
    if (auto* const sample = item.value_if<feedline::tar_sample>()) {
      std::string member = member_of(*sample, members_);
      tensor made = make_((*sample)[member], context);
      return with_made(std::move(*sample), std::move(member), std::move(made));
    }
#ifdef WITH_ARROW
    if (auto* const row = item.value_if<arrow_record_row>()) {
      const auto& [column, value] = column_of(*row, members_);
      tensor made = make_(file_in_row(value, row->file()).bytes(), context);
      return with_made(std::move(*row), std::string(column), std::move(made));
    }
#endif
    return of_python(item, context);
  }

 private:
  template <class Sample>
  struct sample_with {
    Sample sample;
    std::string member;
    tensor made;
  };

  static pybind11::object array_of(tensor& made) { return feedline::python::array_of(std::move(made)); }

  template <class Sample>
  static feedline::python::object with_made(Sample&& sample, std::string&& member, tensor&& made) {
    using all = sample_with<Sample>;
    return {all{std::move(sample), std::move(member), std::move(made)}, +[](all& s) -> pybind11::object {
              pybind11::dict members = dict_of(s.sample, s.member);
              members[s.member.c_str()] = array_of(s.made);
              return members;
            }};
  }

  // Python's lock is needed to look at the object, but not while the array is made.
  feedline::python::object of_python(const feedline::python::object& item, feedline::context& context) const {
    namespace py = pybind11;
    const feedline::python::lock held;
    const py::object o = item.get();
    const auto made_of = [&](py::object file) {
      tensor made;
      const bool is_of_row = py::isinstance<py::dict>(file);
      if (is_of_row) {
        const py::dict parts = file;
        file = parts.attr("get")("bytes");
        if (file.is_none()) file = parts.attr("get")("path");
      }
      if (PyObject_CheckBuffer(file.ptr()) != 0 && !py::isinstance<py::bytes>(file))
        file = py::module_::import("builtins").attr("bytes")(file);
      if (py::isinstance<py::bytes>(file)) {
        const auto text = file.cast<std::string_view>();
        const py::gil_scoped_release unlocked;
        made = make_(std::as_bytes(std::span(text)), context);
      } else {
        const auto path = py::module_::import("os").attr("fsencode")(file).cast<std::string>();
        const py::gil_scoped_release unlocked;
        made = make_(is_of_row ? read_named_file(path) : feedline::read_file(path), context);
      }
      return array_of(made);
    };
    if (!py::isinstance<py::dict>(o)) return feedline::python::object(made_of(o));
    py::dict all = o.attr("copy")();
    std::string member;
    const bool is_there = first_of(members_, [&](std::string_view name) {
      member = name;
      return all.contains(member);
    });
    if (!is_there) {
      const py::object there = py::str(", ").attr("join")(
          py::module_::import("builtins").attr("map")(py::type::of(py::str()), all));
      throw py::key_error("the item has no member `" + members_ + "`, only " + there.cast<std::string>());
    }
    all[member.c_str()] = made_of(all[member.c_str()]);
    return feedline::python::object(std::move(all));
  }

  const char* name_;
  std::string members_;
  maker make_;
};
