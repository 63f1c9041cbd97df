// SPDX-License-Identifier: MIT
#pragma once
// The parts of the module, each in its own file and its own submodule, and what they share. One whose library is missing isn't built.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/contract.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/python/object.hpp>
#include <feedline/source/tar_sample.hpp>
#include <feedline/stage/shuffle.hpp>
#include <pybind11/pybind11.h>

void add_pipeline(pybind11::module_& m);
void add_text(pybind11::module_& m);
void add_images(pybind11::module_& m);
void add_audio(pybind11::module_& m);
void add_arrow(pybind11::module_& m);
void add_chess(pybind11::module_& m);

/// A function of C++ for map() of a pipeline of Python's, which calls it without Python's lock.
class native_function {
 public:
  virtual ~native_function() = default;

  virtual const char* name() const noexcept = 0;

  /// Whether it needs an item as a Python object.
  virtual bool sees_python() const noexcept { return false; }

  virtual feedline::python::object call(feedline::python::object&& item,
                                        feedline::context& context) const = 0;

  /// The same function for a member of a sample; null if it has no such.
  virtual std::shared_ptr<native_function> of_member(const std::string&) const { return nullptr; }
};

/// The contents of a file that data names. Throws std::runtime_error unless it is a regular file: a pipe could be waited for, and a device
/// read, for ever.
std::vector<std::byte> read_named_file(const std::string& name);

/// A sample by WebDataset's rules: its key as `__key__`, and its members by the rest of their names. `without`: a member to leave out.
pybind11::dict dict_of(const feedline::tar_sample& sample, std::string_view without = {});

inline void require(bool met, const std::string& sentence) {
  if (!met) throw std::invalid_argument(sentence); // Python's ValueError
}

/// What `find` returns for the first of some names, separated by ";", for which it finds something.
template <class Find>
auto first_of(std::string_view names, Find find) -> decltype(find(names)) {
  for (;;) {
    const std::size_t end = names.find(';');
    if (const auto found = find(names.substr(0, end)); found || end == names.npos) return found;
    names.remove_prefix(end + 1);
  }
}

/// A number from min to max.
inline std::size_t checked(const char* name, std::int64_t value, std::int64_t max, std::int64_t min = 1) {
  require(value >= min && value <= max, std::string(name) + " must be from " + std::to_string(min) + " to " +
                                            std::to_string(max) + ", not " + std::to_string(value));
  return static_cast<std::size_t>(value);
}

/// The threads of a stage. PyTorch's name replaces ours; its 0 means no other processes, and here are none.
inline std::size_t workers_of(std::int64_t n_workers, const std::optional<std::int64_t>& num_workers) {
  return num_workers
             ? checked("num_workers", std::max<std::int64_t>(*num_workers, 1), feedline::workers::limit)
             : checked("n_workers", n_workers, feedline::workers::limit);
}

/// The options of a shuffle buffer. PyTorch's shuffle=False means a buffer of 1.
inline feedline::shuffle_options shuffle_of(std::int64_t buffer_size,
                                            const std::optional<std::int64_t>& min_size,
                                            std::size_t default_min_size,
                                            const std::optional<bool>& shuffle) {
  if (shuffle == false) return {1, 1};
  require(!shuffle || (buffer_size != 1 && min_size != 0),
          "shuffle is True, but a buffer of 1 and a minimum of 0 shuffle nothing");
  const std::size_t capacity = checked("shuffle_buffer_size", buffer_size, 100'000'000);
  const std::size_t min_fill = min_size ? checked("shuffle_min_size", *min_size, 100'000'000, 0)
                                        : std::min(default_min_size, capacity);
  require(min_fill <= capacity, "shuffle_min_size " + std::to_string(min_fill) +
                                    " is above shuffle_buffer_size " + std::to_string(buffer_size) +
                                    ": the shuffle buffer would never hold so many");
  return {capacity, min_fill};
}

/// Whether a shuffle buffer leaves the order as it is.
inline bool keeps_order(const feedline::shuffle_options& o) { return o.capacity == 1 || o.min_fill == 0; }

/// A source of files that knows how many samples it has, from their headers or metadata, read once for all copies. With `listed`
/// each epoch has the files in their listed order.
template <class Source>
class file_samples : public Source {
 public:
  /// `uncounted`: why the samples can't be counted; empty if they can.
  file_samples(Source source, bool listed, std::string uncounted = {})
      : Source(std::move(source)), listed_(listed), count_(std::make_shared<count>()) {
    count_->problem = std::move(uncounted);
  }

  void start_epoch(feedline::epoch e) {
    if (listed_) e.shuffled = false;
    Source::start_epoch(e);
  }

  /// For len(loader), which raises TypeError if they can't be counted.
  std::uint64_t size() const {
    if (!count_->problem.empty()) throw pybind11::type_error("this loader has no length: " + count_->problem);
    const std::lock_guard lock(count_->mutex);
    if (!count_->samples) count_->samples = this->indexed().size();
    return *count_->samples;
  }

 private:
  struct count {
    std::string problem{};
    std::mutex mutex{};
    std::optional<std::uint64_t> samples{};
  };

  bool listed_;
  std::shared_ptr<count> count_;
};
