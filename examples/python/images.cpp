// SPDX-License-Identifier: MIT
// A Python class that reads JPEG, PNG or WebP images from TAR shards, Arrow files or folders of classes and yields batches of them:
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
#include <feedline/python/telemetry.hpp>
#ifdef WITH_AUDIO
#include <feedline/audio.hpp>
#endif
#ifdef WITH_REMOTE
#include <feedline/remote.hpp>
#endif

#ifdef WITH_ARROW
#include "arrow_file.hpp"
#endif
#include "composed.hpp"
#include "file_function.hpp"
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

/// One into which another image of the batch was mixed.
struct mixed_example {
  fl::tensor<float> image;
  std::int64_t label;
  std::int64_t index;
  std::int64_t other_label; // of the other image
  float weight;             // of this image; that of the other is 1 - weight
};

/// A batch of any type: it arrives in Python as what it holds.
using any_batch = std::variant<fl::batch_of<example<float>>, fl::batch_of<example<std::uint8_t>>,
                               fl::batch_of<mixed_example>>;

/// How a sample becomes an image and a label.
struct image_options {
  std::size_t size;
  bool crops_at_random;
  fl::random_resized_crop random_crop;
  fl::resized_center_crop center_crop;
  double flip; // the probability
  std::optional<fl::color_jitter> color_jitter;
  std::optional<fl::rand_augment> rand_augment;
  fl::random_erasing erasing;
  fl::normalization normalization;
  bool channels_first;
  bool is_float;
  std::string image;                // names of members or columns, of which a sample has one: "jpg;png"
  std::optional<std::string> label; // the same
};

/// Without white space on either side, as Python's int() reads numbers.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  return text.substr(0, text.find_last_not_of(white) + 1);
}

std::int64_t read_label(std::string_view member, std::string_view contents) {
  const std::string_view text = trimmed(contents);
  std::int64_t label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    std::size_t shown = std::min<std::size_t>(text.size(), 40);
    while (shown > 0 && shown < text.size() && (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80)
      --shown; // inside a character
    throw std::runtime_error("the label in `" + std::string(member) + "` is `" +
                             std::string(text.substr(0, shown)) + "`, which isn't an integer");
  }
  return label;
}

/// The context's generator is keyed by the sample and the epoch, so the part and the colours differ between epochs but not between
/// workers.
template <class Pixel>
void decode(const image_options& o, std::span<const std::byte> file, std::span<Pixel> pixels,
            fl::context& context) {
  const auto crop = [&](std::size_t height, std::size_t width) {
    return o.crops_at_random ? o.random_crop(height, width, context.random) : o.center_crop(height, width);
  };
  const auto view =
      o.channels_first ? fl::chw_view(pixels, 3, o.size, o.size) : fl::hwc_view(pixels, o.size, o.size, 3);
  const bool has_colors = o.color_jitter || o.rand_augment; // which are adjusted before they are normalized
  fl::resize_options how{.horizontal_flip = context.random.chance(o.flip)};
  if (!has_colors) how.normalization = o.normalization;
  fl::decode_image_crop(file, crop, view, how, {.on_corrupt = fl::on_corrupt::keep_whole});
  if (o.rand_augment) (*o.rand_augment)(view, context.random);
  if (o.color_jitter) (*o.color_jitter)(view, context.random);
  if constexpr (std::is_floating_point_v<Pixel>)
    if (has_colors) fl::normalize(view, o.normalization);
  if (o.erasing.probability > 0) o.erasing(view, context.random);
}

/// A file in a folder of its class.
struct labelled_file {
  std::string path;
  std::int64_t label;
};

