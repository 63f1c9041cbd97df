// SPDX-License-Identifier: MIT
#include <feedline/image/image_decoder.hpp>

#include "support/catch.hpp"
#include "support/image_crops.hpp"
#include "support/jpeg_writer.hpp"
#include "support/throws_saying.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>

#include <feedline/image/resize.hpp>

#ifdef FEEDLINE_IMAGE_PNG
#include "support/png_writer.hpp"
#endif
#ifdef FEEDLINE_IMAGE_WEBP
#include "support/webp_writer.hpp"
#endif

namespace fl = feedline;
using namespace fl::test;

static_assert(std::is_base_of_v<fl::image_error, fl::jpeg_error>);
static_assert(!std::is_copy_constructible_v<fl::image_decoder>);

namespace {

using bytes_of_file = std::vector<std::byte>;

constexpr fl::image_options to_gray{.color = fl::pixel_color::gray};
constexpr fl::image_options to_rgba{.color = fl::pixel_color::rgba};
[[maybe_unused]] constexpr fl::image_options keeping{.on_corrupt = fl::on_corrupt::keep};

[[maybe_unused]] bytes_of_file prefix(const bytes_of_file& file, std::size_t size) {
  return {file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)};
}

bool equal(const fl::tensor<std::uint8_t>& a, const fl::tensor<std::uint8_t>& b) {
  return largest_difference(a, b) == 0;
}

/// The red, green and blue of an image with alpha; with a background they are laid over it.
fl::tensor<std::uint8_t> without_alpha(const fl::tensor<std::uint8_t>& rgba,
                                       const std::optional<std::array<std::uint8_t, 3>>& background) {
  fl::tensor<std::uint8_t> rgb(fl::shape{rgba.shape()[0], rgba.shape()[1], 3});
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    const double alpha = rgba[i / 3 * 4 + 3] / 255.0;
    const double color = rgba[i / 3 * 4 + i % 3];
    rgb[i] = static_cast<std::uint8_t>(
        background ? std::lround(color * alpha + (*background)[i % 3] * (1 - alpha)) : std::lround(color));
  }
  return rgb;
}

fl::tensor<std::uint8_t> gray_of(const fl::tensor<std::uint8_t>& rgb) {
  fl::tensor<std::uint8_t> gray(fl::shape{rgb.shape()[0], rgb.shape()[1], 1});
  for (std::size_t i = 0; i < gray.size(); ++i)
    gray[i] = static_cast<std::uint8_t>(
        std::lround(0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2]));
  return gray;
}

fl::tensor<std::uint8_t> decoded(const bytes_of_file& file, const fl::image_options& options = {}) {
  return fl::decode_image(file, options);
}

/// Whether an image is decoded to each kind of pixels, in whole and in parts, as its pixels with alpha say.
[[maybe_unused]] void decodes_as(const bytes_of_file& file, const fl::tensor<std::uint8_t>& rgba) {
  constexpr std::array<std::uint8_t, 3> background{200, 10, 90};
  CHECK(equal(decoded(file, to_rgba), rgba));
  const auto rgb = without_alpha(rgba, {}), composed = without_alpha(rgba, background);
  CHECK(equal(decoded(file), rgb));
  CHECK(equal(decoded(file, {.background = background}), composed));
  CHECK(largest_difference(decoded(file, to_gray), gray_of(rgb)) <= 1);
  CHECK(largest_difference(decoded(file, {.color = fl::pixel_color::gray, .background = background}),
                           gray_of(composed)) <= 1);
  fl::image_decoder decoder;
  fl::random_generator random(rgba.size());
  bool same = true;
  for (const fl::image_options& options :
       {fl::image_options{}, to_gray, to_rgba, {.background = background}}) {
    const auto whole_image = decoder.decode(file, options);
    for (int i = 0; i < 8; ++i)
      same =
          same && gives_pixels_of(decoder, file, whole_image,
                                  random_box(rgba.shape()[0], rgba.shape()[1], random), options, i % 2 == 1);
  }
  CHECK(same);
}

/// Each file's pixels for each orientation, which its EXIF data say.
template <class Write>
void turns_upright(const Write& write) {
  const auto image = gradient(21, 34, 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto payload = exif_payload(orientation);
    const bytes_of_file file = write(image, payload);
    CHECK(equal(decoded(file), image));
    const auto kind = static_cast<fl::exif_orientation>(orientation);
    const bool sideways = fl::swaps_sides(kind);
    fl::tensor<std::uint8_t> upright(fl::shape{sideways ? 34u : 21u, sideways ? 21u : 34u, 3});
    const auto stored = fl::detail::as_stored(fl::hwc_view(upright), kind);
    for (std::size_t y = 0; y < 21; ++y)
      for (std::size_t x = 0; x < 34; ++x)
        for (std::size_t c = 0; c < 3; ++c) stored(y, x, c) = fl::hwc_view(image)(y, x, c);
    const fl::image_options upright_too{.apply_orientation = true};
    INFO("orientation " << orientation);
    CHECK(equal(decoded(file, upright_too), upright));
    fl::image_decoder decoder;
    CHECK(decoder.read_header(file, upright_too).shape() == upright.shape());
    CHECK(gives_pixels_of(decoder, file, upright, {3, 5, 12, 14}, upright_too));
    CHECK(gives_pixels_of(decoder, file, upright, {0, 1, 20, 15}, upright_too, true));
  }
}

[[maybe_unused]] fl::tensor<std::uint8_t> black(std::size_t height, std::size_t width, std::size_t channels) {
  fl::tensor<std::uint8_t> image(fl::shape{height, width, channels});
  std::fill(image.begin(), image.end(), std::uint8_t{0});
  return image;
}

/// The number in EXIF data that exif_payload() made.
[[maybe_unused]] int orientation_of(std::span<const std::byte> payload) {
  return static_cast<int>(fl::read_exif_orientation(payload).value_or(fl::exif_orientation::upright));
}

