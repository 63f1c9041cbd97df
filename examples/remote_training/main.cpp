// SPDX-License-Identifier: MIT
// Trains an image classifier from TAR shards of JPEG files behind a web server or in S3. The shards are read while it
// trains; with --cache they are kept on disk, so that later epochs and programs read them from there.
//
//   remote_training [--epochs N] [--workers N] [--seed N] [--cache FOLDER] [--cache-bytes N] [--retry-for SECONDS]
//                   [--watch] URL...
//   remote_training --make FOLDER     draws a small data set: train-{0000..0003}.tar
//
// The script `run` beside this file shows it with a web server of its own.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>
#include <feedline/remote.hpp>
#include <feedline/telemetry.hpp>

namespace fl = feedline;

namespace {

constexpr std::size_t side = 32, classes = 6;

struct options {
  std::vector<std::string> urls;
  std::uint64_t epochs = 3, workers = 2, seed = 1, cache_bytes = 10'000'000'000;
  std::uint64_t retry_for = 300; // seconds in which no server answers
  std::string cache, make;
  bool watch = false;
};

struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

options read_options(std::span<char*> arguments) {
  options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view flag = arguments[i];
    if (!flag.starts_with("--")) {
      o.urls.emplace_back(flag);
      continue;
    }
    if (flag == "--watch") {
      o.watch = true;
      continue;
    }
    if (++i == arguments.size()) throw usage_error(std::string(flag) + " needs a value");
    const std::string_view value = arguments[i];
    const auto number = [&](std::uint64_t& to) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), to);
      if (error != std::errc() || end != value.data() + value.size() || to == 0)
        throw usage_error(std::string(flag) + " needs a positive number, not `" + std::string(value) + "`");
    };
    if (flag == "--epochs") number(o.epochs);
    else if (flag == "--workers") number(o.workers);
    else if (flag == "--seed") number(o.seed);
    else if (flag == "--cache-bytes") number(o.cache_bytes);
    else if (flag == "--retry-for") number(o.retry_for);
    else if (flag == "--cache") o.cache = value;
    else if (flag == "--make") o.make = value;
    else throw usage_error("unknown flag " + std::string(flag));
  }
  if (o.urls.empty() && o.make.empty()) throw usage_error("give URLs of shards, or --make FOLDER");
  return o;
}

struct example {
  fl::tensor<float, 3, side, side> pixels;
  std::int32_t label;
};

/// Without white space on either side, as Python's int() reads numbers.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  return text.substr(0, text.find_last_not_of(white) + 1);
}

example decode(const fl::tar_sample& sample, fl::context& c) {
  example made{{}, 0};
  const std::string_view text = trimmed(sample.text("cls"));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), made.label);
  if (error != std::errc() || end != text.data() + text.size() || made.label < 0 ||
      made.label >= static_cast<std::int32_t>(classes))
    throw std::runtime_error("label `" + std::string(text) + "` is not a number from 0 to 5");
  const auto part = [&](std::size_t height, std::size_t width) {
    return fl::random_resized_crop{.scale = {0.6, 1}}(height, width, c.random);
  };
  fl::decode_jpeg_crop(sample["jpg"], part, chw_view(made.pixels), {.horizontal_flip = c.random.chance(0.5)});
  return made;
}

/// The model: an image belongs to the class whose mean image is nearest.
class mean_images {
 public:
  bool learn(std::span<const float> image, std::size_t label) {
    const auto distance = [&](std::size_t c) {
      float sum = 0;
      for (std::size_t i = 0; i < image.size(); ++i)
        sum += (image[i] - means_[c][i]) * (image[i] - means_[c][i]);
      return sum;
    };
    std::size_t guess = 0;
    for (std::size_t c = 1; c < classes; ++c)
      if (distance(c) < distance(guess)) guess = c;
    const float weight = 1 / ++counts_[label];
    for (std::size_t i = 0; i < image.size(); ++i) means_[label][i] += weight * (image[i] - means_[label][i]);
    return guess == label;
  }

 private:
  std::array<std::array<float, 3 * side * side>, classes> means_{};
  std::array<float, classes> counts_{};
};