/// Decodes a sample of any source, and returns its label.
template <class Pixel>
std::int64_t load(const image_options& o, const object& sample, std::span<Pixel> pixels,
                  fl::context& context) {
  if (const auto* const file = sample.value_if<labelled_file>()) {
    decode(o, fl::read_file(file->path), pixels, context);
    return o.label ? file->label : -1;
  }
#ifdef WITH_ARROW
  if (const auto* const row = sample.value_if<arrow_record_row>()) {
    decode(o, file_in_row(column_of(*row, o.image).second, row->file()).bytes(), pixels, context);
    return o.label ? column_of(*row, *o.label).second.template as<std::optional<std::int64_t>>().value_or(-1)
                   : -1;
  }
#endif
  const auto* const members = sample.value_if<fl::tar_sample>();
  if (!members) throw std::logic_error("a sample of an unknown kind");
  decode(o, (*members)[member_of(*members, o.image)], pixels, context);
  if (!o.label) return -1;
  const std::string member = member_of(*members, *o.label);
  return read_label(member, members->text(member));
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

/// The images in the folders of a folder, which are their classes, as torchvision's ImageFolder finds them.
class class_folders {
 public:
  static constexpr fl::source_traits traits{.kind = "images"};

  explicit class_folders(const std::string& folder) : files_(std::make_shared<std::vector<labelled_file>>()) {
    namespace fs = std::filesystem;
    std::vector<fs::path> classes;
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory()) classes.push_back(entry.path());
    std::ranges::sort(classes);
    std::int64_t label = 0;
    for (const fs::path& each : classes) {
      std::vector<std::string> paths;
      std::vector<fs::path> above{fs::canonical(folder)};
      find_images(each, above, paths);
      std::ranges::sort(paths);
      for (std::string& path : paths) files_->push_back({std::move(path), label});
      ++label;
    }
    require(!files_->empty(), "shards: the folder `" + folder +
                                  "` has no *.arrow and no folders with *.jpg, *.jpeg, *.png or *.webp");
    for (const labelled_file& file : *files_) {
      longest_ = std::max(longest_, file.path.size());
      fingerprint_ = fl::stable_hash(std::to_string(fingerprint_) +
                                     fs::path(file.path).lexically_relative(folder).string());
    }
  }

  std::uint64_t size() const { return files_->size(); }

  labelled_file at(std::uint64_t position) const { return files_->at(position); }

  std::string origin(std::uint64_t index) const { return files_->at(index).path; }

  std::uint64_t fingerprint(std::uint64_t) const { return fingerprint_; }

  std::optional<std::size_t> max_item_bytes() const { return sizeof(labelled_file) + longest_ + 1; }

 private:
  /// Also in folders to which links lead, but not again in one of those above.
  static void find_images(const std::filesystem::path& folder, std::vector<std::filesystem::path>& above,
                          std::vector<std::string>& found) {
    const auto real = std::filesystem::canonical(folder);
    if (std::ranges::find(above, real) != above.end()) return;
    above.push_back(real);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::error_code error; // a link may lead nowhere
      if (entry.is_directory(error)) find_images(entry.path(), above, found);
      else if (is_image(entry.path().extension().string()) && entry.is_regular_file(error))
        found.push_back(entry.path().string());
    }
    above.pop_back();
  }

  static bool is_image(std::string extension) {
    std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
    return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp";
  }

  std::shared_ptr<std::vector<labelled_file>> files_;
  std::uint64_t fingerprint_ = 0;
  std::size_t longest_ = 0;
};

struct pipeline_options {
  fl::shuffle_options shuffle;
  std::size_t batch_size, workers;
  bool drop_last;
  double mixup; // 0: images aren't mixed
};

template <class Example>
void mix(fl::batch_of<Example>&, double, fl::context&) {} // without a weight it isn't mixed

/// Mixes each image of a batch with the one at the same place from its end.
void mix(fl::batch_of<mixed_example>& batch, [[maybe_unused]] double alpha,
         [[maybe_unused]] fl::context& context) {
  auto& images = batch.get<&mixed_example::image>();
  const std::size_t count = batch.size(), pixels = count == 0 ? 0 : images.size() / count;
  float weight = 1;
#ifdef WITH_AUDIO
  weight = fl::mixup{.alpha = static_cast<float>(alpha)}(std::span<float>(), {}, context.random);
#endif
  for (std::size_t i = 0; i < count; ++i) {
    batch.get<&mixed_example::other_label>()[i] = batch.get<&mixed_example::label>()[count - 1 - i];
    batch.get<&mixed_example::weight>()[i] = weight;
  }
  for (std::size_t i = 0; 2 * i + 1 < count; ++i) {
    float* const a = images.data() + i * pixels;
    float* const b = images.data() + (count - 1 - i) * pixels;
    for (std::size_t p = 0; p < pixels; ++p) {
      const float first = a[p], second = b[p];
      a[p] = weight * first + (1 - weight) * second;
      b[p] = weight * second + (1 - weight) * first;
    }
  }
}

