// SPDX-License-Identifier: MIT
#pragma once
// object: an item that is a Python object, or becomes one where Python needs it. objects_of: a source of them.
#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/samples_in_order.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/python/detail/to_python.hpp>

namespace feedline::inline FEEDLINE_ABI::python {

/// Python's lock (GIL), which any thread may take, also one that has it already. A thread keeps what Python knows of it until it
/// ends: who waits for the end of such a thread mustn't have the lock.
class [[gnu::visibility("hidden")]] lock {
 public:
  lock() {
    thread_local const known_thread this_thread;
    state_ = PyGILState_Ensure();
  }

  lock(lock&&) = delete;

  ~lock() { PyGILState_Release(state_); }

 private:
  // Otherwise each lock would make and destroy it.
  class known_thread {
   public:
    known_thread() : is_new_(PyGILState_GetThisThreadState() == nullptr) {
      if (!is_new_) return;
      PyGILState_Ensure();
      thread_ = PyEval_SaveThread();
    }

    known_thread(known_thread&&) = delete;

    ~known_thread() {
      if (!is_new_ || Py_IsInitialized() == 0) return;
      PyEval_RestoreThread(thread_);
      PyGILState_Release(PyGILState_UNLOCKED);
    }

   private:
    bool is_new_;
    PyThreadState* thread_ = nullptr;
  };

  PyGILState_STATE state_;
};

/// An item of a pipeline that Python composes: any Python object, or a value of C++ that becomes one when a function of Python's,
/// or the loop over a loader, receives it. Threads without Python's lock may move and destroy it.
class [[gnu::visibility("hidden")]] object {
 public:
  using feedline_shows_epoch = void;

  /// A value of C++ in an object.
  class value {
   public:
    virtual ~value() = default;

    /// Called once, with Python's lock.
    virtual pybind11::object to_python() = 0;
  };

  /// One of type T, and the function that makes the Python object: `convert(T&)`.
  template <class T>
  class value_of final : public value {
   public:
    using converter = pybind11::object (*)(T&); ///< makes the Python object

    /// Of the value and its converter.
    value_of(T v, converter convert) : held(std::move(v)), convert_(convert) {}

    pybind11::object to_python() override { return convert_(held); }

    T held; ///< the value

   private:
    converter convert_;
  };

  object() noexcept = default; ///< None

  /// Needs Python's lock, as it may drop a reference.
  explicit object(pybind11::object made) noexcept : python_(made.release().ptr()) {}

  /// A value that `convert` makes a Python object of, if Python needs it.
  template <class T>
  object(T held, pybind11::object (*convert)(T&))
      : value_(std::make_unique<value_of<T>>(std::move(held), convert)) {}

  ///@{
  /// Any thread may move it.
  object(object&& other) noexcept
      : epochs(std::move(other.epochs)),
        python_(std::exchange(other.python_, nullptr)),
        value_(std::move(other.value_)) {}

  object& operator=(object&& other) noexcept {
    epochs.swap(other.epochs);
    std::swap(python_, other.python_);
    value_.swap(other.value_);
    return *this;
  }

  ///@}

  ~object() {
    if (!python_ || Py_IsInitialized() == 0) return;
    const lock held;
    Py_DECREF(python_);
  }

  /// The Python object; needs Python's lock.
  pybind11::object get() const {
    if (!python_ && value_) {
      python_ = value_->to_python().release().ptr();
      value_.reset();
    }
    return pybind11::reinterpret_borrow<pybind11::object>(python_ ? python_ : Py_None);
  }

  /// The value of type T that it holds; null if it holds none, or is a Python object.
  template <class T>
  T* value_if() const noexcept {
    auto* const held = dynamic_cast<value_of<T>*>(value_.get());
    return held ? &held->held : nullptr;
  }

  std::vector<std::uint32_t> epochs{}; ///< of a batch: those of its samples

 private:
  mutable PyObject* python_ = nullptr; // owned
  mutable std::unique_ptr<value> value_;
};

/// Makes objects of values, for any_source.
template <class T>
class to_object {
 public:
  /// With the function that makes the Python object.
  explicit to_object(pybind11::object (*convert)(T&)) : convert_(convert) {}