int train(const options& o) {
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  auto store = fl::remote(
      {.in_flight = 64,
       .retry = {.for_at_most = std::chrono::seconds(o.retry_for)},
       .on_notice = [](const std::string& notice) { std::fprintf(stderr, "%s\n", notice.c_str()); }});
  if (!o.cache.empty()) store = fl::cached(store, {.directory = o.cache, .bytes = o.cache_bytes});
  const auto pipeline = fl::tar_samples(o.urls, {.remote = store, .max_sample_bytes = 10'000'000}) |
                        fl::shuffle({.capacity = 500}) |
                        fl::map(decode, fl::workers{o.workers}, fl::name{"decode"}) | fl::batch(64);

  mean_images model;
  const bool shows_progress = ::isatty(STDERR_FILENO) != 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::size_t samples = 0, correct = 0, of_epoch = 0;
  std::uint32_t epoch = 0;
  double shown = 0;
  const auto report = [&](const char* end) {
    std::fprintf(stderr, "epoch %u: %zu samples, accuracy %.1f %%, %.0f samples/s%s", epoch + 1, of_epoch,
                 100.0 * static_cast<double>(correct) /
                     static_cast<double>(std::max<std::size_t>(of_epoch, 1)),
                 static_cast<double>(samples) / seconds(), end);
  };
  // A sample that can't be read is left out and counted.
  auto loader = pipeline.finite(
      {.seed = o.seed,
       .epochs = static_cast<std::uint32_t>(o.epochs),
       .stop = interrupt.token(),
       .on_error = fl::on_error::skip,
       .on_starved = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); }});
  std::optional<fl::live_view> view;
  if (o.watch) view.emplace(loader);
  for (const auto& batch : loader) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (batch.ids()[i].epoch != epoch) {
        report("\n");
        epoch = batch.ids()[i].epoch;
        correct = of_epoch = 0;
      }
      correct += model.learn(batch.get<&example::pixels>().at(i),
                             static_cast<std::size_t>(batch.get<&example::label>()[i]));
      ++samples;
      ++of_epoch;
    }
    if (shows_progress && seconds() - shown > 0.2) {
      report("  \r");
      shown = seconds();
    }
  }
  report("\n");
  view.reset();

  std::printf("%zu samples in %.1f s\n", samples, seconds());
  const fl::metrics metrics = loader.metrics();
  for (const fl::user_metric& number : metrics.total.stages.front().user_metrics)
    std::printf("  %s: %.0f\n", number.name.c_str(), number.value);
  for (const fl::failure_count& f : loader.failure_counts())
    std::printf("  left out %llu times: %s: %s\n", static_cast<unsigned long long>(f.count), f.stage.c_str(),
                f.message.c_str());
  if (interrupt.signal() != 0) std::puts("interrupted");
  return interrupt.signal() != 0 ? 128 + interrupt.signal() : samples > 0 ? 0 : 1;
}

void add_member(std::ofstream& shard, const std::string& name, std::string_view contents) {
  std::string header(512, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  const auto octal = [](std::size_t value, std::size_t digits) {
    std::string text(digits, '0');
    for (; value > 0; value /= 8) text[--digits] = static_cast<char>('0' + value % 8);
    return text;
  };
  put(0, name);
  put(100, "0000644");
  put(124, octal(contents.size(), 11));
  put(148, std::string(8, ' '));
  put(156, "0");
  put(257, std::string("ustar\0"
                       "00",
                       8));
  std::size_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, octal(sum, 6) + '\0');
  shard << header << contents << std::string((512 - contents.size() % 512) % 512, '\0');
}

/// Draws noisy pictures in one of six colours.
void make_shards(const std::string& folder, std::uint64_t seed) {
  fl::random_generator random(seed);
  fl::tensor<std::uint8_t> picture(fl::shape{96, 96, 3});
  for (int n = 0; n < 4; ++n) {
    const std::string path = folder + "/train-000" + std::to_string(n) + ".tar";
    std::ofstream shard(path, std::ios::binary);
    for (int i = 0; i < 250; ++i) {
      const std::size_t label = random.below(classes);
      for (std::size_t k = 0; k < picture.size(); ++k) {
        const bool is_bright = ((label + 1) >> (k % 3) & 1) != 0;
        picture[k] = static_cast<std::uint8_t>(random.below(is_bright ? 256 : 128));
      }
      const std::string key = std::to_string(n) + "-" + std::to_string(i);
      const auto jpeg = fl::encode_jpeg(picture);
      add_member(shard, key + ".jpg", {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
      add_member(shard, key + ".cls", std::to_string(label));
    }
    shard << std::string(1024, '\0');
    if (!shard.flush()) throw std::runtime_error("can't write " + path);
  }
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options o = read_options(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
    if (o.make.empty()) return train(o);
    make_shards(o.make, o.seed);
    return 0;
  } catch (const usage_error& error) {
    std::fprintf(stderr, "remote_training: %s; main.cpp lists the flags\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "remote_training: %s\n", error.what());
    return 1;
  }
}
