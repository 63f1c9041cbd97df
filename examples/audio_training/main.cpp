// SPDX-License-Identifier: MIT
// Trains a sound classifier from Arrow files with encoded clips, then evaluates it in one pass. The training
// pipeline is endless; the program ends the loop after --epochs or --steps. `--help` lists the flags; train()
// and evaluate() run the pipelines.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <unordered_set>
#include <vector>

#include <unistd.h>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>
#include <feedline/telemetry.hpp>

#include "classifier.hpp"
#include "features.hpp"
#include "options.hpp"
#include "tones.hpp"

namespace fl = feedline;

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct report {
  std::uint64_t batches = 0, trained = 0, evaluated = 0, labelled = 0, correct = 0;
  std::unordered_set<std::uint64_t> distinct; // indices of the evaluated clips
  double first_loss = 0, last_loss = 0;
  double training_seconds = 0, evaluation_seconds = 0;
  std::uint64_t digest = 0; // of the training samples, in their order
  fl::metrics train_metrics, eval_metrics;
  std::vector<fl::failure> failures;
  std::optional<fl::pipeline_error> error; // the one that ended a run

  double accuracy() const {
    return labelled > 0 ? 100 * static_cast<double>(correct) / static_cast<double>(labelled) : 0;
  }
};

struct census {
  std::uint64_t clips = 0;
  std::size_t classes = 0;
};

/// Counts clips and classes in one pass over the labels. It leaves out what can't be read: train() and
/// evaluate() report that.
census take_census(const std::vector<std::string>& files, const options& o, const std::stop_token& stop) {
  constexpr std::int64_t max = 99'999; // bounds memory: each class has a weight vector
  const auto labels =
      fl::arrow_rows<std::optional<std::int64_t>>(files, {o.label_column}) | fl::prefetch(1000);
  auto loader =
      labels.finite({.stop = stop, .on_error = fl::on_error::skip, .failure_limit = fl::no_failure_limit});
  census result;
  for (const auto& row : loader) {
    const std::int64_t label = (*row).value_or(-1);
    if (label < -1 || label > max)
      throw std::runtime_error(row.origin() + ": label " + std::to_string(label) +
                               " is not in the range 0 to " + std::to_string(max));
    ++result.clips;
    result.classes = std::max(result.classes, static_cast<std::size_t>(label + 1));
  }
  if (result.clips == 0 && !loader.failures().empty())
    throw std::runtime_error("no clip can be read: " + to_string(loader.failures().front()));
  if (result.clips == 0 && !stop.stop_requested())
    throw std::runtime_error("there are no clips in the files");
  return result;
}

/// Encoded clips are views of the files, so a large shuffle buffer needs little memory. Clips are decoded
/// after it.
auto training_clips(const options& o, const fl::mel_spectrogram& spectrogram) {
  const std::size_t length = o.clip_length();
  const auto make = fl::per_worker([&spectrogram, length] {
    return [maker = feature_maker(spectrogram, length)](const clip_row& row, example_slot& slot,
                                                        fl::context& context) mutable {
      maker.for_training(row, slot, context.random);
    };
  });
  return fl::arrow_rows<clip>(o.train, {o.audio_column, o.label_column}) |
         fl::partition({100 - o.hold_out, o.hold_out}, 0) |
         fl::shuffle({.capacity = o.shuffle, .min_fill = std::max<std::size_t>(1, o.min_fill)}) |
         fl::prefetch(o.raw_queue) |
         fl::batch_into<example>(o.batch, make,
                                 fl::shapes{{{spectrogram.mels(), spectrogram.frames(length)}}},
                                 fl::workers{o.workers}, fl::name{"spectrogram"});
}

auto evaluation_clips(const options& o, const fl::mel_spectrogram& spectrogram) {
  const std::size_t length = o.clip_length();
  const auto make = fl::per_worker([&spectrogram, length] {
    return [maker = feature_maker(spectrogram, length)](const clip_row& row, example_slot& slot) mutable {
      maker.for_evaluation(row, slot);
    };
  });
  return fl::arrow_rows<clip>(o.hold_out > 0 ? o.train : o.eval, {o.audio_column, o.label_column}) |
         fl::partition({100 - o.hold_out, o.hold_out}, o.hold_out > 0 ? 1 : 0) |
         fl::shuffle({.capacity = o.eval_shuffle}) | fl::prefetch(o.raw_queue) |
         fl::batch_into<example>(o.batch, make,
                                 fl::shapes{{{spectrogram.mels(), spectrogram.frames(length)}}},
                                 fl::workers{o.eval_workers}, fl::name{"spectrogram"});
}

