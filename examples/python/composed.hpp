// SPDX-License-Identifier: MIT
#pragma once
// What Python composes: a source, and stages after it. Each source is made where its library is known.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/dynamic_pipeline.hpp>
#include <feedline/feedline.hpp>
#include <feedline/python/object.hpp>
#include <feedline/source/any_source.hpp>

#include "parts.hpp"

/// A pipeline, and what else can be done with it as long as it is a source without stages.
struct composed {
  using pipeline = feedline::dynamic_pipeline<feedline::python::object>;
  using file_source = feedline::any_source<feedline::python::object, true>; // whose files ranks divide

  /// The bytes of an item as Python's, of those that it has as a value of C++; nothing if they are unknown.
  using growth = std::optional<std::size_t> (*)(std::size_t);

  static std::optional<std::size_t> same(std::size_t bytes) { return bytes; }

  /// Python has up to four bytes for a letter.
  static std::optional<std::size_t> of_text(std::size_t bytes) { return 4 * bytes; }

  static std::optional<std::size_t> unknown(std::size_t) { return std::nullopt; }

  /// A source whose samples can be read by position.
  explicit composed(const feedline::python::object_source& source);

  /// A source that reads file after file; `size` counts its samples, and `by_position` has them in any order.
  composed(const file_source& source, std::function<std::uint64_t()> size,
           const feedline::python::object_source& by_position);

  explicit composed(pipeline p) : stages(std::move(p)) {}

  /// The pipeline that results from stages, which call these functions.
  composed then(pipeline result, const std::vector<pybind11::object>& called = {}) const {
    composed longer(std::move(result));
    longer.functions = functions;
    longer.as_python = as_python;
    longer.parts_as_python = parts_as_python;
    longer.functions.insert(longer.functions.end(), called.begin(), called.end());
    return longer;
  }

  composed with_growth(growth grow) && {
    as_python = grow;
    parts_as_python.clear();
    return std::move(*this);
  }

  // For Python's garbage collector: a function often refers to an object that has the pipeline.

  int traverse(visitproc visit, void* arg) const {
    for (const pybind11::object& f : functions) Py_VISIT(f.ptr());
    return 0;
  }

  void clear() { functions.clear(); }

  pipeline stages;
  growth as_python = &same;              // of its items
  std::vector<growth> parts_as_python{}; // of those of each part of concat, mix and zip
  std::optional<feedline::python::object_source> by_position{};
  std::optional<feedline::any_source<feedline::python::object>> part{}; // of concat, mix and zip
  std::function<std::uint64_t()> size{};                                // may throw Python's TypeError
  std::vector<pybind11::object> functions{};                            // that it calls
};

/// Samples in the order of their files, which have another order in each epoch if `shuffle`. `uncounted`: why they can't be counted.
template <class T, class Source>
composed in_order(const Source& source, bool shuffle, pybind11::object (*convert)(T&),
                  std::string uncounted = {}) {
  const file_samples samples(source, !shuffle, std::move(uncounted));
  return {composed::file_source(samples, feedline::python::to_object<T>(convert)),
          [samples] { return samples.size(); },
          feedline::python::objects_of(feedline::from(source), convert)};
}

/// All samples of a source that can be read by position in a random order, another one in each epoch.
composed globally_shuffled(const composed& source);

/// The samples of TAR shards.
composed tar_samples(const feedline::file_patterns& shards, const feedline::tar_options& options,
                     bool shuffle, std::string uncounted = {});

struct document_options {
  pybind11::object tokenize; // of the value of the field; None: the field has the tokens
  std::string field;
  std::size_t workers; // that tokenize
  std::int64_t length;
  std::optional<std::int64_t> stride, separator;
  bool shuffle; // documents
  std::optional<std::int64_t> max_line_bytes;
};

/// Windows of the tokens of documents, which are lines of JSON.
composed document_windows(const feedline::file_patterns& files, const document_options& options);
