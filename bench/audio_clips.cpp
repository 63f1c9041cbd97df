// SPDX-License-Identifier: MIT
// How near does a loader of sounds come to what the machine allows? Clips of 5 s, in memory as WAV, are decoded,
// resampled to 32 kHz, and become logarithmic mel spectrograms in batches of 64, on two workers. The baseline is two
// bare threads that share a counter, do the same, and write to memory of their own.
//
// How long does it take to end such a loader for training, with 8 workers and a shuffle buffer, when its queues are
// full and when it is at work, and how much memory does it take, compared with what it announces? (Run these alone,
// with --benchmark_filter=end_loader: earlier benchmarks leave memory allocated.)
//
// If FEEDLINE_BENCH_CLIPS names a folder, the clips are also written there, for bench/peers/torchaudio_clips.py.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

#include "loaders.hpp"
#include "sounds.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t rate = 32'000, seconds = 5, length = seconds * rate, clips = 128, batch_size = 64,
                      batches = 16;

struct example {
  fl::tensor<float, 128, 501> spectrogram;
};

using clip_files = std::vector<std::vector<std::byte>>;

/// Writes a clip to a file such as 44100-017.wav.
void write_clip(const std::vector<std::byte>& file, const std::string& folder, std::size_t file_rate,
                std::size_t number) {
  const std::string digits = std::to_string(1000 + number).substr(1);
  const auto path = std::filesystem::path(folder) / (std::to_string(file_rate) + "-" + digits + ".wav");
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  if (!stream.flush()) throw std::runtime_error("can't write " + path.string());
}

/// The clips of one sample rate.
const clip_files& files(std::size_t file_rate) {
  static std::map<std::size_t, clip_files> of_rates;
  clip_files& made = of_rates[file_rate];
  const char* const folder = std::getenv("FEEDLINE_BENCH_CLIPS");
  while (made.size() < clips) {
    made.push_back(wav_of(made_clip(seconds * file_rate, file_rate, made.size()), file_rate));
    if (folder) write_clip(made.back(), folder, file_rate, made.size() - 1);
  }
  return made;
}

const fl::mel_spectrogram& spectrogram() {
  static const fl::mel_spectrogram features({.sample_rate = rate,
                                             .fft_length = 1024,
                                             .hop_length = 320,
                                             .mels = 128,
                                             .values = fl::mel_values::natural_log});
  return features;
}

/// The work of a worker on one clip.
struct clip_maker {
  void operator()(std::size_t number, std::span<float> out, fl::random_generator& random) {
    const fl::audio_clip clip = decoder.decode((*files)[number % clips]);
    fl::random_crop_or_pad(resampler.resample(clip, rate).samples, samples, random);
    spectrogram()(samples, out);
  }

  const clip_files* files;
  fl::audio_decoder decoder{};
  fl::audio_resampler resampler{};
  std::vector<float> samples = std::vector<float>(length);
};

auto clip_numbers() {
  return fl::generate([n = std::size_t{0}]() mutable { return std::optional(n++); });
}

auto spectrograms(const clip_files& all, std::size_t workers) {
  const auto make = fl::per_worker([&all] {
    return [maker = clip_maker{&all}](std::size_t number, fl::batch_slot<example>& slot,
                                      fl::context& context) mutable {
      maker(number, slot.get<&example::spectrogram>(), context.random);
    };
  });
  return fl::batch_into<example>(batch_size, make, fl::workers{workers});
}

void feedline_pipeline(benchmark::State& state) {
  const clip_files& all = files(static_cast<std::size_t>(state.range(1)));
  const auto pipeline = clip_numbers() | spectrograms(all, static_cast<std::size_t>(state.range(0)));
  auto loader = pipeline.infinite();
  const auto take = [&] {
    for (std::size_t i = 0; i < batches; ++i) benchmark::DoNotOptimize(loader.next().value().size());
  };
  take();
  for (auto _ : state) take();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batches * batch_size));
}

void bare_threads(benchmark::State& state) {
  const clip_files& all = files(static_cast<std::size_t>(state.range(1)));

  struct worker {
    clip_maker make;
    std::vector<float> out = std::vector<float>(128 * 501 * batch_size); // the size of a batch
    fl::random_generator random{1};
  };

  std::vector<worker> workers;
  for (std::int64_t i = 0; i < state.range(0); ++i) workers.push_back({clip_maker{&all}});
  const auto take = [&] {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (worker& w : workers)
      threads.emplace_back([&] {
        for (std::size_t i; (i = next.fetch_add(1)) < batches * batch_size;)
          w.make(i, std::span(w.out).subspan(i % batch_size * 128 * 501, 128 * 501), w.random);
      });
  };
  take();
  for (auto _ : state) take();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batches * batch_size));
}

auto training_loader() {
  return clip_numbers() | fl::shuffle({.capacity = 10'000, .min_fill = 8'000}) | fl::prefetch(256) |
         spectrograms(files(rate), 8);
}

void end_loader_with_full_queues(benchmark::State& state) {
  const auto pipeline = training_loader();
  static_cast<void>(spectrogram());
  const std::size_t before = anonymous_bytes();
  std::size_t most = before;
  time_ends(
      state,
      [&] {
        std::optional loader(pipeline.infinite());
        loader->next();
        await_full_queues(*loader);
        most = std::max(most, anonymous_bytes());
        return loader;
      },
      [](auto& loader) { loader.reset(); });
  state.counters["announced_MB"] = static_cast<double>(*pipeline.memory().bytes()) / 1e6;
  state.counters["taken_MB"] = static_cast<double>(most - before) / 1e6;
}

void end_loader_at_work(benchmark::State& state) {
  const auto pipeline = training_loader();
  time_ends(
      state,
      [&] {
        std::optional loader(pipeline.infinite());
        loader->next();
        return loader;
      },
      [](auto& loader) { loader.reset(); });
}

void of_two(benchmark::internal::Benchmark* b) {
  for (const int file_rate : {32'000, 44'100, 48'000}) b->Args({2, file_rate});
  b->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(feedline_pipeline)->Apply(of_two);
BENCHMARK(bare_threads)->Apply(of_two);
BENCHMARK(end_loader_with_full_queues)->UseManualTime()->Iterations(20)->Unit(benchmark::kMillisecond);
BENCHMARK(end_loader_at_work)->UseManualTime()->Iterations(100)->Unit(benchmark::kMillisecond);

} // namespace