/// Whether each damaged file is an image_error or an image, and an image if damage is kept and the header is whole.
template <class Mend>
void survives_damage(const bytes_of_file& file, std::size_t header, const Mend& mend) {
  const fl::image_options few{.max_pixels = 4096};
  const fl::image_options keep_few{.on_corrupt = fl::on_corrupt::keep, .max_pixels = 4096};
  fl::image_decoder decoder;
  const auto is_refused = [&](const bytes_of_file& damaged, const fl::image_options& options) {
    try {
      decoder.decode(damaged, options);
      fl::tensor<float, 3, 5, 7> part;
      decoder.decode_crop(damaged, fl::resized_center_crop{6, 5}, chw_view(part), {}, options);
    } catch (const fl::image_error&) {
      return true;
    }
    return false;
  };
  bool all_refused = true, all_kept = true;
  for (std::size_t size = 0; size < file.size(); ++size) {
    all_refused = all_refused && is_refused(prefix(file, size), few);
    if (size >= header) all_kept = all_kept && !is_refused(prefix(file, size), keep_few);
  }
  CHECK(all_refused);
  CHECK(all_kept);
  fl::random_generator random(file.size());
  for (int i = 0; i < 400; ++i) {
    bytes_of_file damaged = file;
    for (std::size_t n = 1 + random.below(4); n-- > 0;)
      damaged[random.below(damaged.size())] =
          static_cast<std::byte>(random.chance(0.2) ? 255 * random.below(2) : random.below(256));
    if (random.chance(0.5)) mend(damaged);
    is_refused(damaged, random.chance(0.5) ? few : keep_few);
  }
  CHECK_FALSE(is_refused(file, few));
}

#ifdef FEEDLINE_IMAGE_PNG
fl::tensor<std::uint16_t> random_samples(std::size_t height, std::size_t width, std::size_t channels,
                                         int bits) {
  fl::tensor<std::uint16_t> samples(fl::shape{height, width, channels});
  fl::random_generator random(height + 100 * static_cast<std::size_t>(bits));
  for (auto& sample : samples) sample = static_cast<std::uint16_t>(random.below(std::uint64_t{1} << bits));
  return samples;
}

std::size_t channels_of_type(int type) {
  const std::size_t colors = type == PNG_COLOR_TYPE_RGB || type == PNG_COLOR_TYPE_RGB_ALPHA ? 3 : 1;
  return colors + (type & PNG_COLOR_MASK_ALPHA ? 1 : 0);
}

/// The pixels of a PNG by its format's definition.
fl::tensor<std::uint8_t> pixels_of(const fl::tensor<std::uint16_t>& samples, const png_recipe& recipe) {
  const std::size_t channels = samples.shape()[2];
  fl::tensor<std::uint8_t> rgba(fl::shape{samples.shape()[0], samples.shape()[1], 4});
  const auto byte = [&](std::uint16_t sample) {
    return static_cast<std::uint8_t>(std::lround(sample * 255.0 / ((1 << recipe.bits) - 1)));
  };
  for (std::size_t i = 0; i < rgba.size() / 4; ++i) {
    const std::uint16_t* from = samples.data() + i * channels;
    std::uint8_t* to = rgba.data() + 4 * i;
    if (recipe.type == PNG_COLOR_TYPE_PALETTE) {
      const png_color color = recipe.palette[*from];
      to[0] = color.red;
      to[1] = color.green;
      to[2] = color.blue;
      to[3] = *from < recipe.palette_alpha.size() ? recipe.palette_alpha[*from] : 255;
      continue;
    }
    for (std::size_t c = 0; c < 3; ++c) to[c] = byte(from[channels < 3 ? 0 : c]);
    to[3] = channels % 2 == 0 ? byte(from[channels - 1]) : 255;
    if (recipe.transparent && channels == 1 && *from == recipe.transparent->gray) to[3] = 0;
    if (recipe.transparent && channels == 3 && from[0] == recipe.transparent->red &&
        from[1] == recipe.transparent->green && from[2] == recipe.transparent->blue)
      to[3] = 0;
  }
  return rgba;
}

std::vector<png_color> random_palette(std::size_t size) {
  std::vector<png_color> palette;
  fl::random_generator random(size);
  const auto byte = [&] { return static_cast<png_byte>(random.below(256)); };
  for (std::size_t i = 0; i < size; ++i) palette.push_back({byte(), byte(), byte()});
  return palette;
}

bytes_of_file png_of(const fl::tensor<std::uint8_t>& image, png_recipe recipe = {}) {
  constexpr int types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                           PNG_COLOR_TYPE_RGB_ALPHA};
  recipe.type = types[image.shape()[2] - 1];
  return write_png(samples_of(image), recipe);
}
#endif

} // namespace

TEST_CASE("JPEGs are decoded as by jpeg_decoder, and RGBA has an alpha of 255") {
  const auto file = write_jpeg(gradient(45, 70, 3), {.across = 2, .down = 2});
  const auto rgb = fl::decode_jpeg(file);
  CHECK(equal(decoded(file), rgb));
  CHECK(equal(decoded(file, to_gray), fl::decode_jpeg(file, to_gray)));
  const auto rgba = decoded(file, to_rgba);
  REQUIRE(rgba.shape() == fl::shape{45, 70, 4});
  CHECK(equal(without_alpha(rgba, {}), rgb));
  bool is_opaque = true;
  for (std::size_t i = 3; i < rgba.size(); i += 4) is_opaque = is_opaque && rgba[i] == 255;
  CHECK(is_opaque);
  fl::image_decoder decoder;
  CHECK(gives_pixels_of(decoder, file, rgba, {5, 6, 30, 40}, to_rgba));
  CHECK(decoder.read_header(file).format == fl::image_format::jpeg);
  std::vector<std::uint8_t> pixels(rgb.size());
  decoder.decode_into(file, pixels);
  CHECK(std::equal(pixels.begin(), pixels.end(), rgb.begin()));
  const auto cmyk = write_jpeg(gradient(20, 21, 4), {.from = JCS_CMYK, .stored = JCS_CMYK});
  CHECK(equal(without_alpha(decoded(cmyk, to_rgba), {}), decoded(cmyk)));
  CHECK(decoded(cmyk, to_rgba)[3] == 255);
}

TEST_CASE("other files are refused, and the message says what they are") {
  const auto says = [](const std::string& text, std::string_view part) {
    const auto file = std::as_bytes(std::span(text));
    return throws_saying<fl::image_error>(part, [&] { fl::decode_image(file); }) &&
           throws_saying<fl::image_error>(part, [&] { fl::image_decoder().read_header(file); }) &&
           throws_saying<fl::image_error>(part, [&] { fl::decode_mask(file); });
  };
  CHECK(says("", "isn't a JPEG, PNG or WebP image: it is empty (0 bytes)"));
  CHECK(says("GIF89a", "isn't a JPEG, PNG or WebP image: it is a GIF image"));
  CHECK(says("RIFF\x10\0\0\0WAVE", "isn't a JPEG, PNG or WebP image"));
  CHECK(says("\x89PN", "isn't a JPEG, PNG or WebP image"));
  const auto jpeg = write_jpeg(gradient(8, 8, 3));
  CHECK(throws_saying<fl::image_error>("a mask must be a PNG, which keeps its numbers: it is a JPEG image",
                                       [&] { fl::decode_mask(jpeg); }));
}

