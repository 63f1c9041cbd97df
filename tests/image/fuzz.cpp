// SPDX-License-Identifier: MIT
// Decodes a part of libFuzzer's bytes and compares it with the whole image; and adds restart markers. Start it with JPEGs
// as its corpus, also with files that have restart markers.
#include <feedline/image.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "support/image_crops.hpp"
#include "support/jpeg_writer.hpp"

namespace fl = feedline;

namespace {

template <class Decode>
fl::tensor<std::uint8_t> or_nothing(const Decode& decode) {
  try {
    return decode();
  } catch (const fl::jpeg_error&) {
    return {};
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t few_pixels = 1 << 18;
  static fl::jpeg_decoder decoder;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> file(bytes.begin(), bytes.end());
  const fl::jpeg_options keeping{
      .on_corrupt = fl::on_corrupt::keep, .max_pixels = few_pixels, .max_scans = 20};
  const auto all = or_nothing([&] { return decoder.decode(file, keeping); });
  if (all.size() == 0) return 0;

  fl::random_generator random(size);
  for (int i = 0; i < 4; ++i) {
    const auto box = fl::test::random_box(all.shape()[0], all.shape()[1], random);
    const auto part = or_nothing([&] { return fl::test::part_of(decoder, file, box, keeping); });
    if (part.size() == 0 || !fl::test::has_pixels_of(part, all, box)) std::abort();
  }

  const fl::jpeg_options strict{.max_pixels = few_pixels};
  try {
    const auto marked = fl::add_restart_markers(file, {.max_growth = 100});
    if (!marked.unchanged.empty()) return 0;
    const auto before = or_nothing([&] { return decoder.decode(file, strict); });
    const auto after = or_nothing([&] { return decoder.decode(marked.bytes, strict); });
    if (before.size() > 0 && fl::test::largest_difference(before, after) != 0) std::abort();
    if (!fl::same_jpeg_coefficients(file, marked.bytes)) std::abort();
  } catch (const fl::jpeg_error&) {
  }
  return 0;
}
