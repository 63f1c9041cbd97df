// SPDX-License-Identifier: MIT
// How many photographs per second does libtorch's C++ DataLoader give, with the same decoder and the same number of
// threads? Random parts, stacked in batches of 64, as in photo_crops; and whole photographs, in lists of 32, as in
// photos. feedline's pipelines, and bare threads for random parts, run in the same program. The loaders are endless,
// as in a training that has been running for a while.
#include <cstddef>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "photo_crops.hpp"

namespace fl = feedline;

namespace {

/// The common part of both data sets.
template <class Self, class Sample>
class photo_dataset : public torch::data::datasets::Dataset<Self, Sample> {
 public:
  explicit photo_dataset(const std::vector<fl::tar_sample>& all) : all_(&all) {}

  torch::optional<std::size_t> size() const override { return all_->size(); }

 protected:
  const fl::tar_sample& sample(std::size_t index) const { return (*all_)[index]; }

 private:
  const std::vector<fl::tar_sample>* all_;
};

class whole_photos : public photo_dataset<whole_photos, torch::Tensor> {
 public:
  using photo_dataset::photo_dataset;

  torch::Tensor get(std::size_t index) override {
    thread_local fl::jpeg_decoder decoder;
    const auto file = sample(index)["jpg"];
    const auto header = decoder.read_header(file);
    auto pixels =
        torch::empty({static_cast<std::int64_t>(header.height), static_cast<std::int64_t>(header.width),
                      static_cast<std::int64_t>(header.channels)},
                     torch::kUInt8);
    decoder.decode_into(file, {pixels.data_ptr<std::uint8_t>(), static_cast<std::size_t>(pixels.numel())});
    return pixels;
  }
};

class parts : public photo_dataset<parts, torch::data::Example<>> {
 public:
  using photo_dataset::photo_dataset;

  torch::data::Example<> get(std::size_t index) override {
    torch::Tensor pixels = torch::empty({3, side, side}, torch::kFloat);
    load<decoding::part_smaller>(sample(index), index,
                                 fl::chw_view(std::span(pixels.data_ptr<float>(), numbers), 3, side, side));
    return {std::move(pixels), torch::zeros({}, torch::kInt)};
  }
};

/// Yields the positions of a data set in order, endlessly.
class endless_sampler : public torch::data::samplers::Sampler<> {
 public:
  explicit endless_sampler(std::size_t size) : size_(size) {}

  void reset(torch::optional<std::size_t> size = {}) override {
    next_ = 0;
    if (size) size_ = *size;
  }

  torch::optional<std::vector<std::size_t>> next(std::size_t count) override {
    std::vector<std::size_t> places(count);
    for (auto& place : places) place = next_++ % size_;
    return places;
  }

  void save(torch::serialize::OutputArchive&) const override {}

  void load(torch::serialize::InputArchive&) override {}

 private:
  std::size_t size_;
  std::size_t next_ = 0;
};

template <class Dataset, class PixelsOf>
void consume_libtorch(benchmark::State& state, Dataset dataset, std::size_t batch,
                      const PixelsOf& pixels_of) {
  torch::set_num_threads(1);
  auto loader = torch::data::make_data_loader(
      std::move(dataset), endless_sampler(photos(state).size()),
      torch::data::DataLoaderOptions().batch_size(batch).workers(threads(state)));
  auto place = loader->begin();
  bool first = true;
  consume(state, batch, [&] {
    if (!std::exchange(first, false)) ++place;
    return pixels_of(*place);
  });
}

void libtorch_data_loader(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  consume_libtorch(state, parts(all).map(torch::data::transforms::Stack<>()), batch_size,
                   [](const torch::data::Example<>& batch) { return batch.data.data_ptr(); });
}

void whole_libtorch_data_loader(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  consume_libtorch(state, whole_photos(all), 32,
                   [](const std::vector<torch::Tensor>& batch) { return batch.front().data_ptr(); });
}

void whole_feedline_pipeline(benchmark::State& state) {
  if (photos(state).empty()) return;
  const auto pipeline = fl::tar_samples(photo_shards()) | fl::map(decode, fl::workers{threads(state)}) |
                        fl::batch(32, fl::as_list);
  auto loader = pipeline.infinite();
  consume(state, 32, [&] { return loader.next().value().values().front().data(); });
}

BENCHMARK(libtorch_data_loader)->Apply(of_some);
BENCHMARK(feedline_pipeline)->Apply(of_two);
BENCHMARK(bare_threads<decoding::part_smaller>)->Apply(of_two);
BENCHMARK(whole_libtorch_data_loader)->Apply(of_two);
BENCHMARK(whole_feedline_pipeline)->Apply(of_two);

} // namespace