/// The shuffle buffer holds views of the shards, so a large one needs little memory (but copies of samples that come from
/// a server). Samples are decoded after it, straight into their batch.
template <class Example>
fl::any_pipeline<any_batch> pipeline_of(const composed& samples, const pipeline_options& p,
                                        const image_options& o) {
  using pixel = typename decltype(Example::image)::value_type;
  const fl::shape shape = o.channels_first ? fl::shape{3, o.size, o.size} : fl::shape{o.size, o.size, 3};
  const std::size_t bytes =
      p.batch_size * (3 * o.size * o.size * sizeof(pixel) + 64) + 65'536; // of a batch, at most
  const auto make = [o](const object& sample, fl::batch_slot<Example>& slot, fl::context& context) {
    slot.template get<&Example::label>() = load(o, sample, slot.template get<&Example::image>(), context);
    slot.template get<&Example::index>() = static_cast<std::int64_t>(context.index);
    if constexpr (std::is_same_v<Example, mixed_example>) { // until mix() has the whole batch
      slot.template get<&Example::other_label>() = -1;
      slot.template get<&Example::weight>() = 1;
    }
  };
  const auto finish = [alpha = p.mixup](fl::batch_of<Example> batch, fl::context& context) {
    mix(batch, alpha, context);
    return any_batch(std::move(batch));
  };
  return samples.stages.append(fl::shuffle(p.shuffle) |
                               fl::batch_into<Example>(p.batch_size, make, fl::shapes{{shape}},
                                                       fl::batch_options{.drop_last = p.drop_last},
                                                       fl::workers{p.workers}, fl::name{"decode"}) |
                               fl::map(finish, fl::max_item_bytes{bytes}, fl::name{"batch"}));
}

/// The parameters of Python that decide what an image is.
struct image_parameters {
  std::int64_t size;
  std::string crop;
  std::array<double, 2> scale, ratio;
  std::optional<std::int64_t> resize;
  std::optional<double> flip;
  std::optional<std::array<double, 3>> mean, std;
  std::optional<std::array<float, 4>> color_jitter;
  std::optional<std::pair<std::int64_t, double>> rand_augment;
  double erasing;
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
      .color_jitter = {},
      .rand_augment = {},
      .erasing = {.probability = p.erasing},
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
  if (const auto& j = p.color_jitter) {
    for (const float amount : *j)
      require(amount >= 0 && std::isfinite(amount), "color_jitter must be four numbers from 0 on");
    require((*j)[3] <= 0.5f, "color_jitter: the hue's must be at most 0.5");
    o.color_jitter = {.brightness = (*j)[0], .contrast = (*j)[1], .saturation = (*j)[2], .hue = (*j)[3]};
  }
  if (const auto& r = p.rand_augment) {
    require(r->second >= 0 && r->second <= 30, "rand_augment: the magnitude must be from 0 to 30");
    o.rand_augment = {.changes =
                          static_cast<int>(checked("rand_augment: the number of changes", r->first, 100, 0)),
                      .magnitude = r->second};
  }
  require(p.erasing >= 0 && p.erasing <= 1,
          "erasing must be a probability from 0 to 1, not " + std::to_string(p.erasing));
  for (const double m : o.normalization.mean)
    require(m >= -1 && m <= 1, "mean must be three numbers from -1 to 1, for pixels from 0 to 1");
  for (const double s : o.normalization.std)
    require(s > 0 && std::isfinite(s), "std must be three numbers above 0, for pixels from 0 to 1");
  return o;
}