  /// Needs no lock.
  object operator()(T&& held) const { return {std::move(held), convert_}; }

  /// The most bytes of an object whose value takes at most so many; nothing if that is unknown.
  std::optional<std::size_t> bytes_given(std::optional<std::size_t> of_value) const {
    if (of_value) *of_value += sizeof(object) + sizeof(object::value_of<T>);
    return of_value;
  }

 private:
  pybind11::object (*convert_)(T&);
};

/// A NumPy array that uses the tensor's memory; needs Python's lock.
template <class T, std::size_t... Extents>
pybind11::object array_of(tensor<T, Extents...> t) {
  return detail::as_python(std::move(t), detail::field_container::dict, false);
}

} // namespace feedline::inline FEEDLINE_ABI::python

namespace feedline::inline FEEDLINE_ABI::detail {

template <>
struct python_type<python::object> : any_fields {};

inline std::optional<std::uint32_t> last_epoch_of(const python::object& item) {
  return item.epochs.empty() ? std::nullopt : std::optional(item.epochs.back());
}

/// With `epoch` a batch, which must be a dict, has a field with that name.
inline py::object as_python(python::object item, field_container, bool epoch) {
  py::object made = item.get();
  if (!epoch) return made;
  if (item.epochs.empty() || !py::isinstance<py::dict>(made) || made.contains("epoch"))
    throw py::value_error("epoch: only a batch that is a dict, without a field `epoch`, gets another one");
  made["epoch"] = py::array_t<std::int64_t>(py::cast(item.epochs));
  return made;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The samples of some source. Any thread may use them.
class [[gnu::visibility("hidden")]] object_samples {
 public:
  virtual ~object_samples() = default;
  virtual std::string name() const = 0;
  virtual std::uint64_t size(const std::stop_token& stop) const = 0;
  virtual python::object at(std::uint64_t position, const std::stop_token& stop) const = 0;
  virtual std::uint64_t index_at(std::uint64_t position) const = 0;
  virtual std::optional<std::uint64_t> find(std::uint64_t index) const = 0;
  virtual std::string origin(std::uint64_t index) const = 0;
  virtual std::uint64_t extent() const = 0;
  virtual std::uint64_t size_of_first(std::uint64_t extent) const = 0;
  virtual std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) const = 0;
  virtual std::string parameters() const = 0;
  virtual bool will_need(std::uint64_t position) const noexcept = 0;
  virtual std::optional<std::size_t> max_item_bytes() const = 0;
};

template <indexed_source Source, class T>
class [[gnu::visibility("hidden")]] object_samples_of final : public object_samples {
 public:
  using converter = pybind11::object (*)(T&);
  using by_position = decltype(indexed(std::declval<const Source&>()));

  object_samples_of(Source source, converter convert) : source_(std::move(source)), convert_(convert) {}

  std::string name() const override { return stage_name(source_); }

  std::uint64_t size(const std::stop_token& stop) const override { return samples(stop).size(); }

  python::object at(std::uint64_t position, const std::stop_token& stop) const override {
    if constexpr (std::same_as<T, python::object>) return sample_at(samples(stop), position, stop);
    else return {T(sample_at(samples(stop), position, stop)), convert_};
  }

  std::uint64_t index_at(std::uint64_t position) const override {
    return detail::index_at(samples({}), position);
  }

  std::optional<std::uint64_t> find(std::uint64_t index) const override {
    return find_index(samples({}), index);
  }

  std::string origin(std::uint64_t index) const override { return origin_of(source_, index); }

  std::uint64_t extent() const override { return extent_of(source_); }

  std::uint64_t size_of_first(std::uint64_t extent) const override {
    if constexpr (requires(const by_position& all) { all.size_of_first(extent); })
      return samples({}).size_of_first(extent);
    else if constexpr (requires { source_.extent(); }) return samples({}).size();
    else return std::min<std::uint64_t>(samples({}).size(), extent);
  }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) const override {
    return fingerprint_of(source_, extent, stop);
  }

