// SPDX-License-Identifier: MIT
// How many photographs a second does libtorch's C++ DataLoader decode and batch, with the decoder and the two
// threads of bench_photos? Beside it feedline's pipeline, for a ratio from one run.
#include <cstddef>
#include <vector>

#include <torch/torch.h>

#include "photos.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t threads = 2;
constexpr std::size_t batch_size = 32;

class photo_dataset : public torch::data::datasets::Dataset<photo_dataset, torch::Tensor> {
 public:
  explicit photo_dataset(const std::vector<fl::tar_sample>& all) : all_(&all) {}

  torch::Tensor get(std::size_t index) override {
    fl::jpeg_decoder& decoder = thread_decoder();
    const auto file = (*all_)[index]["jpg"];
    const auto header = decoder.read_header(file);
    auto pixels =
        torch::empty({static_cast<std::int64_t>(header.height), static_cast<std::int64_t>(header.width),
                      static_cast<std::int64_t>(header.channels)},
                     torch::kUInt8);
    decoder.decode_into(file, {pixels.data_ptr<std::uint8_t>(), static_cast<std::size_t>(pixels.numel())});
    return pixels;
  }

  torch::optional<std::size_t> size() const override { return all_->size(); }

 private:
  static fl::jpeg_decoder& thread_decoder() {
    thread_local fl::jpeg_decoder decoder;
    return decoder;
  }

  const std::vector<fl::tar_sample>* all_;
};

void libtorch_data_loader(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  torch::set_num_threads(1);
  for (auto _ : state) {
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        photo_dataset(all), torch::data::DataLoaderOptions().batch_size(batch_size).workers(threads));
    for (auto& batch : *loader) benchmark::DoNotOptimize(batch.front().data_ptr());
  }
  report_photos(state, all.size());
}

void feedline_pipeline(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  const auto pipeline = fl::tar_samples(photo_shards()) | fl::map(decode, fl::workers{threads}) |
                        fl::batch(batch_size, fl::as_list);
  for (auto _ : state)
    for (const auto& batch : pipeline.finite()) benchmark::DoNotOptimize(batch.values().front().data());
  report_photos(state, all.size());
}

BENCHMARK(libtorch_data_loader)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(feedline_pipeline)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
