// SPDX-License-Identifier: MIT
// What do restart markers give for other photographs and other crops, how long does the decoder look for them, and what
// does it cost to add them? Two bare threads decode random crops, as in photo_crops, center crops, and whole photographs of
// FEEDLINE_BENCH_PHOTOS: as given; encoded again with 4:2:0; and 64 of them enlarged to 2,000 x 1,500. The baseline of adding
// markers is a loop of libjpeg's calls that reads and writes the same coefficients on as many threads.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include <feedline/image/detail/restart_segments.hpp>

#include "photo_crops.hpp"

namespace fl = feedline;

namespace {

using bytes = std::vector<std::byte>;

struct files {
  std::vector<bytes> plain, marked;
};

bytes encoded_again(std::span<const std::byte> file) { return fl::encode_jpeg(fl::decode_jpeg(file)); }

bytes enlarged(std::span<const std::byte> file) {
  const image small = fl::decode_jpeg(file);
  image large(fl::shape{1500, 2000, 3});
  fl::resize(fl::hwc_view(small), fl::whole_image(small.shape()[0], small.shape()[1]), fl::hwc_view(large));
  return fl::encode_jpeg(large);
}

/// The photographs as given (0), encoded again (1) and enlarged (2).
const files& photographs(benchmark::State& state, std::int64_t kind) {
  static std::vector<files> kinds(3);
  files& found = kinds.at(static_cast<std::size_t>(kind));
  if (!found.plain.empty()) return found;
  for (const fl::tar_sample& sample : photos(state)) {
    const auto file = sample["jpg"];
    if (kind == 0) found.plain.emplace_back(file.begin(), file.end());
    else if (kind == 1) found.plain.push_back(encoded_again(file));
    else if (found.plain.size() < 64) found.plain.push_back(enlarged(file));
  }
  for (const bytes& file : found.plain) found.marked.push_back(fl::add_restart_markers(file).bytes);
  return found;
}

void center_crop(std::span<const std::byte> file, std::size_t, const fl::image_view<float>& pixels) {
  fl::decode_jpeg_crop(file, fl::resized_center_crop{}, pixels,
                       {.normalization = fl::imagenet_normalization});
}

void random_crop(std::span<const std::byte> file, std::size_t index, const fl::image_view<float>& pixels) {
  load<decoding::part_smaller>(file, index, pixels);
}

void random_crops(benchmark::State& state) {
  load_on_bare_threads(state, photographs(state, state.range(1)).plain, random_crop);
}

void random_crops_marked(benchmark::State& state) {
  load_on_bare_threads(state, photographs(state, state.range(1)).marked, random_crop);
}

void center_crops(benchmark::State& state) {
  load_on_bare_threads(state, photographs(state, state.range(1)).plain, center_crop);
}

void center_crops_marked(benchmark::State& state) {
  load_on_bare_threads(state, photographs(state, state.range(1)).marked, center_crop);
}

void whole(std::span<const std::byte> file, std::size_t, const fl::image_view<float>&) {
  benchmark::DoNotOptimize(fl::decode_jpeg(file));
}

void whole_photographs(benchmark::State& state) {
  load_on_bare_threads(state, photographs(state, state.range(1)).plain, whole);
}

void whole_photographs_marked(benchmark::State& state) {
  load_on_bare_threads(state, photographs(state, state.range(1)).marked, whole);
}

// Reading the header, and passing all segments of a photograph: no more than a part at its lower right corner needs.
void find_segments(benchmark::State& state) {
  const auto& all = photographs(state, state.range(0)).marked;
  fl::detail::jpeg_coefficients header("bench");
  fl::detail::restart_segments segments;
  std::size_t size = 0, next = 0;
  for (auto _ : state) {
    const bytes& file = all[next];
    jpeg_abort_decompress(&header.state());
    header.open(file);
    const jpeg_decompress_struct& codec = header.state();
    benchmark::DoNotOptimize(
        segments.choose(codec, file, {codec.image_height - 1, codec.image_width - 1, 1, 1}, 8));
    size += file.size();
    next = next + 1 == all.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(size) * 1e-9, benchmark::Counter::kIsRate);
}

void read_header(benchmark::State& state) {
  const auto& all = photographs(state, state.range(0)).marked;
  fl::detail::jpeg_coefficients header("bench");
  std::size_t next = 0;
  for (auto _ : state) {
    jpeg_abort_decompress(&header.state());
    header.open(all[next]);
    next = next + 1 == all.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
}

// Calls `work(file)` for all photographs on bare threads.
template <class Work>
void on_bare_threads(benchmark::State& state, const Work& work) {
  const auto& all = photographs(state, 0).plain;
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> pool;
    for (std::size_t i = 0; i < threads(state); ++i)
      pool.emplace_back([&] {
        for (std::size_t k; (k = next.fetch_add(1)) < all.size();) work(all[k]);
      });
  }
  report_photos(state, all.size());
}

void bare_transcoding(benchmark::State& state) {
  on_bare_threads(state, [](const bytes& file) {
    jpeg_decompress_struct from{};
    jpeg_compress_struct to{};
    jpeg_error_mgr errors{};
    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    jpeg_mem_src(&from, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&from, TRUE);
    auto* const coefficients = jpeg_read_coefficients(&from);
    jpeg_copy_critical_parameters(&from, &to);
    to.optimize_coding = TRUE;
    to.restart_interval = 2;
    unsigned char* written = nullptr;
    unsigned long size = 0;
    jpeg_mem_dest(&to, &written, &size);
    jpeg_write_coefficients(&to, coefficients);
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    benchmark::DoNotOptimize(written);
    std::free(written);
  });
}

void add_markers(benchmark::State& state) {
  on_bare_threads(state, [](const bytes& file) { benchmark::DoNotOptimize(fl::add_restart_markers(file)); });
}

void add_markers_however_large(benchmark::State& state) {
  on_bare_threads(state, [](const bytes& file) {
    benchmark::DoNotOptimize(fl::add_restart_markers(file, {.max_growth = 100}));
  });
}

void of_kinds(benchmark::internal::Benchmark* b) {
  for (const int kind : {0, 1, 2}) b->Args({2, kind});
  b->UseRealTime()->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
}

BENCHMARK(random_crops)->Apply(of_kinds);
BENCHMARK(random_crops_marked)->Apply(of_kinds);
BENCHMARK(center_crops)->Apply(of_kinds);
BENCHMARK(center_crops_marked)->Apply(of_kinds);
BENCHMARK(whole_photographs)->Apply(of_kinds);
BENCHMARK(whole_photographs_marked)->Apply(of_kinds);
BENCHMARK(read_header)->Arg(0)->Arg(2);
BENCHMARK(find_segments)->Arg(0)->Arg(2);
BENCHMARK(bare_transcoding)->Apply(of_two);
BENCHMARK(add_markers)->Apply(of_two);
BENCHMARK(add_markers_however_large)->Apply(of_two);

} // namespace
