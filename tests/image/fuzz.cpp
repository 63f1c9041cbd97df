// SPDX-License-Identifier: MIT
// Decodes a part of libFuzzer's bytes and compares it with the whole image, and a part of a mask with the whole mask; and adds
// restart markers. Start it with JPEGs, PNGs and WebP images as its corpus, also with JPEGs that have restart markers.
#include <feedline/image.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "support/image_crops.hpp"
#include "support/jpeg_writer.hpp"
#ifdef FEEDLINE_IMAGE_PNG
#include "support/png_writer.hpp"
#endif

namespace fl = feedline;

namespace {

template <class Decode>
auto or_nothing(const Decode& decode) {
  try {
    return decode();
  } catch (const fl::image_error&) {
    return decltype(decode()){};
  }
}

void compare_masks(fl::image_decoder& decoder, const std::vector<std::byte>& file,
                   const fl::image_options& options) {
  const auto mask = or_nothing([&] { return decoder.decode_mask(file, options); });
  if (mask.size() == 0) return;
  fl::random_generator random(file.size());
  const auto box = fl::test::random_box(mask.shape()[0], mask.shape()[1], random);
  fl::tensor<std::uint16_t> part(fl::shape{fl::test::whole(box.height), fl::test::whole(box.width), 1});
  decoder.decode_mask_crop(file, fl::test::takes(box), fl::hwc_view(part), {}, options);
  for (std::size_t y = 0; y < part.shape()[0]; ++y)
    for (std::size_t x = 0; x < part.shape()[1]; ++x)
      if (fl::hwc_view(part)(y, x, 0) !=
          fl::hwc_view(mask)(fl::test::whole(box.top) + y, fl::test::whole(box.left) + x, 0))
        std::abort();
}

} // namespace

#ifdef FEEDLINE_IMAGE_PNG
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

// Without right checksums libpng would see few of the changes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  const std::size_t changed = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 != 0 && changed > 8 && data[0] == 0x89)
    fl::test::mend_png(std::as_writable_bytes(std::span(data, changed)));
  return changed;
}
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t few_pixels = 1 << 18;
  static fl::image_decoder decoder;
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> file(bytes.begin(), bytes.end());
  const bool is_jpeg = size > 2 && data[0] == 0xff;
  const fl::image_options strict{.color = static_cast<fl::pixel_color>(size % 3), .max_pixels = few_pixels};
  fl::image_options keeping = strict;
  keeping.on_corrupt = fl::on_corrupt::keep;
  keeping.apply_orientation = true;
  keeping.max_scans = 20;
  keeping.background = {1, 2, 3};
  compare_masks(decoder, file, strict);
  or_nothing([&] { return decoder.decode(file, keeping); });
  // Where damage is kept, only a part of a JPEG has the pixels of the whole.
  const fl::image_options& how = is_jpeg ? keeping : strict;
  const auto all = or_nothing([&] { return decoder.decode(file, how); });
  if (all.size() == 0) return 0;

  fl::random_generator random(size);
  for (int i = 0; i < 4; ++i) {
    const auto box = fl::test::random_box(all.shape()[0], all.shape()[1], random);
    const auto part = or_nothing([&] { return fl::test::part_of(decoder, file, box, how); });
    if (part.size() == 0 || !fl::test::has_pixels_of(part, all, box)) std::abort();
  }
  if (!is_jpeg) return 0;

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