/// Prints each failure that is skipped, once, in however many epochs it occurs.
auto say_failures() {
  return [said = std::set<std::string>()](const fl::failure& f) mutable {
    const std::string text = to_string(f);
    if (said.insert(text).second)
      std::printf("%sskipped: %s\n", ::isatty(STDOUT_FILENO) != 0 ? "\r\033[K" : "", text.c_str());
  };
}

/// The end of both loops: failures and metrics.
template <class Loader>
void close(Loader& loader, fl::metrics& metrics, report& into) {
  const auto& skipped = loader.failures();
  into.failures.insert(into.failures.end(), skipped.begin(), skipped.end());
  metrics = loader.metrics();
}

void train(classifier& model, const options& o, const fl::mel_spectrogram& spectrogram, std::uint64_t steps,
           const std::stop_token& stop, report& into) {
  auto loader = training_clips(o, spectrogram)
                    .infinite({.seed = o.seed,
                               .stop = stop,
                               .on_error = o.on_error,
                               .failure_limit = o.failure_limit,
                               .on_failure = say_failures(),
                               .memory_budget = o.memory_budget,
                               .on_starved = [](const std::string& sentence) {
                                 std::fprintf(stderr, "%s\n", sentence.c_str());
                               }});
  std::fputs(to_string(loader.memory()).c_str(), stdout);
  std::optional<fl::live_view> view;
  if (o.watch) view.emplace(loader);
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  const auto begin = std::chrono::steady_clock::now();
  double loss = 0;
  try {
    while (into.batches < steps) {
      const auto batch = loader.next();
      if (!batch) break;
      const double done = static_cast<double>(into.batches) / static_cast<double>(steps);
      const classifier::outcome learnt =
          model.learn(batch->get<&example::spectrogram>(), batch->get<&example::label>(),
                      static_cast<float>(0.02 * (1 - done)), stop);
      if (stop.stop_requested()) break;
      if (into.batches++ == 0) into.first_loss = loss = learnt.loss;
      into.last_loss = learnt.loss;
      into.trained += batch->size();
      loss += 0.1 * (learnt.loss - loss);
      into.training_seconds = seconds_since(begin);
      const bool is_shown = is_terminal || into.batches * 10 / steps != (into.batches - 1) * 10 / steps;
      if (is_shown)
        std::printf("%straining %llu/%llu  loss %.3f  %.0f clips/s%s", is_terminal ? "\r" : "",
                    static_cast<unsigned long long>(into.batches), static_cast<unsigned long long>(steps),
                    loss, static_cast<double>(into.trained) / into.training_seconds,
                    is_terminal ? "\033[K" : "\n");
      std::fflush(stdout);
    }
  } catch (const fl::pipeline_error& error) {
    into.error = error;
  }
  if (is_terminal) std::puts("");
  into.digest = loader.digest();
  close(loader, into.train_metrics, into);
}

void evaluate(classifier& model, const options& o, const fl::mel_spectrogram& spectrogram,
              const std::stop_token& stop, report& into) {
  const auto begin = std::chrono::steady_clock::now();
  auto loader = evaluation_clips(o, spectrogram)
                    .finite({.seed = o.seed,
                             .stop = stop,
                             .on_error = o.on_error,
                             .failure_limit = o.failure_limit,
                             .on_failure = say_failures(),
                             .memory_budget = o.memory_budget});
  std::optional<fl::live_view> view;
  if (o.watch) view.emplace(loader);
  try {
    for (const auto& batch : loader)
      for (std::size_t i = 0; i < batch.size() && !stop.stop_requested(); ++i) {
        const auto& labels = batch.get<&example::label>();
        into.distinct.insert(batch.ids()[i].index);
        ++into.evaluated;
        if (!labels.valid[i]) continue;
        ++into.labelled;
        const std::size_t guess = model.classify(batch.get<&example::spectrogram>().at(i));
        into.correct += guess == static_cast<std::size_t>(labels.values[i]);
      }
  } catch (const fl::pipeline_error& error) {
    into.error = error;
  }
  into.evaluation_seconds = seconds_since(begin);
  close(loader, into.eval_metrics, into);
}

