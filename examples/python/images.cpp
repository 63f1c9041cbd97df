// SPDX-License-Identifier: MIT
// A Python class that reads TAR shards of JPEG, PNG or WebP images and yields batches of them:
//
//     for batch in feedline.images.Loader("train-{0000..0146}.tar", seed=7): step(batch["image"], batch["label"])
//
// load() makes a sample, pipeline_of() has the pipeline; below them are the names and defaults of its parameters.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <pybind11/stl/filesystem.h>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>
#include <feedline/python.hpp>
#include <feedline/python/object.hpp>
#ifdef WITH_REMOTE
#include <feedline/remote.hpp>
#endif

#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

using fl::python::lock;
using fl::python::object;

namespace {

/// What Python receives, as arrays.
template <class Pixel>
struct example {
  fl::tensor<Pixel> image; // [3, size, size] or [size, size, 3]
  std::int64_t label;
  std::int64_t index; // of the sample, the same in each epoch
};

/// A batch of either type: it arrives in Python as what it holds.
using any_batch = std::variant<fl::batch_of<example<float>>, fl::batch_of<example<std::uint8_t>>>;

/// How a sample becomes an image and a label.
struct image_options {
  std::size_t size;
  bool crops_at_random;
  fl::random_resized_crop random_crop;
  fl::resized_center_crop center_crop;
  double flip; // the probability
  fl::normalization normalization;
  bool channels_first;
  bool is_float;
  std::string image;                // a member's name
  std::optional<std::string> label; // the same
};

/// Without white space on either side, as Python's int() reads numbers.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  return text.substr(0, text.find_last_not_of(white) + 1);
}

std::int64_t read_label(const fl::tar_sample& sample, const std::string& member) {
  const std::string_view text = trimmed(sample.text(member));
  std::int64_t label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    std::size_t shown = std::min<std::size_t>(text.size(), 40);
    while (shown > 0 && shown < text.size() && (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80)
      --shown; // inside a character
    throw std::runtime_error("the label in `" + member + "` is `" + std::string(text.substr(0, shown)) +
                             "`, which isn't an integer");
  }
  return label;
}

/// The context's generator is keyed by the sample and the epoch, so the part differs between epochs but not between
/// workers.
template <class Pixel>
void decode(const image_options& o, std::span<const std::byte> file, std::span<Pixel> pixels,
            fl::context& context) {
  const auto crop = [&](std::size_t height, std::size_t width) {
    return o.crops_at_random ? o.random_crop(height, width, context.random) : o.center_crop(height, width);
  };
  fl::decode_image_crop(file, crop,
                        o.channels_first ? fl::chw_view(pixels, 3, o.size, o.size)
                                         : fl::hwc_view(pixels, o.size, o.size, 3),
                        {.horizontal_flip = context.random.chance(o.flip), .normalization = o.normalization},
                        {.on_corrupt = fl::on_corrupt::keep_whole});
}

template <class Pixel>
void load(const image_options& o, const fl::tar_sample& sample, fl::batch_slot<example<Pixel>>& slot,
          fl::context& context) {
  decode(o, sample[o.image], slot.template get<&example<Pixel>::image>(), context);
  slot.template get<&example<Pixel>::label>() = o.label ? read_label(sample, *o.label) : -1;
  slot.template get<&example<Pixel>::index>() = static_cast<std::int64_t>(context.index);
}

bool is_first(const char* name, const std::string& value, const char* first, const char* second) {
  require(value == first || value == second,
          std::string(name) + " must be \"" + first + "\" or \"" + second + "\", not \"" + value + "\"");
  return value == first;
}

std::array<double, 2> checked_range(const char* name, const std::array<double, 2>& range) {
  require(range[0] > 0 && range[0] <= range[1] && std::isfinite(range[1]),
          std::string(name) + " must be two numbers above 0, the smaller one first");
  return range;
}

/// Where shards lie that aren't files.
decltype(fl::tar_options::remote) store_of(const fl::file_patterns& shards,
                                           const std::optional<std::filesystem::path>& cache_dir,
                                           std::int64_t cache_bytes,
                                           const fl::callback<std::string>& on_notice) {
  const auto is_remote = [](const std::string& name) { return name.find("://") != std::string::npos; };
  if (std::none_of(shards.names().begin(), shards.names().end(), is_remote)) return nullptr;
#ifdef WITH_REMOTE
  const auto store = fl::remote({.on_notice = on_notice});
  return cache_dir ? fl::cached(store, {.directory = *cache_dir,
                                        .bytes = checked("cache_bytes", cache_bytes, std::int64_t{1} << 60),
                                        .on_notice = on_notice})
                   : store;
#else
  static_cast<void>(cache_dir), static_cast<void>(cache_bytes), static_cast<void>(on_notice);
  throw std::invalid_argument("shards: this module was built without feedline::remote, so it reads only "
                              "files: install libcurl's headers (on "
                              "Debian libcurl4-openssl-dev), then feedline and the module again");
#endif
}