#ifdef FEEDLINE_IMAGE_PNG
TEST_CASE("a PNG of every kind has its pixels as RGBA, RGB and gray, in whole and in parts") {
  constexpr int kinds[][2] = {
      {PNG_COLOR_TYPE_GRAY, 1},        {PNG_COLOR_TYPE_GRAY, 2},       {PNG_COLOR_TYPE_GRAY, 4},
      {PNG_COLOR_TYPE_GRAY, 8},        {PNG_COLOR_TYPE_GRAY, 16},      {PNG_COLOR_TYPE_GRAY_ALPHA, 8},
      {PNG_COLOR_TYPE_GRAY_ALPHA, 16}, {PNG_COLOR_TYPE_RGB, 8},        {PNG_COLOR_TYPE_RGB, 16},
      {PNG_COLOR_TYPE_RGB_ALPHA, 8},   {PNG_COLOR_TYPE_RGB_ALPHA, 16}, {PNG_COLOR_TYPE_PALETTE, 1},
      {PNG_COLOR_TYPE_PALETTE, 2},     {PNG_COLOR_TYPE_PALETTE, 4},    {PNG_COLOR_TYPE_PALETTE, 8}};
  for (const auto& [type, bits] : kinds)
    for (const bool interlaced : {false, true})
      for (const bool has_transparency : {false, true}) {
        const bool has_palette = type == PNG_COLOR_TYPE_PALETTE;
        const bool has_channel = (type & PNG_COLOR_MASK_ALPHA) != 0;
        if (has_transparency && has_channel) continue;
        png_recipe recipe{.type = type, .bits = bits, .interlaced = interlaced};
        const auto samples = random_samples(19, 27, channels_of_type(type), bits);
        if (has_palette) recipe.palette = random_palette(std::size_t{1} << bits);
        if (has_palette && has_transparency) recipe.palette_alpha = {0, 77};
        else if (has_transparency)
          recipe.transparent = png_color_16{0, samples[0], samples[1], samples[2], samples[0]};
        const auto file = write_png(samples, recipe);
        INFO("type " << type << ", " << bits << " bits" << (interlaced ? ", interlaced" : "")
                     << (has_transparency ? ", tRNS" : ""));
        decodes_as(file, pixels_of(samples, recipe));
        const auto header = fl::image_decoder().read_header(file);
        CHECK(header.shape() == fl::shape{19, 27, 3});
        CHECK(header.format == fl::image_format::png);
        CHECK(header.bits == bits);
        CHECK(header.components == static_cast<int>(channels_of_type(type)));
        CHECK(header.progressive == interlaced);
        CHECK(header.has_palette == has_palette);
        CHECK(header.has_alpha == (has_channel || has_transparency));
      }
}

TEST_CASE("a part of a PNG is resized as resize() does it, flipped and normalized") {
  const auto image = noise(60, 80, 3);
  for (const fl::pixel_color color : {fl::pixel_color::rgb, fl::pixel_color::gray, fl::pixel_color::rgba}) {
    const fl::image_options options{.color = color};
    const auto file = png_of(image);
    const auto all = decoded(file, options);
    const std::size_t channels = all.shape()[2];
    const fl::crop_box box{3.5, 7.25, 40.5, 33};
    const fl::resize_options how{.horizontal_flip = true, .normalization = fl::imagenet_normalization};
    fl::tensor<float> part(fl::shape{channels, 17, 22}), wanted(fl::shape{channels, 17, 22});
    fl::decode_image_crop(file, takes(box), chw_view(part), how, options);
    fl::resize(fl::hwc_view(std::as_const(all)), box, fl::chw_view(wanted), how);
    CHECK(std::equal(part.begin(), part.end(), wanted.begin()));
    if (channels == 4)
      CHECK(
          std::all_of(part.at(3).begin(), part.at(3).end(), [](float a) { return std::abs(a - 1) < 1e-6f; }));
  }
}

TEST_CASE("floats keep the 16 bits of a PNG, bytes and half precision have 8 of them") {
  constexpr int types[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                           PNG_COLOR_TYPE_RGB_ALPHA};
  const std::size_t height = 19, width = 27;
  for (const int type : types)
    for (const bool interlaced : {false, true}) {
      const std::size_t stored = channels_of_type(type), colors = stored < 3 ? 1 : 3;
      const auto samples = random_samples(height, width, stored, 16);
      const auto file = write_png(samples, {.type = type, .bits = 16, .interlaced = interlaced});
      for (const fl::pixel_color color :
           {fl::pixel_color::rgb, fl::pixel_color::gray, fl::pixel_color::rgba}) {
        if (color == fl::pixel_color::gray && colors == 3) continue; // gray is computed from bytes
        INFO(stored << " channels stored" << (interlaced ? ", interlaced" : ""));
        const fl::image_options options{.color = color};
        const std::size_t channels = fl::detail::channels_of(color);
        // The number of a pixel's channel, and its high or low byte.
        const auto number = [&](std::size_t i, std::size_t c) -> unsigned {
          if (c == 3) return stored % 2 == 0 ? samples[i * stored + stored - 1] : 65535;
          return samples[i * stored + (colors == 1 ? 0 : c)];
        };
        fl::tensor<std::uint8_t> high(fl::shape{height, width, channels}), low(high.shape());
        for (std::size_t i = 0; i < high.size(); ++i) {
          high[i] = static_cast<std::uint8_t>(number(i / channels, i % channels) >> 8);
          low[i] = static_cast<std::uint8_t>(number(i / channels, i % channels) & 255);
        }
        fl::tensor<float> whole(fl::shape{channels, height, width});
        int calls = 0;
        const auto all = [&](std::size_t h, std::size_t w) {
          ++calls;
          return fl::crop_box{0, 0, static_cast<double>(h), static_cast<double>(w)};
        };
        fl::decode_image_crop(file, all, fl::chw_view(whole), {}, options);
        CHECK(calls == 1);
        float most = 0;
        for (std::size_t c = 0; c < channels; ++c)
          for (std::size_t i = 0; i < height * width; ++i)
            most = std::max(most, std::abs(whole.at(c)[i] - static_cast<float>(number(i, c)) / 65535));
        CHECK(most < 1e-6f);
        const fl::crop_box box{3.5, 1.25, 14.5, 23};
        const fl::resize_options how{.horizontal_flip = true, .normalization = fl::imagenet_normalization};
        fl::tensor<float> part(fl::shape{channels, 11, 13}), of_high(part.shape()), of_low(part.shape());
        fl::decode_image_crop(file, takes(box), fl::chw_view(part), how, options);
        fl::resize(fl::hwc_view(std::as_const(high)), box, fl::chw_view(of_high), how);
        fl::resize(fl::hwc_view(std::as_const(low)), box, fl::chw_view(of_low), how);
        most = 0;
        for (std::size_t i = 0; i < part.size(); ++i)
          most = std::max(most, std::abs(part[i] - (256 * of_high[i] + of_low[i]) / 257));
        CHECK(most < 1e-5f);
      }
    }
  // Over a background, and after images of other kinds.
  const auto samples = random_samples(height, width, 4, 16);
  const png_recipe recipe{.type = PNG_COLOR_TYPE_RGB_ALPHA, .bits = 16};
  const auto file = write_png(samples, recipe);
  const fl::image_options options{.background = std::array<std::uint8_t, 3>{200, 10, 90}};
  const auto composed = without_alpha(pixels_of(samples, recipe), options.background);
  fl::image_decoder decoder;
  fl::tensor<float> part(fl::shape{3, height, width});
  for (int i = 0; i < 2; ++i) {
    decoder.decode_crop(file, takes({0, 0, height, width}), fl::chw_view(part), {}, options);
    float most = 0;
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < height * width; ++p)
        most = std::max(most, std::abs(part.at(c)[p] - static_cast<float>(composed[3 * p + c]) / 255));
    CHECK(most < 1e-6f);
    decoder.decode_crop(write_jpeg(gradient(45, 70, 3)), fl::resized_center_crop{20, 19}, fl::chw_view(part));
    decoder.decode_crop(write_png(samples, recipe), fl::resized_center_crop{20, 19}, fl::chw_view(part));
  }
}