void print(const report& r) {
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  if (r.batches > 0)
    std::printf("\ntrained on %llu clips in %.1f s, %.0f per second; loss %.3f -> %.3f\n%s",
                number(r.trained), r.training_seconds, static_cast<double>(r.trained) / r.training_seconds,
                r.first_loss, r.last_loss, to_string(r.train_metrics).c_str());
  if (r.evaluated > 0)
    std::printf("\nevaluated on %llu clips, %llu of them distinct, in %.1f s: accuracy %.1f %%\n%s",
                number(r.evaluated), number(r.distinct.size()), r.evaluation_seconds, r.accuracy(),
                to_string(r.eval_metrics).c_str());
  if (!r.failures.empty()) std::printf("\nclips that failed: %llu\n", number(r.failures.size()));
  for (std::size_t i = 0; i < std::min<std::size_t>(r.failures.size(), 10); ++i)
    std::printf("  %s\n", to_string(r.failures[i]).c_str());
}

std::string to_json(const report& r) {
  return "{\"batches\": " + std::to_string(r.batches) + ", \"trained\": " + std::to_string(r.trained) +
         ", \"digest\": " + std::to_string(r.digest) + ", \"first_loss\": " + std::to_string(r.first_loss) +
         ", \"last_loss\": " + std::to_string(r.last_loss) +
         ", \"training_seconds\": " + std::to_string(r.training_seconds) +
         ", \"evaluated\": " + std::to_string(r.evaluated) +
         ", \"distinct\": " + std::to_string(r.distinct.size()) +
         ", \"accuracy\": " + std::to_string(r.accuracy()) +
         ", \"failures\": " + std::to_string(r.failures.size()) +
         ", \"metrics\": {\"train\": " + to_json(r.train_metrics) + ", \"eval\": " + to_json(r.eval_metrics) +
         "}}\n";
}

/// Returns the exit status that the help text lists.
int run(options o) {
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  const std::stop_token stop = interrupt.token();
  const fl::mel_spectrogram spectrogram(o.spectrogram());

  std::ofstream json_file;
  if (!o.json.empty()) { // now, so that a wrong name fails before the work starts
    json_file.open(o.json);
    if (!json_file) throw std::runtime_error("can't write " + o.json);
  }

  struct folder {
    std::filesystem::path path;

    ~folder() {
      std::error_code ignored;
      if (!path.empty()) std::filesystem::remove_all(path, ignored);
    }
  } made;

  const auto make_tones = [&](const std::string& in) {
    write_tones(in + "/train.arrows", 600, o.seed, stop);
    write_tones(in + "/eval.arrows", 200, ~o.seed, stop);
  };
  if (!o.write_tones.empty()) {
    make_tones(o.write_tones);
    return 0;
  }
  if (o.train.empty() && o.eval.empty()) {
    std::puts("making a data set of sounds: sines, square waves, rising and falling tones, pulses and noise");
    std::string name = (std::filesystem::temp_directory_path() / "sounds-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("can't create the folder " + name);
    made.path = name;
    o.train = {name + "/train.arrows"};
    o.eval = {name + "/eval.arrows"};
    make_tones(name);
  }
  const census to_train = o.train.empty() ? census{} : take_census(o.train, o, stop);
  const census to_evaluate = o.eval.empty() ? census{} : take_census(o.eval, o, stop);

  report result;
  classifier model(spectrogram.mels(),
                   std::max<std::size_t>(1, std::max(to_train.classes, to_evaluate.classes)), o.seed);
  if (to_train.clips > 0) {
    const double clips = static_cast<double>(o.epochs * to_train.clips) * (1 - o.hold_out / 100);
    const auto batches = static_cast<std::uint64_t>(clips / static_cast<double>(o.batch)) + 1;
    train(model, o, spectrogram, o.steps.value_or(batches), stop, result);
  }
  if ((to_evaluate.clips > 0 || o.hold_out > 0) && !result.error)
    evaluate(model, o, spectrogram, stop, result);
  print(result);
  json_file << to_json(result);
  if (!o.json.empty() && !json_file.flush()) throw std::runtime_error("can't write " + o.json);
  if (result.error) throw fl::pipeline_error(*result.error);
  if (interrupt.signal() != 0) std::puts("interrupted");
  return interrupt.signal() != 0 ? 128 + interrupt.signal() : 0; // the shells' convention
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options o = read_options({arguments + 1, arguments + count});
    if (o.help) {
      std::fputs(help_text.data(), stdout);
      return 0;
    }
    o.check();
    return run(o);
  } catch (const usage_error& error) {
    std::fprintf(stderr, "audio_training: %s (--help lists the flags)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "audio_training: %s\n", error.what());
    return 1;
  }
}