/// The samples of what `shards` names: TAR files, Arrow files or folders of these, or a folder of classes. Of classes, which follow each
/// other in the folder, all images are shuffled, and not in a buffer.
composed samples_of(const fl::file_patterns& shards, fl::shuffle_options& buffer, bool keep_index,
                    const decltype(fl::tar_options::remote)& store,
                    const fl::callback<std::string>& on_notice) {
  require(!shards.names().empty(), "shards is empty: name at least one shard or pattern");
  const bool shuffle = !keeps_order(buffer);
  const std::string& first = shards.names().front();
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(first, error);
#ifdef WITH_ARROW
  const auto has_rows = [](const std::string& name) {
    return name.ends_with(".arrow") || name.ends_with(".arrows") || !arrow_files_in(name).empty();
  };
  const auto with_rows = std::ranges::count_if(shards.names(), has_rows);
  require(with_rows == 0 || with_rows == std::ssize(shards.names()),
          "shards: name either Arrow files or others");
  if (with_rows > 0) return arrow_rows(shards, {}, shuffle, on_notice);
#endif
  if (is_folder) {
    require(shards.names().size() == 1, "shards: name one folder of classes, or files");
    buffer = {1, 1};
    const composed images(fl::python::objects_of(
        fl::from(class_folders(first)),
        +[](labelled_file& file) -> py::object { return fl::python::text_of(file.path); }));
    return shuffle ? globally_shuffled(images) : images;
  }
  return tar_samples(shards, {.keep_index = keep_index, .remote = store, .on_notice = on_notice}, shuffle,
                     store ? "its shards are on a server" : "");
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
       std::optional<std::int64_t> num_workers, std::optional<bool> is_shuffled, bool keep_index,
       const std::optional<std::array<float, 4>>& color_jitter,
       const std::optional<std::pair<std::int64_t, double>>& rand_augment, double erasing, double mixup) {
  const image_options o = options_of({size, crop, scale, ratio, resize, flip, mean, std, color_jitter,
                                      rand_augment, erasing, dtype, layout, image, label});
  require(mixup >= 0 && mixup <= 1000, "mixup must be a number from 0 to 1,000");
  require(mixup == 0 || o.is_float, "mixup is for dtype \"float32\"");
#ifndef WITH_AUDIO
  require(mixup == 0,
          "mixup isn't in this installation: it needs feedline::audio (FFTW) when the package is built");
#endif
  fl::shuffle_options shuffle = shuffle_of(shuffle_buffer_size, shuffle_min_size, 1, is_shuffled);
  const auto store = store_of(shards, cache_dir, cache_bytes, on_notice.notify);
  const composed samples = samples_of(shards, shuffle, keep_index, store, on_notice.notify);
  const pipeline_options p{.shuffle = shuffle,
                           .batch_size = checked("batch_size", batch_size, 1'000'000),
                           .workers = workers_of(n_workers, num_workers),
                           .drop_last = drop_last,
                           .mixup = mixup};
  if (mixup > 0) return pipeline_of<mixed_example>(samples, p, o);
  return o.is_float ? pipeline_of<example<float>>(samples, p, o)
                    : pipeline_of<example<std::uint8_t>>(samples, p, o);
}

// A FUNCTION FOR PIPELINES OF PYTHON'S

template <class Pixel>
std::shared_ptr<native_function> decoder_of(const image_options& o) {
  return std::make_shared<
      file_function<Pixel>>("decode", o.image, [o](std::span<const std::byte> file, fl::context& context) {
    fl::tensor<Pixel> image(o.channels_first ? fl::shape{3, o.size, o.size} : fl::shape{o.size, o.size, 3});
    decode(o, file, std::span(image.data(), image.size()), context);
    return image;
  });
}

std::shared_ptr<native_function>
decoder(std::int64_t size, const std::string& crop, const std::array<double, 2>& scale,
        const std::array<double, 2>& ratio, std::optional<std::int64_t> resize, std::optional<double> flip,
        const std::optional<std::array<double, 3>>& mean, const std::optional<std::array<double, 3>>& std,
        const std::string& dtype, const std::string& layout, const std::string& image,
        const std::optional<std::array<float, 4>>& color_jitter,
        const std::optional<std::pair<std::int64_t, double>>& rand_augment, double erasing) {
  const image_options o = options_of({size,
                                      crop,
                                      scale,
                                      ratio,
                                      resize,
                                      flip,
                                      mean,
                                      std,
                                      color_jitter,
                                      rand_augment,
                                      erasing,
                                      dtype,
                                      layout,
                                      image,
                                      {}});
  return o.is_float ? decoder_of<float>(o) : decoder_of<std::uint8_t>(o);
}

constexpr const char* default_image = "jpg;jpeg;png;webp;image";

} // namespace

