// SPDX-License-Identifier: MIT
// The module that the tests in Python import.
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/python.hpp>

namespace fl = feedline;
namespace py = pybind11;

namespace {

std::vector<int> numbers(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

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

} // namespace

PYBIND11_MODULE(feedline_test_module, m) {
  fl::python::bind_loader(
      m, "Numbers",
      [](int count, std::size_t batch_size, int fails_at, double seconds) {
        return fl::from(numbers(count)) | fl::global_shuffle() |
               fl::map(
                   [=](int n, fl::context& c) {
                     if (n == fails_at) throw std::runtime_error("unlucky");
                     if (seconds > 0) {
                       const auto end =
                           std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
                       while (std::chrono::steady_clock::now() < end && !c.stop.stop_requested())
                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                     }
                     return n;
                   },
                   fl::workers{2}, fl::name{"check"}) |
               fl::batch(batch_size);
      },
      py::arg("count"), py::arg("batch_size") = 4, py::arg("fails_at") = -1, py::arg("seconds") = 0.0,
      "Numbers in random order.");
  fl::python::bind_loader(
      m, "Examples",
      [](int count) { return fl::from(numbers(count)) | fl::map(make_example) | fl::batch(4); },
      py::arg("count"));
  fl::python::bind_loader(
      m, "Padded",
      [](int count) {
        return fl::from(numbers(count)) | fl::map([](int n) {
                 return token_list{std::vector<int>(static_cast<std::size_t>(n + 1), n)};
               }) |
               fl::batch(3, fl::padded{.value = -1});
      },
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
  m.def("bind_a_name_that_an_option_has", [](py::module_ to) {
    fl::python::bind_loader(
        to, "Wrong", [](int seed) { return fl::from(numbers(seed)); }, py::arg("seed"));
  });
  fl::python::bind_loader(
      m, "Measurements",
      [](int count) { return fl::from(numbers(count)) | fl::map([](int n) { return measurement(n); }); },
      py::arg("count"));
}
