// SPDX-License-Identifier: MIT
// What does feedline's decoding of PNG and WebP images cost compared with bare calls of libpng and libwebp? One thread
// decodes 16 images that the benchmark makes: to memory that is kept, and a random resized crop to 224 x 224 float planes.
// And in a pipeline: such crops in batches of 64 from two workers, compared with two bare threads that share a counter, call
// the library, and write to memory of their own.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#ifdef FEEDLINE_IMAGE_PNG
#include <png.h>
#endif
#ifdef FEEDLINE_IMAGE_WEBP
#include <webp/decode.h>
#include <webp/encode.h>
#endif

#include "photos.hpp"

namespace fl = feedline;

namespace {

using bytes = std::vector<std::byte>;
using planes = fl::tensor<float, 3, 224, 224>;

constexpr std::size_t height = 480, width = 640;

template <class Write>
std::vector<bytes> written(Write write) {
  std::vector<bytes> files;
  for (std::uint64_t key = 0; key < 16; ++key) {
    fl::random_generator random(key);
    const auto file = std::as_bytes(write(made_picture(random, height, width, 8)));
    files.emplace_back(file.begin(), file.end());
  }
  return files;
}

// Calls `decode(file, index)` with one image after another.
template <class Decode>
void run(benchmark::State& state, const std::vector<bytes>& files, Decode decode) {
  for (std::size_t i = 0; i < files.size(); ++i) decode(files[i], i); // warms up memory that is kept
  std::size_t next = 0;
  for (auto _ : state) {
    decode(files[next], next);
    next = next + 1 == files.size() ? 0 : next + 1;
  }
  state.SetItemsProcessed(state.iterations());
}

fl::crop_box box_of(std::size_t index) {
  fl::random_generator random(index);
  return fl::random_resized_crop{}(height, width, random);
}

void feedline_whole(benchmark::State& state, const std::vector<bytes>& files) {
  fl::image_decoder decoder;
  std::vector<std::uint8_t> pixels(height * width * 3);
  run(state, files, [&](const bytes& file, std::size_t) {
    decoder.decode_into(file, pixels);
    benchmark::DoNotOptimize(pixels.data());
  });
}

void feedline_crop(benchmark::State& state, const std::vector<bytes>& files) {
  fl::image_decoder decoder;
  planes crop;
  run(state, files, [&](const bytes& file, std::size_t i) {
    decoder.decode_crop(
        file, [i](std::size_t, std::size_t) { return box_of(i); }, chw_view(crop));
    benchmark::DoNotOptimize(crop.data());
  });
}

// `decode(file, pixels, box)` decodes at least the box to its place in the image.
template <class Decode>
void bare_crop(benchmark::State& state, const std::vector<bytes>& files, Decode decode) {
  std::vector<std::uint8_t> pixels(height * width * 3);
  planes crop;
  run(state, files, [&](const bytes& file, std::size_t i) {
    const fl::crop_box box = box_of(i);
    decode(file, pixels.data(), box);
    fl::resize(fl::hwc_view(std::span<const std::uint8_t>(pixels), height, width, 3), box, chw_view(crop));
    benchmark::DoNotOptimize(crop.data());
  });
}

template <class Decode>
void bare_whole(benchmark::State& state, const std::vector<bytes>& files, Decode decode) {
  std::vector<std::uint8_t> pixels(height * width * 3);
  run(state, files, [&](const bytes& file, std::size_t) {
    decode(file, pixels.data(), fl::whole_image(height, width));
    benchmark::DoNotOptimize(pixels.data());
  });
}

constexpr std::size_t images_of_a_turn = 512;

struct example {
  planes pixels;
};

void feedline_pipeline(benchmark::State& state, const std::vector<bytes>& files) {
  const auto load = [&files](std::size_t i, fl::batch_slot<example>& slot) {
    const auto box = [i](std::size_t, std::size_t) { return box_of(i); };
    fl::decode_image_crop(files[i % files.size()], box,
                          fl::chw_view(slot.get<&example::pixels>(), 3, 224, 224));
  };
  const auto pipeline = fl::from(std::views::iota(std::size_t{0}, images_of_a_turn)) |
                        fl::batch_into<example>(64, load, fl::workers{2});
  for (auto _ : state)
    for (const auto& batch : pipeline.finite()) benchmark::DoNotOptimize(batch.size());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(images_of_a_turn));
}

template <class Decode>
void bare_threads(benchmark::State& state, const std::vector<bytes>& files, Decode decode) {
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      std::vector<std::uint8_t> pixels(height * width * 3);
      planes crop;
      for (std::size_t i; (i = next++) < images_of_a_turn;) {
        const fl::crop_box box = box_of(i);
        decode(files[i % files.size()], pixels.data(), box);
        fl::resize(fl::hwc_view(std::span<const std::uint8_t>(pixels), height, width, 3), box,
                   chw_view(crop));
        benchmark::DoNotOptimize(crop.data());
      }
    };
    std::jthread other(work);
    work();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(images_of_a_turn));
}

