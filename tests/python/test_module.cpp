// SPDX-License-Identifier: MIT
// The module that the tests in Python import.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <ranges>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <feedline/core/dynamic_pipeline.hpp>
#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/object.hpp>
#include <feedline/python/telemetry.hpp>
#include <pybind11/functional.h>

namespace fl = feedline;
namespace py = pybind11;

namespace {

std::vector<int> numbers(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

/// Numbers that pass a Python function, a buffer and a filter in C++, in a random order.
fl::any_pipeline<fl::python::object> mapped(PyObject* function, std::uint64_t count, std::size_t workers) {
  using fl::python::object;
  const auto source = fl::from(std::views::iota(std::uint64_t{0}, count));
  py::object (*const convert)(std::uint64_t&) = [](std::uint64_t& n) -> py::object { return py::int_(n); };

  struct calling {
    fl::python::lock hold_row() const { return {}; }

    object operator()(object&& item, fl::context&) const {
      if (!item.value_if<std::uint64_t>() || item.value_if<int>()) throw std::logic_error("no number");
      const fl::python::lock held;
      return object(py::reinterpret_borrow<py::function>(function)(item.get()));
    }

    PyObject* function;
  };

  fl::dynamic_pipeline p(fl::from(fl::python::objects_of(source, convert)) | fl::global_shuffle());
  p = p.append(fl::map(calling{function}, fl::workers{workers}, fl::name{"call"}));
  p = p.append(fl::shuffle({.capacity = 8}));
  return p.append(fl::filter([](const object&, fl::context& c) { return c.index % 5 != 4; }));
}

// Where items and sources wait, so that tests know when they do.
class gate {
 public:
  enum state : int { open, shut, broken };

  void set(state s) {
    state_ = s;
    state_.notify_all();
  }

  void pass() {
    if (state_ == shut) arrive();
    state_.wait(shut);
    if (state_ == broken) throw std::runtime_error("the gate is broken");
  }

  void wait_until_stopped(const std::stop_token& stop) {
    std::binary_semaphore stopped(0);
    const std::stop_callback on_stop(stop, [&] { stopped.release(); });
    arrive();
    stopped.acquire();
  }

  // Waits until something waits.
  void await() {
    arrived_.wait(0);
    arrived_ = 0;
  }

 private:
  void arrive() {
    ++arrived_;
    arrived_.notify_all();
  }

  std::atomic<int> state_{open};
  std::atomic<int> arrived_{0};
};

gate the_gate;

// Counts the memory of batches.
class counted_memory : public std::pmr::memory_resource {
 public:
  std::atomic<int> taken{0}, live{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++taken;
    ++live;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }

  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    --live;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }

  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

counted_memory the_memory;

// A source whose opening and fingerprint pass the gate.
struct gated_source {
  int count;
  int at = 0;

  std::optional<int> next() { return at < count ? std::optional(at++) : std::nullopt; }

  void state(auto& archive) { archive(at); }

  std::uint64_t size() const {
    the_gate.pass();
    return static_cast<std::uint64_t>(count);
  }

  std::uint64_t extent() const { return size(); }

  std::uint64_t fingerprint(std::uint64_t) const {
    the_gate.pass();
    return 1;
  }
};

struct box {
  int width;
  float height;
};

struct example {
  int label;
  std::array<float, 3> pixels;
  std::string name;
  std::optional<double> weight;
  box where;
  fl::float16 half;
  fl::bfloat16 brain;
};

example make_example(int n) {
  const float x = static_cast<float>(n);
  return {n,
          {x, x + 1, x + 2},
          "name " + std::to_string(n),
          n % 2 == 0 ? std::optional(n / 2.0) : std::nullopt,
          {n, x / 2},
          fl::float16(x),
          fl::bfloat16(x)};
}

struct token_list {
  std::vector<int> tokens;
};

struct named_box {
  float left;
  std::array<std::int16_t, 2> size;
  std::string name;
};

struct photo {
  std::vector<named_box> boxes;
  std::vector<double> scores;
};

/// Photo n has n boxes.
photo make_photo(int n) {
  photo p;
  for (int i = 0; i < n; ++i) {
    p.boxes.push_back({static_cast<float>(i) + 0.5f, {static_cast<std::int16_t>(n), 7}, std::to_string(i)});
    p.scores.push_back(n);
  }
  return p;
}

using texts = fl::batch_of<std::string>;
using ints = fl::batch_of<int>;

template <class Item>
fl::any_pipeline<std::variant<texts, ints>> either(std::vector<Item> all) {
  return fl::from(std::move(all)) | fl::batch(2) |
         fl::map([](fl::batch_of<Item> b) { return std::variant<texts, ints>(std::move(b)); });
}

/// A class, not a struct: Python sees what fields() returns.
class measurement {
 public:
  explicit measurement(int n) : count_(n), values_({2}) { values_[0] = values_[1] = static_cast<float>(n); }

  auto fields() { return std::tie(count_, values_); }

 private:
  int count_;
  fl::tensor<float> values_;
};

enum class color : std::uint8_t { red = 3, blue = 250 };

// What as_list leaves as it is.
struct oddity {
  fl::tensor<float> point;
  std::vector<int> none;
  std::vector<bool> bits;
  std::vector<std::byte> bytes;
  std::vector<color> colors;
  color one;
  char letter;
  std::variant<int, std::string> either;
  std::pair<box, std::optional<std::string>> nested;
  std::array<std::string, 2> words;
  fl::bfloat16 brain;
};

oddity make_oddity(int n) {
  oddity o{fl::tensor<float>(fl::shape{}),
           {},
           {true, false},
           {std::byte{255}},
           {color::blue},
           color::red,
           static_cast<char>(-n),
           n,
           {},
           {"a", "b"},
           fl::bfloat16(1.5f)};
  *o.point.data() = static_cast<float>(n);
  o.nested.first.width = n;
  if (n % 2 != 0) {
    o.either = "odd";
    o.nested.second = "odd";
  }
  return o;
}

// Keywords of Python.
struct odd_names {
  int lambda;
  int from;
};

static_assert(fl::detail::has_python_objects<std::vector<py::object>>);
static_assert(fl::detail::has_python_objects<std::optional<py::list>>);
static_assert(!fl::detail::has_python_objects<fl::python::option::on_notice>);
static_assert(!fl::detail::has_python_objects<std::vector<std::string>>);

using numbers_pipeline = fl::any_pipeline<fl::batch_of<int>>;

numbers_pipeline evens(int count) {
  return fl::from(numbers(count)) | fl::filter([](int n) { return n % 2 == 0; }) | fl::batch(4);
}

numbers_pipeline odds(int count) {
  return fl::from(numbers(count)) | fl::filter([](int n) { return n % 2 != 0; }) | fl::batch(4);
}

} // namespace

PYBIND11_MODULE(feedline_test_module, m) {
  fl::python::bind_telemetry(
      m, fl::python::bind_loader(
             m, "Numbers",
             [](int count, std::size_t batch_size, int fails_at, const std::string& message, bool waits) {
               return fl::from(numbers(count)) | fl::global_shuffle() |
                      fl::map(
                          [=](int n, fl::context& c) {
                            if (n == fails_at) throw std::runtime_error(message);
                            if (waits) the_gate.wait_until_stopped(c.stop);
                            the_gate.pass();
                            return n;
                          },
                          fl::workers{2}, fl::name{"check"}) |
                      fl::batch(batch_size, {.memory = &the_memory});
             },
             py::arg("count"), py::arg("batch_size") = 4, py::arg("fails_at") = -1,
             py::arg("message") = "unlucky", py::arg("waits") = false, "Numbers in random order."));
  fl::python::bind_loader(
      m, "Examples",
      [](int count) {
        return fl::from(numbers(count)) | fl::map(make_example) | fl::batch(4, {.memory = &the_memory});
      },
      py::arg("count"));
  fl::python::bind_loader(
      m, "Padded",
      [](int count, bool mask) {
        return fl::from(numbers(count)) | fl::map([](int n) {
                 return token_list{std::vector<int>(static_cast<std::size_t>(n + 1), n)};
               }) |
               fl::batch(3, fl::padded{.value = -1, .mask = mask});
      },
      py::arg("count"), py::arg("mask") = false);
  fl::python::bind_loader(
      m, "Photos", [](int count) { return fl::from(numbers(count)) | fl::map(make_photo) | fl::batch(3); },
      py::arg("count"));
  // Options of the run among the parameters, with defaults of their own.
  fl::python::bind_loader(
      m, "Names",
      [](const fl::file_patterns& names, fl::python::option::seed seed, bool as_numbers,
         fl::python::option::infinite) {
        if (as_numbers) return either(std::vector<int>{static_cast<int>(seed.value.value_or(0)), 7});
        return either(names.names());
      },
      py::arg("names"), py::arg("seed") = 5, py::arg("as_numbers") = false, py::arg("infinite") = true);
  // What decides an item is checked when a state is loaded.
  fl::python::bind_loader(
      m, "Scaled",
      [](int count, double scale, const std::vector<int>& offsets, std::size_t workers) {
        return fl::from(numbers(count)) |
               fl::map(
                   [=](int n) {
                     return box{n, static_cast<float>(scale * n + offsets.at(0))};
                   },
                   fl::workers{workers}) |
               fl::batch(2);
      },
      py::arg("count"), py::arg("scale") = 1.0, py::arg("offsets") = std::vector{0}, py::arg("workers") = 1,
      fl::python::checked_on_resume{{"scale", "offsets"}});
  m.def("bind_a_check_of_nothing", [to = m]() mutable {
    fl::python::bind_loader(
        to, "WrongCheck", [](int count) { return fl::from(numbers(count)); }, py::arg("count"),
        fl::python::checked_on_resume{{"cuont"}});
  });
  m.def("bind_a_name_that_an_option_has", [to = m]() mutable {
    fl::python::bind_loader(
        to, "Wrong", [](int seed) { return fl::from(numbers(seed)); }, py::arg("seed"));
  });
  fl::python::bind_loader(
      m, "Measurements",
      [](int count) { return fl::from(numbers(count)) | fl::map([](int n) { return measurement(n); }); },
      py::arg("count"));
  fl::python::bind_loader(
      m, "Oddities",
      [](int count) { return fl::from(numbers(count)) | fl::map(make_oddity) | fl::batch(2, fl::as_list); },
      py::arg("count"));
  fl::python::bind_loader(
      m, "Gated", [](int count) { return fl::from(gated_source{count}) | fl::batch(4); }, py::arg("count"));
  fl::python::bind_loader(
      m, "Shuffled",
      [](int count, bool waits) {
        return fl::from(numbers(count)) | fl::map([=](int n, fl::context& c) {
                 if (waits) the_gate.wait_until_stopped(c.stop);
                 return n;
               }) |
               fl::shuffle({.capacity = 16, .min_fill = 16}) | fl::batch(4);
      },
      py::arg("count"), py::arg("waits") = false);
  fl::python::bind_loader(
      m, "Listed",
      [](const py::list& values) { return fl::from(values.cast<std::vector<float>>()) | fl::batch(4); },
      py::arg("values"));
  fl::python::bind_loader(
      m, "OddNames",
      [](int count) { return fl::from(numbers(count)) | fl::map([](int n) {
                               return odd_names{n, n + 1};
                             }); },
      py::arg("count"));
  fl::python::bind_loader(
      m, "Applied",
      [](int count, std::function<int(int)> f) {
        return fl::from(numbers(count)) | fl::map(std::move(f)) | fl::batch(4);
      },
      py::arg("count"), py::arg("f"));
  fl::python::bind_loader(m, "Evens", &evens, py::arg("count"), py::doc("Even numbers."));
  fl::python::bind_loader(m, "Odds", &odds, py::arg("count"));

  m.def("refuse", [](const std::string& kind, const std::string& message) {
    if (kind == "invalid_argument") throw std::invalid_argument(message);
    if (kind == "length_error") throw std::length_error(message);
    if (kind == "out_of_range") throw std::out_of_range(message);
    if (kind == "overflow_error") throw std::overflow_error(message);
    if (kind == "system_error") throw std::system_error(std::make_error_code(std::errc::io_error), message);
    throw std::runtime_error(message);
  });
  m.def(
      "scaled",
      [](const std::array<double, 2>& by, const std::optional<std::vector<int>>& counts) {
        std::vector<double> all;
        for (const int count : counts.value_or(std::vector<int>())) all.push_back(by[0] * count);
        return all;
      },
      py::arg("by"), py::arg("counts") = py::none());

  fl::python::bind_loader(
      m, "Mapped",
      [](const py::object& function, std::uint64_t count, std::size_t workers) {
        return fl::python::with_references<fl::python::object>{mapped(function.ptr(), count, workers),
                                                               {function}};
      },
      py::arg("function"), py::arg("count"), py::arg("workers") = 2);

  py::enum_<gate::state>(m, "Gate")
      .value("open", gate::open)
      .value("shut", gate::shut)
      .value("broken", gate::broken);
  m.def("set_gate", [](gate::state s) { the_gate.set(s); });
  m.def(
      "await_waiting", [] { the_gate.await(); }, py::call_guard<py::gil_scoped_release>());
  m.def(
      "live_blocks", [] { return the_memory.live.load(); }, "The blocks of memory that batches have now.");
  m.def("taken_blocks", [] { return the_memory.taken.load(); });
  if constexpr (fl::detail::is_address_sanitized)
    m.def("use_after_free", [] {
      const auto number = new int(1);
      delete number;
      return *number;
    });
}