void add_images(pybind11::module_& m) {
  fl::python::bind_telemetry(
      m, fl::python::bind_loader(
             m, "Loader", loader, py::arg("shards"), py::arg("seed") = 0, py::arg("batch_size") = 64,
             py::arg("shuffle_buffer_size") = 10'000, py::arg("shuffle_min_size") = 1,
             py::arg("n_workers") = 8, py::arg("size") = 224, py::arg("crop") = "random",
             py::arg("scale") = std::array{0.08, 1.0}, py::arg("ratio") = std::array{3.0 / 4, 4.0 / 3},
             py::arg("resize") = py::none(), py::arg("flip") = py::none(), py::arg("mean") = py::none(),
             py::arg("std") = py::none(), py::arg("dtype") = "float32", py::arg("layout") = "NCHW",
             py::arg("image") = default_image, py::arg("label") = "cls;label", py::arg("drop_last") = false,
             py::arg("cache_dir") = py::none(), py::arg("cache_bytes") = 100'000'000'000,
             py::arg("infinite") = true, py::arg("on_notice") = py::none(),
             py::arg("num_workers") = py::none(), py::arg("shuffle") = py::none(),
             py::arg("keep_index") = false, py::arg("color_jitter") = py::none(),
             py::arg("rand_augment") = py::none(), py::arg("erasing") = 0.0, py::arg("mixup") = 0.0,
             fl::python::checked_on_resume{{"size", "crop", "scale", "ratio", "resize", "flip", "mean", "std",
                                            "dtype", "layout", "image", "label", "color_jitter",
                                            "rand_augment", "erasing", "mixup"}},
             R"(Yields batches of images: dicts of arrays

  image  [batch, 3, size, size] (NCHW) or [batch, size, size, 3] (NHWC), float32 or uint8, RGB
  label  [batch] int64, -1 if label is None
  index  [batch] int64: the number of the sample, the same in each epoch

shards: TAR files in the WebDataset convention, or patterns of them: "train-{0000..0146}.tar", "train-*.tar"; also on web
    servers ("https://...") and in S3 ("s3://bucket/...", with keys, region and endpoint from the environment). Or Arrow files
    (*.arrow), or a folder of these as Hugging Face's save_to_disk() writes it. Or a folder with a folder for each class, whose
    number is the label: all images are then shuffled, without a buffer
seed: keys the order and the augmentation
shuffle_buffer_size, shuffle_min_size: samples in the shuffle buffer, and before it emits the first one; with a buffer of 1
    or a minimum of 0 nothing is shuffled: all passes have the order of the shards and their samples
n_workers: threads that decode images
size: the side of the images
crop: "random": torchvision's RandomResizedCrop, with the smallest and largest area in scale and width / height in ratio;
    "center": the middle, after the short side was resized to resize pixels (by default 8/7 of size: 256 for 224)
flip: the probability of a horizontal flip (by default 0.5 for random crops and 0 for center crops)
mean, std: float32 images are (pixel / 255 - mean) / std, by default ImageNet's; mean=(0, 0, 0), std=(1, 1, 1) leaves 0 to 1
color_jitter: how much brightness, contrast, saturation and hue change, as in torchvision: (0.4, 0.4, 0.4, 0.1)
rand_augment: the number of changes and their magnitude from 0 to 30: (2, 9). These and color_jitter precede normalization
erasing: the probability that a rectangle becomes 0, after normalization: torchvision's RandomErasing
mixup: Beta(mixup, mixup) draws for each batch how much of the image at the same place from its end is mixed into each image. Batches
    then have other_label too, and weight, that of the image itself; 0: off
image, label: the member of a sample, or the column of a row, with the image (JPEG, PNG or WebP, as its bytes say; of rows also a
    struct of bytes or of a path alone) and with the label, an integer; of several names, separated by ";", the first that there is; label=None for no
    label
drop_last: leave out the last batch of a pass if it isn't full
cache_dir, cache_bytes: a folder that keeps what was read from servers, and its size
infinite: repeat the data for ever; if False, each `for` is one pass with each sample once
num_workers, shuffle: as PyTorch's DataLoader calls them: num_workers is n_workers (0: 1, as all decoding is in the background),
    and shuffle=False a buffer of 1
keep_index: len(loader) saves an index of each shard, as SHARD.index, and reads it the next time

len(loader), list() and tqdm count the samples by the headers of all shards, once; those on servers aren't counted. A state is refused by a loader with another size, crop, flip, layout or other
option that decides what an image is.
For evaluation: infinite=False, crop="center", shuffle=False.)"));
  m.def(
      "decode", &decoder, py::arg("size") = 224, py::arg("crop") = "random",
      py::arg("scale") = std::array{0.08, 1.0}, py::arg("ratio") = std::array{3.0 / 4, 4.0 / 3},
      py::arg("resize") = py::none(), py::arg("flip") = py::none(), py::arg("mean") = py::none(),
      py::arg("std") = py::none(), py::arg("dtype") = "float32", py::arg("layout") = "NCHW",
      py::arg("image") = default_image, py::arg("color_jitter") = py::none(),
      py::arg("rand_augment") = py::none(), py::arg("erasing") = 0.0,
      R"(A function for map() that decodes a part of an image and resizes it, in one step and without Python's lock.

It takes the path of a JPEG, PNG or WebP file, the bytes of one, or a dict or a row with such bytes or path as its member `image`, and
returns an array [3, size, size] (NCHW) or [size, size, 3] (NHWC), or the dict with the array in their place. Options as
feedline.images.Loader.)");
}