#ifdef FEEDLINE_IMAGE_PNG
const std::vector<bytes>& png_files() {
  static const std::vector<bytes> files = written([](const image& picture) {
    static std::vector<std::uint8_t> file(height * width * 4);
    png_image writer{};
    writer.version = PNG_IMAGE_VERSION;
    writer.width = width;
    writer.height = height;
    writer.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = file.size();
    png_image_write_to_memory(&writer, file.data(), &size, 0, picture.data(), 0, nullptr);
    return std::span<const std::uint8_t>(file).first(size);
  });
  return files;
}

// Written by hand: the rows down to the box's last one, and an error ends the program.
void decode_png(const bytes& file, std::uint8_t* pixels, const fl::crop_box& box) {
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const std::byte* next = file.data();
  png_set_read_fn(png, &next, [](png_structp p, png_bytep to, std::size_t count) {
    auto& from = *static_cast<const std::byte**>(png_get_io_ptr(p));
    std::memcpy(to, from, count);
    from += count;
  });
  png_read_info(png, info);
  const auto end = static_cast<std::size_t>(box.top + box.height);
  for (std::size_t y = 0; y < end; ++y) png_read_row(png, pixels + y * width * 3, nullptr);
  if (end == height) png_read_end(png, nullptr);
  png_destroy_read_struct(&png, &info, nullptr);
}

void png_whole_bare(benchmark::State& state) { bare_whole(state, png_files(), decode_png); }

void png_whole(benchmark::State& state) { feedline_whole(state, png_files()); }

void png_crop_bare(benchmark::State& state) { bare_crop(state, png_files(), decode_png); }

void png_crop(benchmark::State& state) { feedline_crop(state, png_files()); }

void png_threads_bare(benchmark::State& state) { bare_threads(state, png_files(), decode_png); }

void png_pipeline(benchmark::State& state) { feedline_pipeline(state, png_files()); }

BENCHMARK(png_whole_bare);
BENCHMARK(png_whole);
BENCHMARK(png_crop_bare);
BENCHMARK(png_crop);
BENCHMARK(png_threads_bare)->UseRealTime();
BENCHMARK(png_pipeline)->UseRealTime();
#endif

#ifdef FEEDLINE_IMAGE_WEBP
template <bool IsLossless>
const std::vector<bytes>& webp_files() {
  static const std::vector<bytes> files = written([](const image& picture) {
    static std::vector<std::uint8_t> file;
    std::uint8_t* out = nullptr;
    const std::size_t size = IsLossless
                                 ? WebPEncodeLosslessRGB(picture.data(), width, height, 3 * width, &out)
                                 : WebPEncodeRGB(picture.data(), width, height, 3 * width, 85, &out);
    file.assign(out, out + size);
    WebPFree(out);
    return std::span<const std::uint8_t>(file);
  });
  return files;
}

// Written by hand: only the box.
void decode_webp(const bytes& file, std::uint8_t* pixels, const fl::crop_box& box) {
  WebPDecoderConfig config;
  WebPInitDecoderConfig(&config);
  const auto top = static_cast<std::size_t>(box.top), left = static_cast<std::size_t>(box.left);
  config.options.use_cropping = 1;
  config.options.crop_top = static_cast<int>(top);
  config.options.crop_left = static_cast<int>(left);
  config.options.crop_height = static_cast<int>(box.height);
  config.options.crop_width = static_cast<int>(box.width);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {pixels + (top * width + left) * 3, 3 * width,
                          (height - top) * width * 3 - left * 3};
  WebPDecode(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), &config);
}

template <bool IsLossless>
void webp_whole_bare(benchmark::State& state) {
  bare_whole(state, webp_files<IsLossless>(), decode_webp);
}

template <bool IsLossless>
void webp_whole(benchmark::State& state) {
  feedline_whole(state, webp_files<IsLossless>());
}

template <bool IsLossless>
void webp_crop_bare(benchmark::State& state) {
  bare_crop(state, webp_files<IsLossless>(), decode_webp);
}

template <bool IsLossless>
void webp_crop(benchmark::State& state) {
  feedline_crop(state, webp_files<IsLossless>());
}

template <bool IsLossless>
void webp_threads_bare(benchmark::State& state) {
  bare_threads(state, webp_files<IsLossless>(), decode_webp);
}

template <bool IsLossless>
void webp_pipeline(benchmark::State& state) {
  feedline_pipeline(state, webp_files<IsLossless>());
}

BENCHMARK(webp_whole_bare<false>);
BENCHMARK(webp_whole<false>);
BENCHMARK(webp_crop_bare<false>);
BENCHMARK(webp_crop<false>);
BENCHMARK(webp_whole_bare<true>);
BENCHMARK(webp_whole<true>);
BENCHMARK(webp_crop_bare<true>);
BENCHMARK(webp_crop<true>);
BENCHMARK(webp_threads_bare<false>)->UseRealTime();
BENCHMARK(webp_pipeline<false>)->UseRealTime();
#endif

} // namespace
