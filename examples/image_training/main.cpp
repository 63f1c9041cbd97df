// SPDX-License-Identifier: MIT
// Trains an image classifier from TAR shards of JPEG files, then evaluates it in one pass. The training
// pipeline is endless; the program ends the loop after --epochs or --steps. `--help` lists the flags; train()
// and evaluate() run the pipelines.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/telemetry.hpp>

#include "classifier.hpp"
#include "command_line.hpp"
#include "progress_bar.hpp"
#include "report.hpp"
#include "saved_training.hpp"
#include "shapes_data_set.hpp"
#include "temporary_folder.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t side = classifier::image_side;

struct example {
  fl::tensor<std::uint8_t, side, side, 3> pixels;
  std::int32_t label;
};

/// Without white space on either side, as Python's int() reads numbers.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  return text.substr(0, text.find_last_not_of(white) + 1);
}

std::int32_t read_label(const fl::tar_sample& sample) {
  constexpr std::int32_t max = 99'999; // bounds memory: each class has a weight vector
  const std::string_view text = trimmed(sample.text("cls"));
  std::int32_t label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label < 0 || label > max)
    throw std::runtime_error("label `" + std::string(text) + "` is not a number from 0 to " +
                             std::to_string(max));
  return label;
}

/// For training: a random crop that covers most of the photograph, randomly flipped. The context's generator
/// is keyed by the sample and the epoch, so the part differs between epochs but not between workers.
example decode_and_augment(const fl::tar_sample& sample, fl::context& context) {
  example result{{}, read_label(sample)};
  const auto part = [&](std::size_t height, std::size_t width) {
    return fl::random_resized_crop{.scale = {0.6, 1}}(height, width, context.random);
  };
  fl::decode_jpeg_crop(sample["jpg"], part, hwc_view(result.pixels),
                       {.horizontal_flip = context.random.chance(0.5)});
  return result;
}

/// For evaluation: the square in the middle.
example decode_center(const fl::tar_sample& sample) {
  example result{{}, read_label(sample)};
  fl::decode_jpeg_crop(sample["jpg"], fl::resized_center_crop{side + side / 8, side},
                       hwc_view(result.pixels));
  return result;
}

template <class Batch>
void add_batch(digest& d, const Batch& batch) {
  for (const fl::sample_id& id : batch.ids()) d.add(id.index);
  d.add(std::span<const std::int32_t>(batch.template get<&example::label>()));
  d.add(std::span<const std::uint8_t>(batch.template get<&example::pixels>()));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct census {
  std::uint64_t samples = 0;
  std::size_t classes = 0;
};

/// Counts samples and classes in one pass that decodes nothing. It leaves out what can't be read: train() and
/// evaluate() report that.
census take_census(const std::vector<std::string>& shards, const std::stop_token& stop) {
  const auto labels = fl::tar_samples(shards) | fl::map(read_label) | fl::prefetch(1000);
  auto loader =
      labels.finite({.stop = stop, .on_error = fl::on_error::skip, .failure_limit = fl::no_failure_limit});
  census result;
  for (const std::int32_t label : loader) {
    ++result.samples;
    result.classes = std::max(result.classes, static_cast<std::size_t>(label) + 1);
  }
  if (result.samples == 0 && !loader.failures().empty())
    throw std::runtime_error("no sample can be read: " + to_string(loader.failures().front()));
  if (result.samples == 0 && !stop.stop_requested())
    throw std::runtime_error("there are no samples in the shards");
  return result;
}

/// Prints each failure that is skipped, once, in however many epochs it occurs.
auto say_failures(progress_bar& bar) {
  return [&bar, said = std::set<std::string>()](const fl::failure& f) mutable {
    const std::string text = to_string(f);
    if (said.insert(text).second) bar.say("skipped: " + text);
  };
}

/// The end of both loops: failures and metrics.
template <class Loader>
void close(Loader& loader, const command_line& options, fl::metrics& metrics, report& into) {
  const auto& skipped = loader.failures();
  into.failures.insert(into.failures.end(), skipped.begin(), skipped.end());
  if (into.error && options.on_error == fl::on_error::fail) into.failures.push_back(into.error->failure());
  metrics = loader.metrics();
}

void train(classifier& model, const command_line& options, std::uint64_t steps, const std::stop_token& stop,
           report& into) {
  // The shuffle buffer holds views of the shards, so a large buffer needs little memory. Samples are decoded
  // after it.
  const auto pipeline = fl::tar_samples(options.train) |
                        fl::shuffle({.capacity = std::max<std::size_t>(options.shuffle, 1)}) |
                        fl::map(decode_and_augment, fl::workers{options.workers}, fl::name{"decode"}) |
                        fl::batch(options.batch) | fl::prefetch(options.prefetch);

  training_report& result = into.train;
  std::optional<fl::checkpoint> checkpoint;
  if (!options.resume.empty()) checkpoint = load_training(options.resume, model, result);
  progress_bar bar("training  ", steps);
  double accuracy = 0;
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t samples_before = result.samples;
  auto loader = pipeline.infinite(
      {.seed = options.seed,
       .stop = stop,
       .on_error = options.on_error,
       .failure_limit = options.failure_limit,
       .on_failure = say_failures(bar),
       .memory_budget = options.memory_budget,
       .resume = checkpoint,
       .on_starved = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); }});
  if (options.memory_budget > 0) std::fputs(to_string(loader.memory()).c_str(), stderr);
  std::optional<fl::live_view> view;
  if (options.watch) view.emplace(loader);
  const auto keep = [&] {
    if (!options.checkpoint.empty()) save_training(options.checkpoint, model, result, loader.checkpoint());
  };
  try {
    while (result.batches < steps) {
      const auto next = loader.next();
      if (!next) break;
      const auto& batch = *next;
      const double done = static_cast<double>(result.batches) / static_cast<double>(steps);
      const auto [loss, correct] = model.learn(batch.get<&example::pixels>(), batch.get<&example::label>(),
                                               static_cast<float>(0.01 - 0.009 * done));
      if (result.batches == 0) result.first_loss = loss;
      result.last_loss = loss;
      result.samples += batch.size();
      ++result.batches;
      add_batch(result.content, batch);
      result.seconds = seconds_since(begin);
      result.samples_in_seconds = result.samples - samples_before;
      if (result.batches % 100 == 0) keep();

      const double batch_accuracy = static_cast<double>(correct) / static_cast<double>(batch.size());
      accuracy +=
          (batch_accuracy - accuracy) / static_cast<double>(std::min<std::uint64_t>(result.batches, 50));
      bar.show(result.batches, [&, loss = loss] {
        return "loss " + decimal(loss, 3) + "  accuracy " + decimal(100 * accuracy, 1) + " %  " +
               decimal(result.samples_per_second(), 0) + " samples/s";
      });
    }
  } catch (const fl::pipeline_error& error) {
    into.error = error;
  }
  keep();
  close(loader, options, result.metrics, into);
}