struct pipeline_options {
  file_samples<fl::tar_samples> samples;
  fl::shuffle_options shuffle;
  std::size_t batch_size, workers;
  bool drop_last;
};

/// The shuffle buffer holds views of the shards, so a large one needs little memory (but copies of samples that come from
/// a server). Samples are decoded after it, straight into their batch.
template <class Pixel>
fl::any_pipeline<any_batch> pipeline_of(const pipeline_options& p, const image_options& o) {
  const fl::shape shape = o.channels_first ? fl::shape{3, o.size, o.size} : fl::shape{o.size, o.size, 3};
  const std::size_t bytes =
      p.batch_size * (3 * o.size * o.size * sizeof(Pixel) + 64) + 65'536; // of a batch, at most
  return p.samples | fl::shuffle(p.shuffle) |
         fl::batch_into<example<Pixel>>(
             p.batch_size,
             [o](const fl::tar_sample& sample, fl::batch_slot<example<Pixel>>& slot, fl::context& context) {
               load(o, sample, slot, context);
             },
             fl::shapes{{shape}}, fl::batch_options{.drop_last = p.drop_last}, fl::workers{p.workers},
             fl::name{"decode"}) |
         fl::map([](fl::batch_of<example<Pixel>> batch) { return any_batch(std::move(batch)); },
                 fl::max_item_bytes{bytes});
}

/// The parameters of Python that decide what an image is.
struct image_parameters {
  std::int64_t size;
  std::string crop;
  std::array<double, 2> scale, ratio;
  std::optional<std::int64_t> resize;
  std::optional<double> flip;
  std::optional<std::array<double, 3>> mean, std;
  std::string dtype, layout, image;
  std::optional<std::string> label;
};