TEST_CASE("a PNG is turned upright as its EXIF data say") {
  for (const bool interlaced : {false, true})
    turns_upright([=](const auto& image, const auto& payload) {
      return png_of(image, {.interlaced = interlaced, .exif = {payload.begin() + 6, payload.end()}});
    });
}

namespace {

bytes_of_file bytes_of_text(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// XMP as Adobe's programs write it.
bytes_of_file xmp_packet(int orientation) {
  return bytes_of_text("<?xpacket?><x:xmpmeta><rdf:Description tiff:OrientationOf=\"2\" tiff:Orientation=\"" +
                       std::to_string(orientation) + "\"/></x:xmpmeta>");
}

/// The part of a PNG's XMP chunk before the packet.
bytes_of_file xmp_text(bool is_compressed, const bytes_of_file& packet) {
  auto text = bytes_of_text(std::string_view("XML:com.adobe.xmp\0", 18));
  text.push_back(std::byte{is_compressed});
  text.insert(text.end(), 3, std::byte{0});
  text.insert(text.end(), packet.begin(), packet.end());
  return text;
}

/// What zlib makes of bytes that it doesn't compress.
bytes_of_file stored_by_zlib(const bytes_of_file& bytes) {
  const std::size_t size = bytes.size();
  bytes_of_file stored =
      fl::test::bytes({0x78, 0x01, 0x01, static_cast<int>(size & 255), static_cast<int>(size >> 8),
                       static_cast<int>(~size & 255), static_cast<int>(~size >> 8 & 255)});
  stored.insert(stored.end(), bytes.begin(), bytes.end());
  std::uint32_t low = 1, high = 0;
  for (const std::byte b : bytes) {
    low = (low + std::to_integer<std::uint32_t>(b)) % 65521;
    high = (high + low) % 65521;
  }
  for (const std::uint32_t half : {high, low}) {
    stored.push_back(static_cast<std::byte>(half >> 8));
    stored.push_back(static_cast<std::byte>(half & 255));
  }
  return stored;
}

} // namespace

TEST_CASE("a PNG is turned upright as EXIF data after its pixels say, or its XMP data, compressed or not") {
  turns_upright([](const auto& image, const auto& payload) {
    const auto block = std::span(payload).subspan(6);
    return with_png_chunk(png_of(image), "eXIf", block, true);
  });
  for (const bool is_compressed : {false, true})
    for (const bool is_at_end : {false, true})
      turns_upright([=](const auto& image, const auto& payload) {
        const auto packet = xmp_packet(orientation_of(payload));
        const auto text = xmp_text(is_compressed, is_compressed ? stored_by_zlib(packet) : packet);
        return with_png_chunk(png_of(image), "iTXt", text, is_at_end);
      });
}

TEST_CASE("EXIF data count more than XMP data, and damaged ones aren't used") {
  const auto image = gradient(21, 34, 3);
  const auto exif = exif_payload(6);
  const auto shape_of = [](const bytes_of_file& file, fl::on_corrupt on_corrupt = fl::on_corrupt::fail) {
    return decoded(file, {.apply_orientation = true, .on_corrupt = on_corrupt}).shape();
  };
  const auto both = with_png_chunk(with_png_chunk(png_of(image), "iTXt", xmp_text(false, xmp_packet(3))),
                                   "eXIf", std::span(exif).subspan(6));
  CHECK(shape_of(both) == fl::shape{34, 21, 3});
  auto damaged = both;
  damaged[33 + 8] ^= std::byte{1};
  CHECK(throws_saying<fl::image_error>("eXIf: ", [&] { shape_of(damaged); }));
  CHECK(shape_of(damaged, fl::on_corrupt::keep) == fl::shape{21, 34, 3});
  for (const auto& text :
       {bytes_of_text("XML:com.adobe.xmp"), xmp_text(true, {}), xmp_text(true, xmp_packet(6)),
        xmp_text(false, bytes_of_text("tiff:Orientation=\"9\"")),
        xmp_text(false, bytes_of_text("tiff:Orientation"))})
    CHECK(shape_of(with_png_chunk(png_of(image), "iTXt", text)) == fl::shape{21, 34, 3});
  CHECK(shape_of(with_png_chunk(png_of(image), "iTXt",
                                xmp_text(false, bytes_of_text("<tiff:Orientation>8</tiff:Orientation>")))) ==
        fl::shape{34, 21, 3});
}

TEST_CASE("a PNG that is cut off or damaged is refused, or its decoded part is kept") {
  const auto image = noise(20, 24, 4);
  for (const bool interlaced : {false, true}) {
    const auto file = png_of(image, {.interlaced = interlaced});
    survives_damage(file, 33 + 8, mend_png); // up to the first pixels' chunk
    CHECK(throws_saying<fl::image_error>("feedline::image_decoder: the file is cut off",
                                         [&] { decoded(prefix(file, file.size() - 1)); }));
    const auto half = decoded(prefix(file, file.size() / 2), keeping);
    CHECK(half.shape() == fl::shape{20, 24, 3});
    CHECK(half[0] == image[0]);
    CHECK(*(half.end() - 1) == 0);
  }
  auto damaged = png_of(image);
  damaged[60] ^= std::byte{4};
  CHECK_THROWS_WITH(decoded(damaged), "feedline::image_decoder: IDAT: incorrect data check");
  damaged = png_of(image);
  damaged.resize(damaged.size() - 12); // the end chunk
  fl::image_decoder decoder;
  CHECK_THROWS_AS(decoder.decode(damaged), fl::image_error);
  CHECK(gives_pixels_of(decoder, damaged, without_alpha(image, {}), {2, 3, 16, 20}, {})); // isn't read
}

TEST_CASE("of a PNG's damaged bytes a crop notices those that its pixels depend on") {
  const auto image = noise(60, 50, 3);
  const auto samples = random_samples(60, 50, 1, 16);
  fl::image_decoder decoder;
  const fl::crop_box upper{1, 2, 25, 40};
  for (const std::size_t chunk_bytes : {std::size_t{1} << 20, std::size_t{700}}) {
    const png_recipe recipe{.type = PNG_COLOR_TYPE_GRAY, .bits = 16, .chunk_bytes = chunk_bytes};
    const auto picture = png_of(image, {.chunk_bytes = chunk_bytes}), mask = write_png(samples, recipe);
    const auto part_of_mask = [&](const bytes_of_file& file) {
      fl::tensor<std::uint16_t> part(fl::shape{1, 25, 40});
      decoder.decode_mask_crop(file, takes(upper), chw_view(part));
      return part;
    };
    const auto floats_of_mask = [&](const bytes_of_file& file) {
      fl::tensor<float> part(fl::shape{1, 25, 40});
      decoder.decode_crop(file, takes(upper), chw_view(part), {}, to_gray);
      return part;
    };
    const auto expected_numbers = part_of_mask(mask);
    const auto expected_floats = floats_of_mask(mask);
    const auto refused_or_right = [](const auto& step) {
      try {
        return step();
      } catch (const fl::image_error&) {
        return true;
      }
    };
    bool all_noticed = true;
    std::size_t refused = 0;
    for (std::size_t at = 41; at < picture.size(); at += 3) { // the first byte of the pixels' chunk
      auto damaged = picture;
      damaged[at] ^= std::byte{0x10};
      all_noticed = all_noticed &&
                    refused_or_right([&] { return gives_pixels_of(decoder, damaged, image, upper, {}); });
      if (refused_or_right([&] { return decoder.decode(damaged).size() == 0; })) ++refused;
    }
    for (std::size_t at = 41; at < mask.size(); at += 5) {
      auto damaged = mask;
      damaged[at] ^= std::byte{0x01};
      const auto equal_parts = [](const auto& a, const auto& b) {
        return std::equal(a.begin(), a.end(), b.begin());
      };
      all_noticed = all_noticed &&
                    refused_or_right([&] { return equal_parts(part_of_mask(damaged), expected_numbers); }) &&
                    refused_or_right([&] { return equal_parts(floats_of_mask(damaged), expected_floats); });
    }
    CHECK(all_noticed);
    CHECK(refused > 100);
    auto late = picture; // the last byte of the last pixels' chunk
    late[late.size() - 12 - 5] ^= std::byte{1};
    const auto crop_of = [&](const fl::image_options& options) {
      return part_of(decoder, late, upper, options);
    };
    if (chunk_bytes == 700) {
      CHECK_NOTHROW(crop_of({})); // in a chunk that isn't read
    } else {
      CHECK(throws_saying<fl::image_error>("IDAT: the checksum of the chunk at byte 33 is wrong",
                                           [&] { crop_of({}); }));
      CHECK(throws_saying<fl::image_error>("is wrong",
                                           [&] { crop_of({.on_corrupt = fl::on_corrupt::keep_whole}); }));
    }
    CHECK(has_pixels_of(crop_of(keeping), image, upper));
    late.resize(late.size() - 30);
    if (chunk_bytes != 700)
      CHECK(throws_saying<fl::image_error>("the file is cut off", [&] { crop_of({}); }));
  }
}

TEST_CASE("transparency with a wrong checksum isn't left out without an error") {
  const auto samples = random_samples(19, 27, 1, 8);
  auto file = write_png(
      samples, {.type = PNG_COLOR_TYPE_PALETTE, .palette = random_palette(256), .palette_alpha = {0, 77}});
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  file[text.find("tRNS") + 4] ^= std::byte{1};
  fl::image_decoder decoder;
  CHECK_THROWS_WITH(decoder.decode(file, to_rgba), "feedline::image_decoder: tRNS: CRC error");
  CHECK_THROWS_AS(decoder.read_header(file), fl::image_error);
  CHECK_THROWS_AS(part_of(decoder, file, {0, 0, 3, 3}, to_rgba), fl::image_error);
  CHECK(decoder.decode(file, keeping).size() == 19 * 27 * 3);
}

TEST_CASE("a PNG with too many pixels is refused before memory is allocated for them") {
  auto file = png_of(noise(20, 24, 3));
  CHECK(throws_saying<fl::image_error>("24 x 20 pixels are more than image_options::max_pixels, 479",
                                       [&] { decoded(file, {.max_pixels = 479}); }));
  CHECK_NOTHROW(decoded(file, {.max_pixels = 480}));
  file[16 + 2] = std::byte{0x3f}; // 16152 pixels wide
  file[20 + 2] = std::byte{0x3f};
  mend_png(file);
  CHECK(throws_saying<fl::image_error>("can't hold 16152 x 16148 pixels", [&] { decoded(file); }));
  file[16] = std::byte{0x7f}; // more than 2^30
  mend_png(file);
  CHECK(throws_saying<fl::image_error>("more than image_options::max_pixels", [&] { decoded(file); }));
  CHECK(throws_saying<fl::image_error>("more than image_options::max_pixels", [&] {
    fl::decode_mask(png_of(noise(20, 24, 1)), {.max_pixels = 479});
  }));
}

TEST_CASE("an image that takes too much memory is refused before it is allocated, and the option is named") {
  const auto image = black(600, 500, 3);
  const auto plain = png_of(image), interlaced = png_of(image, {.interlaced = true});
  REQUIRE(64 * interlaced.size() < 500'000);
  std::vector<std::uint8_t> pixels(image.size());
  fl::image_decoder decoder;
  const auto takes_more = [](std::uint64_t most, const auto& step) {
    const std::string limit = "more than image_options::max_bytes, " + std::to_string(most) + "; raise it";
    return throws_saying<fl::image_error>("decoding 500 x 600 pixels from a file of ",
                                          [&] { step(fl::image_options{.max_bytes = most}); }) &&
           throws_saying<fl::image_error>(limit, [&] { step(fl::image_options{.max_bytes = most}); });
  };
  const auto whole = [&](const bytes_of_file& file) {
    return [&](const fl::image_options& options) { decoder.decode(file, options); };
  };
  CHECK(takes_more(890'000, whole(plain)));
  CHECK_NOTHROW(whole(plain)({.max_bytes = 1'000'000}));
  CHECK(takes_more(1'790'000, whole(interlaced)));
  CHECK_NOTHROW(whole(interlaced)({.max_bytes = 1'900'000}));
  CHECK_NOTHROW(decoder.decode_into(plain, pixels, {.max_bytes = 500'000}));
  CHECK(takes_more(500'000, [&](const fl::image_options& o) { decoder.decode_into(interlaced, pixels, o); }));
  const fl::crop_box box{300, 200, 20, 20};
  CHECK_NOTHROW(part_of(decoder, plain, box, {.max_bytes = 500'000}));
  CHECK(takes_more(500'000, [&](const fl::image_options& o) { part_of(decoder, interlaced, box, o); }));
  CHECK_NOTHROW(decoder.read_header(interlaced, {.max_bytes = 500'000}));

  const auto mask = write_png(samples_of(black(600, 500, 1)), {.type = PNG_COLOR_TYPE_GRAY});
  CHECK(takes_more(500'000, [&](const fl::image_options& o) { decoder.decode_mask(mask, o); }));
  CHECK_NOTHROW(decoder.decode_mask(mask, {.max_bytes = 700'000}));
  fl::tensor<std::uint16_t> part(fl::shape{1, 20, 20});
  CHECK_NOTHROW(decoder.decode_mask_crop(mask, takes(box), chw_view(part), {}, {.max_bytes = 500'000}));

  // A file may always take some of its own size.
  const auto noisy = png_of(noise(60, 50, 3), {.interlaced = true});
  CHECK_NOTHROW(decoder.decode(noisy, {.max_bytes = 0}));
}

TEST_CASE("a PNG of one row of very many pixels isn't planned in memory for many rows") {
  const auto file = write_png(samples_of(black(1, 900'000, 1)), {.type = PNG_COLOR_TYPE_GRAY, .bits = 1});
  fl::image_decoder decoder;
  fl::tensor<float, 3, 8, 8> part;
  const auto crop = [&](std::uint64_t most) {
    decoder.decode_crop(file, fl::whole_image, chw_view(part), {}, {.max_bytes = most});
  };
  CHECK(throws_saying<fl::image_error>("image_options::max_bytes", [&] { crop(30'000'000); }));
  CHECK_NOTHROW(crop(60'000'000));
}

TEST_CASE("memory for another number of pixels is refused") {
  std::vector<std::uint8_t> pixels(20 * 24 * 3);
  const auto file = png_of(noise(20, 24, 3));
  fl::image_decoder decoder;
  CHECK(decoder.decode_into(file, pixels).shape() == fl::shape{20, 24, 3});
  CHECK(throws_saying<std::invalid_argument>("[20, 24, 1], but `pixels` has 1440 bytes",
                                             [&] { decoder.decode_into(file, pixels, to_gray); }));
  fl::tensor<float, 1, 5, 5> part;
  CHECK_THROWS_AS(decoder.decode_crop(file, fl::whole_image, chw_view(part)), std::invalid_argument);
  CHECK(equal(decoder.decode(file), noise(20, 24, 3))); // stays usable
}

TEST_CASE("a mask has the numbers of a gray PNG of any depth, or the indices of a palette") {
  for (const int type : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_PALETTE})
    for (const int bits : {1, 2, 4, 8, 16})
      for (const bool interlaced : {false, true}) {
        if (type == PNG_COLOR_TYPE_PALETTE && bits == 16) continue;
        const auto samples = random_samples(19, 27, 1, bits);
        png_recipe recipe{.type = type, .bits = bits, .interlaced = interlaced};
        if (type == PNG_COLOR_TYPE_PALETTE) {
          recipe.palette = random_palette(std::size_t{1} << bits);
          recipe.palette_alpha = {0};
        } else {
          recipe.transparent = png_color_16{0, 0, 0, 0, samples[0]};
        }
        const auto file = write_png(samples, recipe);
        const auto mask = fl::decode_mask(file);
        INFO("type " << type << ", " << bits << " bits" << (interlaced ? ", interlaced" : ""));
        REQUIRE(mask.shape() == fl::shape{19, 27, 1});
        CHECK(std::equal(mask.begin(), mask.end(), samples.begin()));
        CHECK_THROWS_AS(fl::decode_mask(prefix(file, file.size() - 1)), fl::image_error);
      }
}

TEST_CASE("a mask gets the crop and flip of its image, and its numbers are never mixed") {
  // The mask tells where each pixel is; the image tells the same in red and green.
  constexpr std::size_t height = 50, width = 60;
  fl::tensor<std::uint16_t> where(fl::shape{height, width, 1});
  fl::tensor<std::uint8_t> image(fl::shape{height, width, 3});
  for (std::size_t i = 0; i < where.size(); ++i) {
    where[i] = static_cast<std::uint16_t>(i / width * 256 + i % width);
    image[3 * i] = static_cast<std::uint8_t>(i / width);
    image[3 * i + 1] = static_cast<std::uint8_t>(i % width);
  }
  const auto picture = png_of(image), mask = write_png(where, {.type = PNG_COLOR_TYPE_GRAY, .bits = 16});
  fl::random_generator random(1);
  bool same = true;
  for (int i = 0; i < 20; ++i) {
    const fl::same_crop crop(
        [&](std::size_t h, std::size_t w) { return fl::random_resized_crop{}(h, w, random); });
    const fl::resize_options how{.interpolation = fl::interpolation::nearest,
                                 .horizontal_flip = random.chance(0.5)};
    fl::tensor<std::uint8_t> pixels(fl::shape{3, 20, 31});
    fl::tensor<std::int64_t> numbers(fl::shape{1, 20, 31});
    fl::decode_image_crop(picture, crop, chw_view(pixels), how);
    fl::decode_mask_crop(mask, crop, chw_view(numbers), how);
    for (std::size_t k = 0; k < numbers.size(); ++k)
      same = same && numbers[k] == 256 * pixels[k] + pixels[numbers.size() + k];
  }
  CHECK(same);
  fl::tensor<std::uint8_t> few(fl::shape{1, 2, 2});
  CHECK(throws_saying<fl::image_error>("the mask has the number 3115", [&] {
    fl::decode_mask_crop(mask, takes({12, 43, 1, 1}), chw_view(few));
  }));
}

TEST_CASE("a mask that is cut off is an error, whatever is kept of damaged images") {
  auto file = write_png(random_samples(40, 40, 1, 8), {.type = PNG_COLOR_TYPE_GRAY});
  file.resize(file.size() / 2);
  CHECK_NOTHROW(fl::decode_image(file, keeping));
  CHECK_THROWS_AS(fl::decode_mask(file, keeping), fl::image_error);
  fl::tensor<std::uint8_t> mask(fl::shape{40, 40, 1});
  CHECK_THROWS_AS(fl::decode_mask_crop(file, fl::whole_image, hwc_view(mask), {}, keeping), fl::image_error);
}

TEST_CASE("a mask is turned upright as its EXIF data say") {
  const auto samples = random_samples(19, 27, 1, 8);
  const auto payload = exif_payload(6);
  const auto file =
      write_png(samples, {.type = PNG_COLOR_TYPE_GRAY, .exif = {payload.begin() + 6, payload.end()}});
  const auto mask = fl::decode_mask(file, {.apply_orientation = true});
  REQUIRE(mask.shape() == fl::shape{27, 19, 1});
  fl::tensor<std::uint8_t> all(fl::shape{27, 19, 1});
  fl::decode_mask_crop(file, fl::whole_image, hwc_view(all), {}, {.apply_orientation = true});
  bool turned = true;
  for (std::size_t y = 0; y < 27; ++y)
    for (std::size_t x = 0; x < 19; ++x) {
      const auto wanted = samples[(18 - x) * 27 + y]; // clockwise
      turned = turned && mask[y * 19 + x] == wanted && all[y * 19 + x] == wanted;
    }
  CHECK(turned);
}

TEST_CASE("several threads decode images and masks at the same time, each with a decoder of its own") {
  const auto image = noise(40, 50, 3);
  std::vector<bytes_of_file> files{png_of(image), png_of(image, {.interlaced = true})};
#ifdef FEEDLINE_IMAGE_WEBP
  files.push_back(write_webp(image, true));
#endif
  const auto samples = random_samples(19, 27, 1, 8);
  const auto mask = write_png(samples, {.type = PNG_COLOR_TYPE_GRAY});
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread)
      threads.emplace_back([&] {
        for (int round = 0; round < 10; ++round) {
          for (const auto& file : files) wrong += equal(decoded(file), image) ? 0 : 1;
          const auto numbers = fl::decode_mask(mask);
          wrong += std::equal(numbers.begin(), numbers.end(), samples.begin()) ? 0 : 1;
        }
      });
  }
  CHECK(wrong == 0);
}

TEST_CASE("an image with several channels isn't a mask") {
  CHECK(throws_saying<fl::image_error>("a mask must be gray or have a palette, but this PNG has 3 channels",
                                       [] { fl::decode_mask(png_of(noise(4, 5, 3))); }));
  CHECK(throws_saying<fl::image_error>("2 channels", [] { fl::decode_mask(png_of(noise(4, 5, 2))); }));
}
#endif

#ifdef FEEDLINE_IMAGE_WEBP
TEST_CASE("a lossless WebP image has its pixels, in whole and in parts") {
  decodes_as(write_webp(noise(37, 45, 4), true), noise(37, 45, 4));
  const auto file = write_webp(noise(37, 45, 3), true);
  CHECK(equal(decoded(file), noise(37, 45, 3)));
  const auto header = fl::image_decoder().read_header(file);
  CHECK(header.shape() == fl::shape{37, 45, 3});
  CHECK(header.format == fl::image_format::webp);
  CHECK(header.components == 3);
  CHECK_FALSE(header.has_alpha);
}

TEST_CASE("a part of a lossy WebP image has exactly the pixels of the whole image") {
  fl::image_decoder decoder;
  fl::random_generator random(3);
  for (const std::size_t channels : {3u, 4u})
    for (const bool is_noise : {false, true}) {
      const auto image = is_noise ? noise(83, 101, channels) : gradient(83, 101, channels);
      const auto file = write_webp(image);
      const auto all = decoder.decode(file, to_rgba);
      if (!is_noise) CHECK(largest_difference(without_alpha(all, {}), decoded(file)) == 0);
      if (!is_noise && channels == 3) CHECK(largest_difference(decoded(file), image) <= 12);
      bool same = true;
      for (int i = 0; i < 60; ++i)
        same = same && gives_pixels_of(decoder, file, all, random_box(83, 101, random), to_rgba, i % 2 == 1);
      CHECK(same);
    }
}

TEST_CASE("a WebP image is turned upright as its EXIF data say, with and without JPEG's mark") {
  turns_upright([](const auto& image, const auto& payload) {
    const bool has_mark = payload[payload.size() - 8] == std::byte{3};
    return extended_webp(write_webp(image, true), 0x08, 21, 34, "EXIF",
                         {payload.begin() + (has_mark ? 0 : 6), payload.end()});
  });
}

TEST_CASE("a WebP image is turned upright as its XMP data say, if it has no EXIF data") {
  turns_upright([](const auto& image, const auto& payload) {
    const std::string packet = "<tiff:Orientation>" + std::to_string(orientation_of(payload)) + "</";
    const auto bytes = std::as_bytes(std::span(packet));
    return extended_webp(write_webp(image, true), 0x04, 21, 34, "XMP ", {bytes.begin(), bytes.end()});
  });
}

TEST_CASE("of an animated WebP image the first image is decoded, on a canvas that is transparent black") {
  const auto first = noise(20, 24, 4), second = noise(40, 50, 4);
  decodes_as(animated_webp(20, 24, {{0, 0, first}, {0, 0, noise(20, 24, 3)}}), first);

  auto canvas = black(40, 50, 4);
  const auto placed = fl::hwc_view(canvas);
  for (std::size_t y = 0; y < 20; ++y)
    for (std::size_t x = 0; x < 24; ++x)
      for (std::size_t c = 0; c < 4; ++c) placed(6 + y, 12 + x, c) = fl::hwc_view(first)(y, x, c);
  const auto file = animated_webp(40, 50, {{6, 12, first}, {0, 0, second}});
  decodes_as(file, canvas);
  fl::image_decoder decoder;
  const auto header = decoder.read_header(file);
  CHECK(header.shape() == fl::shape{40, 50, 3});
  CHECK(header.has_alpha);
  CHECK_FALSE(decoder.read_header(animated_webp(20, 24, {{0, 0, noise(20, 24, 3)}})).has_alpha);

  // With loss, and with alpha in a chunk of its own.
  for (const std::size_t channels : {3u, 4u}) {
    const auto image = gradient(20, 24, channels);
    const auto alone = decoded(write_webp(image), to_rgba);
    CHECK(equal(decoded(animated_webp(20, 24, {{0, 0, image, false}}), to_rgba), alone));
    const auto all = decoded(animated_webp(40, 50, {{6, 12, image, false}}), to_rgba);
    CHECK(has_pixels_of(alone, all, {6, 12, 20, 24}));
    CHECK(all[3] == 0);
  }
}

TEST_CASE(
    "an animated WebP image that is damaged, or has no image, is refused, and its decoded part is kept") {
  const auto image = noise(20, 24, 4);
  const auto file = animated_webp(40, 50, {{6, 12, image}});
  survives_damage(file, file.size() / 2, [](const bytes_of_file&) {});
  const auto refuses = [](bytes_of_file damaged, std::size_t at, int value, std::string_view words) {
    damaged[at] = static_cast<std::byte>(value);
    return throws_saying<fl::image_error>(words, [&] { decoded(damaged); });
  };
  const std::size_t place = 12 + 18 + 14 + 8; // in the chunk of the image
  CHECK(refuses(file, place, 20, "the size and place that its chunk says"));
  CHECK(refuses(file, place + 6, 24, "the size and place that its chunk says"));
  CHECK(refuses(file, place - 8, 'B', "the WebP animation has no image"));
  CHECK(
      refuses(file, place - 3, 100, "the WebP animation has no image")); // its chunk is longer than the file
  const auto half = decoded(prefix(file, place + 16 + 1700),
                            {.color = fl::pixel_color::rgba, .on_corrupt = fl::on_corrupt::keep});
  CHECK(half.shape() == fl::shape{40, 50, 4});
  CHECK(std::equal(image.begin(), image.begin() + 24 * 4, half.begin() + (6 * 50 + 12) * 4));
  CHECK(throws_saying<fl::image_error>("50 x 40 pixels are more than image_options::max_pixels",
                                       [&] { decoded(file, {.max_pixels = 1999}); }));
}

TEST_CASE("a WebP image of a few bytes takes no gigabytes") {
  const auto file = fl::test::bytes({0x52, 0x49, 0x46, 0x46, 0x1c, 0, 0, 0, 0x57, 0x45, 0x42, 0x50,
                                     0x56, 0x50, 0x38, 0x4c, 0x10, 0, 0, 0, 0x2f, 0xfe, 0xbf, 0xff,
                                     0x0f, 0x88, 0x88, 0x08, 0,    0, 0, 0, 0,    0,    0,    0});
  fl::image_decoder decoder;
  CHECK(decoder.read_header(file).shape() == fl::shape{16383, 16383, 3});
  CHECK(throws_saying<fl::image_error>("image_options::max_bytes, 536870912", [&] { decoder.decode(file); }));
  fl::tensor<float, 3, 8, 8> part;
  CHECK(throws_saying<fl::image_error>("image_options::max_bytes, 536870912",
                                       [&] { decoder.decode_crop(file, fl::whole_image, chw_view(part)); }));

  for (const bool is_lossless : {false, true}) {
    const auto small = write_webp(black(600, 500, 3), is_lossless);
    const std::uint64_t most = is_lossless ? 1'200'000 : 300'000;
    CHECK_NOTHROW(part_of(decoder, small, {300, 200, 20, 20}, {.max_bytes = most + 40'000}));
    if (is_lossless)
      CHECK_THROWS_AS(part_of(decoder, small, {300, 200, 20, 20}, {.max_bytes = most - 1}), fl::image_error);
    CHECK_THROWS_AS(decoder.decode(small, {.max_bytes = 1'700'000}), fl::image_error);
    CHECK_NOTHROW(decoder.decode(small, {.max_bytes = 3'100'000}));
  }
}

TEST_CASE("a WebP image that is cut off or damaged is refused, or its decoded part is kept") {
  for (const bool is_lossless : {false, true}) {
    const auto large = write_webp(noise(64, 65, 3), is_lossless);
    const auto half = decoded(prefix(large, large.size() / 2), keeping);
    CHECK(std::equal(half.begin(), half.begin() + 3 * 65, decoded(large).begin()));
    CHECK(*(half.end() - 1) == 0);
    CHECK(equal(decoded(large, keeping), decoded(large)));
    const auto file = write_webp(noise(20, 24, 4), is_lossless);
    survives_damage(file, file.size() / 2, [](const bytes_of_file&) {});
    CHECK(throws_saying<fl::image_error>("the file is cut off: it has " + std::to_string(file.size() - 1) +
                                             " of " + std::to_string(file.size()) + " bytes",
                                         [&] { decoded(prefix(file, file.size() - 1)); }));
  }
}

TEST_CASE("a WebP image with too many pixels isn't decoded, and WebP images aren't masks") {
  const auto file = write_webp(noise(20, 24, 3), true);
  CHECK(throws_saying<fl::image_error>("24 x 20 pixels are more than image_options::max_pixels, 479",
                                       [&] { decoded(file, {.max_pixels = 479}); }));
  CHECK(throws_saying<fl::image_error>("it is a WebP image", [&] { fl::decode_mask(file); }));
}
#endif