void evaluate(classifier& model, const command_line& options, std::uint32_t epochs, std::uint64_t samples,
              const std::stop_token& stop, report& into) {
  const auto pipeline = fl::tar_samples(options.eval) |
                        fl::map(decode_center, fl::workers{options.workers}, fl::name{"decode"}) |
                        fl::batch(options.batch) | fl::prefetch(options.prefetch);

  evaluation_report& result = into.eval;
  progress_bar bar("evaluation", epochs * samples);
  const auto begin = std::chrono::steady_clock::now();
  auto loader = pipeline.finite({.seed = options.seed,
                                 .epochs = epochs,
                                 .stop = stop,
                                 .on_error = options.on_error,
                                 .failure_limit = options.failure_limit,
                                 .on_failure = say_failures(bar),
                                 .memory_budget = options.memory_budget});
  std::optional<fl::live_view> view;
  if (options.watch) view.emplace(loader);
  try {
    for (const auto& batch : loader) {
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const std::size_t guess = model.classify(batch.get<&example::pixels>().at(i));
        if (guess == static_cast<std::size_t>(batch.get<&example::label>()[i])) ++result.correct;
        result.distinct.insert(batch.ids()[i].index);
      }
      result.samples += batch.size();
      ++result.batches;
      add_batch(result.content, batch);
      result.seconds = seconds_since(begin);
      bar.show(result.samples, [&] { return "accuracy " + decimal(100 * result.accuracy(), 1) + " %"; });
    }
  } catch (const fl::pipeline_error& error) {
    into.error = error;
  }
  close(loader, options, result.metrics, into);
}

/// Returns the exit status that the help text lists.
int run(command_line options) {
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  const std::stop_token stop = interrupt.token();

  std::ofstream json_file;
  if (!options.json.empty()) { // now, so that a wrong name fails before the work starts
    json_file.open(options.json);
    if (!json_file) throw std::runtime_error("can't write " + options.json);
  }

  std::optional<temporary_folder> folder;
  if (options.train.empty() && options.eval.empty()) {
    std::puts("drawing a data set of shapes: circles, squares, triangles, stars, rings and crosses");
    folder.emplace();
    options.train = write_shapes(folder->path() / "train", 3000, 500, options.seed, stop);
    options.eval = write_shapes(folder->path() / "eval", 600, 200, ~options.seed, stop);
  }
  const census to_train = options.train.empty() ? census{} : take_census(options.train, stop);
  const census to_evaluate = options.eval.empty() ? census{} : take_census(options.eval, stop);

  report result;
  classifier model(std::max(to_train.classes, to_evaluate.classes), options.seed);
  if (to_train.samples > 0) {
    const std::uint64_t samples = options.epochs.value_or(6) * to_train.samples;
    train(model, options, options.steps.value_or((samples + options.batch - 1) / options.batch), stop,
          result);
  }
  if (to_evaluate.samples > 0 && !result.error) {
    const bool own_epochs = options.steps || to_train.samples == 0;
    const auto epochs = static_cast<std::uint32_t>(own_epochs ? options.epochs.value_or(1) : 1);
    evaluate(model, options, epochs, to_evaluate.samples, stop, result);
  }

  std::fputs(to_string(result).c_str(), stdout);
  json_file << to_json(result);
  if (!options.json.empty() && !json_file.flush()) throw std::runtime_error("can't write " + options.json);
  if (result.error) throw fl::pipeline_error(*result.error);
  if (interrupt.signal() != 0) std::puts("interrupted");
  return interrupt.signal() != 0 ? 128 + interrupt.signal() : 0; // the shells' convention
}

} // namespace

int main(int count, char** arguments) {
  try {
    const command_line options = read_command_line({arguments + 1, arguments + count});
    if (!options.help) return run(options);
    std::fputs(help_text.data(), stdout);
    return 0;
  } catch (const usage_error& error) {
    std::fprintf(stderr, "image_training: %s (--help lists the flags)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "image_training: %s\n", error.what());
    return 1;
  }
}