image_options options_of(const image_parameters& p) {
  const bool is_float = is_first("dtype", p.dtype, "float32", "uint8");
  const bool is_random = is_first("crop", p.crop, "random", "center");
  const std::size_t side = checked("size", p.size, 65'500);
  image_options o{
      .size = side,
      .crops_at_random = is_random,
      .random_crop = {.scale = checked_range("scale", p.scale), .ratio = checked_range("ratio", p.ratio)},
      .center_crop = {.short_side = checked("resize", p.resize.value_or((8 * p.size + 3) / 7), 131'000),
                      .side = side},
      .flip = p.flip.value_or(is_random ? 0.5 : 0),
      .normalization = fl::imagenet_normalization,
      .channels_first = is_first("layout", p.layout, "NCHW", "NHWC"),
      .is_float = is_float,
      .image = p.image,
      .label = p.label};
  require(o.center_crop.short_side >= side,
          "resize " + std::to_string(o.center_crop.short_side) + " is below size " + std::to_string(p.size));
  require(o.flip >= 0 && o.flip <= 1,
          "flip must be a probability from 0 to 1, not " + std::to_string(o.flip));
  require(is_float || (!p.mean && !p.std), "mean and std are for dtype \"float32\": bytes aren't normalized");
  if (p.mean) o.normalization.mean = *p.mean;
  if (p.std) o.normalization.std = *p.std;
  for (const double m : o.normalization.mean)
    require(m >= -1 && m <= 1, "mean must be three numbers from -1 to 1, for pixels from 0 to 1");
  for (const double s : o.normalization.std)
    require(s > 0 && std::isfinite(s), "std must be three numbers above 0, for pixels from 0 to 1");
  return o;
}

fl::any_pipeline<any_batch>
loader(const fl::file_patterns& shards, fl::python::option::seed, std::int64_t batch_size,
       std::int64_t shuffle_buffer_size, std::int64_t shuffle_min_size, std::int64_t n_workers,
       std::int64_t size, const std::string& crop, const std::array<double, 2>& scale,
       const std::array<double, 2>& ratio, std::optional<std::int64_t> resize, std::optional<double> flip,
       const std::optional<std::array<double, 3>>& mean, const std::optional<std::array<double, 3>>& std,
       const std::string& dtype, const std::string& layout, const std::string& image,
       const std::optional<std::string>& label, bool drop_last,
       const std::optional<std::filesystem::path>& cache_dir, std::int64_t cache_bytes,
       fl::python::option::infinite, fl::python::option::on_notice on_notice,
       std::optional<std::int64_t> num_workers, std::optional<bool> is_shuffled, bool keep_index) {
  require(!shards.names().empty(), "shards is empty: name at least one shard or pattern");
  const image_options o =
      options_of({size, crop, scale, ratio, resize, flip, mean, std, dtype, layout, image, label});
  const fl::shuffle_options shuffle = shuffle_of(shuffle_buffer_size, shuffle_min_size, 1, is_shuffled);
  const auto store = store_of(shards, cache_dir, cache_bytes, on_notice.notify);
  const pipeline_options p{
      .samples = file_samples(
          fl::tar_samples(shards, {.keep_index = keep_index, .remote = store, .on_notice = on_notice.notify}),
          keeps_order(shuffle), store ? "its shards are on a server" : ""),
      .shuffle = shuffle,
      .batch_size = checked("batch_size", batch_size, 1'000'000),
      .workers = workers_of(n_workers, num_workers),
      .drop_last = drop_last};
  return o.is_float ? pipeline_of<float>(p, o) : pipeline_of<std::uint8_t>(p, o);
}

// A FUNCTION FOR PIPELINES OF PYTHON'S

/// A sample of a shard whose image is decoded.
template <class Pixel>
struct decoded_sample {
  fl::tar_sample sample;
  fl::tensor<Pixel> image;
  std::string member;
};

template <class Pixel>
py::object array_of(fl::tensor<Pixel>& image) {
  return fl::python::array_of(std::move(image));
}

template <class Pixel>
py::object members_of(decoded_sample<Pixel>& s) {
  py::dict all = members_of_sample(s.sample);
  all[s.member.c_str()] = array_of(s.image);
  return all;
}

/// Decodes what it gets: a path, the bytes of a file, or a dict with such bytes.
template <class Pixel>
class decode_function final : public native_function {
 public:
  explicit decode_function(image_options options) : o_(std::move(options)) {}

  const char* name() const noexcept override { return "decode"; }

  object call(object&& item, fl::context& context) const override {
    if (const auto* const path = item.value_if<std::string>())
      return {decoded(fl::read_file(*path), context), &array_of<Pixel>};
    if (const auto* const bytes = item.value_if<std::vector<std::byte>>())
      return {decoded(*bytes, context), &array_of<Pixel>};
    if (auto* const sample = item.value_if<fl::tar_sample>()) {
      fl::tensor<Pixel> image = decoded((*sample)[o_.image], context);
      return {decoded_sample<Pixel>{std::move(*sample), std::move(image), o_.image}, &members_of<Pixel>};
    }
    return of_python(item, context);
  }

 private:
  // Python's lock is needed to look at the object, but not while its image is decoded.
  object of_python(const object& item, fl::context& context) const {
    const lock held;
    const py::object o = item.get();
    const auto image = [&](const py::object& file) -> py::object {
      fl::tensor<Pixel> made;
      if (py::isinstance<py::bytes>(file)) {
        const auto text = file.cast<std::string_view>();
        const py::gil_scoped_release unlocked;
        made = decoded(std::as_bytes(std::span(text)), context);
      } else {
        const auto path = py::module_::import("os").attr("fsencode")(file).cast<std::string>();
        const py::gil_scoped_release unlocked;
        made = decoded(fl::read_file(path), context);
      }
      return array_of(made);
    };
    if (!py::isinstance<py::dict>(o)) return object(image(o));
    py::dict all = o.attr("copy")();
    if (!all.contains(o_.image)) throw py::key_error(o_.image);
    all[o_.image.c_str()] = image(all[o_.image.c_str()]);
    return object(std::move(all));
  }

  fl::tensor<Pixel> decoded(std::span<const std::byte> file, fl::context& context) const {
    fl::tensor<Pixel> image(o_.channels_first ? fl::shape{3, o_.size, o_.size}
                                              : fl::shape{o_.size, o_.size, 3});
    decode(o_, file, std::span(image.data(), image.size()), context);
    return image;
  }

  image_options o_;
};

std::shared_ptr<native_function>
decoder(std::int64_t size, const std::string& crop, const std::array<double, 2>& scale,
        const std::array<double, 2>& ratio, std::optional<std::int64_t> resize, std::optional<double> flip,
        const std::optional<std::array<double, 3>>& mean, const std::optional<std::array<double, 3>>& std,
        const std::string& dtype, const std::string& layout, const std::string& image) {
  const image_options o =
      options_of({size, crop, scale, ratio, resize, flip, mean, std, dtype, layout, image, {}});
  if (o.is_float) return std::make_shared<decode_function<float>>(o);
  return std::make_shared<decode_function<std::uint8_t>>(o);
}

} // namespace

void add_images(pybind11::module_& m) {
  fl::python::bind_loader(
      m, "Loader", loader, py::arg("shards"), py::arg("seed") = 0, py::arg("batch_size") = 64,
      py::arg("shuffle_buffer_size") = 10'000, py::arg("shuffle_min_size") = 1, py::arg("n_workers") = 8,
      py::arg("size") = 224, py::arg("crop") = "random", py::arg("scale") = std::array{0.08, 1.0},
      py::arg("ratio") = std::array{3.0 / 4, 4.0 / 3}, py::arg("resize") = py::none(),
      py::arg("flip") = py::none(), py::arg("mean") = py::none(), py::arg("std") = py::none(),
      py::arg("dtype") = "float32", py::arg("layout") = "NCHW", py::arg("image") = "jpg",
      py::arg("label") = "cls", py::arg("drop_last") = false, py::arg("cache_dir") = py::none(),
      py::arg("cache_bytes") = 100'000'000'000, py::arg("infinite") = true, py::arg("on_notice") = py::none(),
      py::arg("num_workers") = py::none(), py::arg("shuffle") = py::none(), py::arg("keep_index") = false,
      fl::python::checked_on_resume{{"size", "crop", "scale", "ratio", "resize", "flip", "mean", "std",
                                     "dtype", "layout", "image", "label"}},
      R"(Yields batches of images: dicts of arrays

  image  [batch, 3, size, size] (NCHW) or [batch, size, size, 3] (NHWC), float32 or uint8, RGB
  label  [batch] int64, -1 if label is None
  index  [batch] int64: the number of the sample, the same in each epoch

shards: TAR files in the WebDataset convention, or patterns of them: "train-{0000..0146}.tar", "train-*.tar"; also on web
    servers ("https://...") and in S3 ("s3://bucket/...", with keys, region and endpoint from the environment)
seed: keys the order and the augmentation
shuffle_buffer_size, shuffle_min_size: samples in the shuffle buffer, and before it emits the first one; with a buffer of 1
    or a minimum of 0 nothing is shuffled: all passes have the order of the shards and their samples
n_workers: threads that decode images
size: the side of the images
crop: "random": torchvision's RandomResizedCrop, with the smallest and largest area in scale and width / height in ratio;
    "center": the middle, after the short side was resized to resize pixels (by default 8/7 of size: 256 for 224)
flip: the probability of a horizontal flip (by default 0.5 for random crops and 0 for center crops)
mean, std: float32 images are (pixel / 255 - mean) / std, by default ImageNet's; mean=(0, 0, 0), std=(1, 1, 1) leaves 0 to 1
image, label: the members of a sample with the image (JPEG, PNG or WebP, as its bytes say) and with the label, an integer
    as text; label=None for no label
drop_last: leave out the last batch of a pass if it isn't full
cache_dir, cache_bytes: a folder that keeps what was read from servers, and its size
infinite: repeat the data for ever; if False, each `for` is one pass with each sample once
num_workers, shuffle: as PyTorch's DataLoader calls them: num_workers is n_workers (0: 1, as all decoding is in the background),
    and shuffle=False a buffer of 1
keep_index: len(loader) saves an index of each shard, as SHARD.index, and reads it the next time

len(loader), list() and tqdm count the samples by the headers of all shards, once; those on servers aren't counted. A state is refused by a loader with another size, crop, flip, layout or other
option that decides what an image is.
For evaluation: infinite=False, crop="center", shuffle=False.)");
  m.def(
      "decode", &decoder, py::arg("size") = 224, py::arg("crop") = "random",
      py::arg("scale") = std::array{0.08, 1.0}, py::arg("ratio") = std::array{3.0 / 4, 4.0 / 3},
      py::arg("resize") = py::none(), py::arg("flip") = py::none(), py::arg("mean") = py::none(),
      py::arg("std") = py::none(), py::arg("dtype") = "float32", py::arg("layout") = "NCHW",
      py::arg("image") = "jpg",
      R"(A function for map() that decodes a part of an image and resizes it, in one step and without Python's lock.

It takes the path of a JPEG, PNG or WebP file, the bytes of one, or a dict with such bytes or path as its member `image`, and returns an array
[3, size, size] (NCHW) or [size, size, 3] (NHWC), or the dict with the array in their place. Options as feedline.images.Loader.)");
}
