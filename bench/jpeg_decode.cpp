// SPDX-License-Identifier: MIT
// What does feedline's JPEG decoder cost compared with bare libjpeg calls, and what does new memory for each image cost?
// One thread decodes the photographs of FEEDLINE_BENCH_PHOTOS, or 64 images that the benchmark makes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/resource.h>

#include "photos.hpp"

namespace fl = feedline;

namespace {

using bytes = std::vector<std::byte>;

// In typical sizes of web photographs.
bytes made_photo(std::uint64_t key) {
  fl::random_generator random(key);
  const std::size_t width = 400 + random.below(240), height = 300 + random.below(240);
  return fl::encode_jpeg(made_picture(random, height, width, 40), 88);
}

/// The photographs of the shards, or made ones if no shards are named.
const std::vector<bytes>& files() {
  static const std::vector<bytes> all = [] {
    std::vector<bytes> found;
    if (!photo_shards().empty()) {
      fl::tar_samples shards(photo_shards());
      while (const auto sample = shards.next()) {
        const auto photo = (*sample)["jpg"];
        found.emplace_back(photo.begin(), photo.end());
      }
    }
    for (std::uint64_t key = 0; photo_shards().empty() && key < 64; ++key) found.push_back(made_photo(key));
    return found;
  }();
  return all;
}

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Calls `decode` with one photograph after another; it returns the number of bytes that it wrote.
template <class Decode>
void run(benchmark::State& state, Decode decode) {
  const auto& photos = files();
  std::size_t decoded = 0, next = 0;
  for (const auto& photo : photos) decode(photo); // warms up memory that is kept
  const long faults = page_faults();
  for (auto _ : state) {
    decoded += decode(photos[next]);
    next = next + 1 == photos.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(static_cast<std::int64_t>(decoded));
  state.counters["page_faults"] =
      benchmark::Counter(static_cast<double>(page_faults() - faults), benchmark::Counter::kAvgIterations);
}

// A decoder written by hand: no limits, no choice of colours, and an error ends the program.
struct bare_decoder {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};

  bare_decoder() {
    codec.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&codec);
  }

  ~bare_decoder() { jpeg_destroy_decompress(&codec); }

  template <class Memory>
  std::size_t decode(const bytes& file, Memory memory_for) {
    jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&codec, TRUE);
    codec.out_color_space = JCS_RGB;
    jpeg_start_decompress(&codec);
    const std::size_t stride = std::size_t{codec.output_width} * 3;
    std::uint8_t* const pixels = memory_for(stride * codec.output_height);
    while (codec.output_scanline < codec.output_height) {
      JSAMPROW row = pixels + codec.output_scanline * stride;
      jpeg_read_scanlines(&codec, &row, 1);
    }
    jpeg_finish_decompress(&codec);
    return stride * codec.output_height;
  }
};

// Memory for the largest photograph. All photographs are decoded to it, so it stays in the cache.
std::vector<std::uint8_t> largest_image() {
  std::size_t size = 0;
  for (const auto& file : files())
    size = std::max(size, fl::jpeg_decoder().read_header(file).shape().count());
  return std::vector<std::uint8_t>(size);
}

void bare_into_kept_memory(benchmark::State& state) {
  bare_decoder decoder;
  auto memory = largest_image();
  run(state,
      [&](const bytes& file) { return decoder.decode(file, [&](std::size_t) { return memory.data(); }); });
}

void feedline_into_kept_memory(benchmark::State& state) {
  fl::jpeg_decoder decoder;
  auto memory = largest_image();
  run(state, [&](const bytes& file) {
    const std::size_t size = decoder.read_header(file).shape().count();
    decoder.decode_into(file, std::span(memory).first(size));
    return size;
  });
}

void bare_into_new_memory(benchmark::State& state) {
  bare_decoder decoder;
  run(state, [&](const bytes& file) {
    fl::tensor<std::uint8_t> image;
    return decoder.decode(file, [&](std::size_t size) {
      image = fl::tensor<std::uint8_t>(fl::shape{size});
      return image.data();
    });
  });
}

void feedline_into_new_memory(benchmark::State& state) {
  run(state, [](const bytes& file) { return fl::decode_jpeg(file).size(); });
}

// A new decoder for each photograph.
void feedline_new_decoder(benchmark::State& state) {
  run(state, [](const bytes& file) { return fl::jpeg_decoder().decode(file).size(); });
}

// The images of a batch exist at the same time, so malloc can't return the same warm memory again.
void feedline_into_a_batch(benchmark::State& state) {
  std::vector<fl::tensor<std::uint8_t>> batch;
  run(state, [&](const bytes& file) {
    if (batch.size() == static_cast<std::size_t>(state.range(0))) batch.clear();
    batch.push_back(fl::decode_jpeg(file));
    return batch.back().size();
  });
}

void feedline_header(benchmark::State& state) {
  fl::jpeg_decoder decoder;
  run(state, [&](const bytes& file) { return decoder.read_header(file).width * 0; });
}

void feedline_gray(benchmark::State& state) {
  run(state,
      [](const bytes& file) { return fl::decode_jpeg(file, {.color = fl::pixel_color::gray}).size(); });
}

} // namespace

BENCHMARK(bare_into_kept_memory);
BENCHMARK(feedline_into_kept_memory);
BENCHMARK(bare_into_new_memory);
BENCHMARK(feedline_into_new_memory);
BENCHMARK(feedline_new_decoder);
BENCHMARK(feedline_into_a_batch)->Arg(64);
BENCHMARK(feedline_header);
BENCHMARK(feedline_gray);
