// SPDX-License-Identifier: MIT
// The pipelines that bench/python_loader/run measures: as Python classes, and in a loop of C++ for comparison.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>
#include <feedline/python.hpp>

namespace fl = feedline;
namespace py = pybind11;

namespace {

struct small_example {
  std::int32_t label;
  float a, b;
  std::array<float, 3> c, d;
};

/// Batches that take almost no time to make: what remains is the loop.
auto small_batches(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  return fl::from(std::move(numbers)) | fl::map([](int n) {
           return small_example{n, 0, 0, {}, {}};
         }) |
         fl::batch(1);
}

struct photo {
  fl::tensor<float, 3, 224, 224> pixels;
  std::int32_t label;
};

/// Random crops in batches of 64.
auto photo_batches(const std::vector<std::string>& shards, std::size_t workers) {
  const auto decode = [](const fl::tar_sample& sample, fl::batch_slot<photo>& slot, fl::context& c) {
    const bool mirrored = c.random.chance(0.5);
    fl::decode_jpeg_crop(sample["jpg"],
                         [&](std::size_t height, std::size_t width) {
                           return fl::random_resized_crop{}(height, width, c.random);
                         },
                         fl::chw_view(slot.get<&photo::pixels>(), 3, 224, 224),
                         {.horizontal_flip = mirrored, .normalization = fl::imagenet_normalization});
    slot.get<&photo::label>() = 0;
  };
  return fl::tar_samples(shards) |
         fl::batch_into<photo>(64, decode, fl::workers{workers}, fl::name{"decode"});
}

/// Takes batches in C++, and returns the seconds for one.
template <class Pipeline>
double loop(const Pipeline& pipeline, int warm_up, int batches) {
  const py::gil_scoped_release unlocked;
  auto loader = pipeline.infinite();
  for (int i = 0; i < warm_up; ++i) loader.next().value();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < batches; ++i) loader.next().value();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / batches;
}

} // namespace

PYBIND11_MODULE(bench_python_loader, m) {
  fl::python::bind_loader(m, "Small", small_batches, py::arg("count"));
  fl::python::bind_loader(m, "Photos", photo_batches, py::arg("shards"), py::arg("workers"));
  m.def("small_loop", [](int warm_up, int batches) { return loop(small_batches(1000), warm_up, batches); });
  m.def("photo_loop", [](const std::vector<std::string>& shards, std::size_t workers, int warm_up,
                         int batches) { return loop(photo_batches(shards, workers), warm_up, batches); });
}