  std::string parameters() const override { return parameters_of(source_); }

  std::optional<std::size_t> max_item_bytes() const override {
    if constexpr (std::same_as<T, python::object>) return max_item_bytes_of(source_);
    else return python::to_object<T>(convert_).bytes_given(max_item_bytes_of(source_));
  }

  bool will_need(std::uint64_t position) const noexcept override {
    return is_listed_.load(std::memory_order_acquire) && announce_sample(*samples_, position);
  }

 private:
  // Listed at their first use: a constructor mustn't read files. After an error, or a stop, the next call tries again.
  const by_position& samples(const std::stop_token& stop) const {
    if (is_listed_.load(std::memory_order_acquire)) return *samples_;
    const std::lock_guard lock(mutex_);
    if (!is_listed_) samples_.emplace(indexed(source_, stop));
    is_listed_ = true;
    return *samples_;
  }

  Source source_;
  converter convert_;
  mutable std::mutex mutex_;
  mutable std::optional<by_position> samples_;
  mutable std::atomic<bool> is_listed_{false};
};

/// The same, as a value.
class [[gnu::visibility("hidden")]] object_positions {
 public:
  static constexpr source_traits traits{.kind = "samples"};

  explicit object_positions(std::shared_ptr<const object_samples> samples) : samples_(std::move(samples)) {}

  std::string name() const { return samples_->name(); }

  void list(const std::stop_token& stop) const { samples_->size(stop); }

  std::uint64_t size() const { return samples_->size({}); }

  python::object at(std::uint64_t position, const std::stop_token& stop) const {
    return samples_->at(position, stop);
  }

  python::object at(std::uint64_t position) const { return samples_->at(position, {}); }

  std::uint64_t index_at(std::uint64_t position) const { return samples_->index_at(position); }

  std::optional<std::uint64_t> find(std::uint64_t index) const { return samples_->find(index); }

  std::string origin(std::uint64_t index) const { return samples_->origin(index); }

  std::uint64_t extent() const { return samples_->extent(); }

  std::uint64_t size_of_first(std::uint64_t extent) const { return samples_->size_of_first(extent); }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    return samples_->fingerprint(extent, stop);
  }

  std::string parameters() const { return samples_->parameters(); }

  bool will_need(std::uint64_t position) const noexcept { return samples_->will_need(position); }

  std::optional<std::size_t> max_item_bytes() const { return samples_->max_item_bytes(); }

 private:
  std::shared_ptr<const object_samples> samples_;
};

/// A source of them, which also knows how many there are.
class [[gnu::visibility("hidden")]] object_source : public samples_in_order<object_positions> {
 public:
  using samples_in_order::samples_in_order;

  std::string whole_name() const { return positions().name(); }

  std::string parameters() const { return positions().parameters(); }

  /// Listing the samples may take long. Throws after a stop.
  object_positions indexed(const std::stop_token& stop = {}) const {
    object_positions all = positions();
    all.list(stop);
    return all;
  }

  std::uint64_t size() const { return indexed().size(); }

  void start_epoch(const epoch& e) {
    positions().list(e.stop);
    samples_in_order::start_epoch(e);
  }

 private:
  object_positions positions() const { return samples_in_order::indexed(); }
};

} // namespace detail

namespace python {

/// A source of objects that can be read by position: see objects_of.
using object_source = detail::object_source;

/// The samples of an indexed source, such as files() or records(), as objects; `convert(T&)` makes a Python object of one when Python
/// needs it. All sources become the same type, so that what follows is compiled once for all of them. Objects stay as they are.
template <class T, class Source, class... Segments>
object_source objects_of(const pipeline<Source, Segments...>& source, pybind11::object (*convert)(T&)) {
  return object_source(detail::object_positions(
      std::make_shared<detail::object_samples_of<Source, T>>(source.source(), convert)));
}

} // namespace python

} // namespace feedline::inline FEEDLINE_ABI
