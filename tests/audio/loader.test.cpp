// SPDX-License-Identifier: MIT
// The complete loader of an audio training: rows of Arrow files are decoded, resampled, cropped, shuffled and
// batched as spectrograms, with failures, early ends and resumed runs.
#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/arrow_writer.hpp"
#include "support/asleep.hpp"
#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using Catch::Contains;

namespace {

constexpr std::size_t rate = 8'000, length = 800, mels = 8, frames = length / 80 + 1;
constexpr std::uint64_t rows_of_file = 12;
constexpr std::size_t counts_of_workers[] = {1, 2, 64};

struct clip {
  std::optional<std::span<const std::byte>> audio;
  std::optional<std::int64_t> label;
};

using clip_row = fl::arrow_row<clip>;

struct sound {
  fl::tensor<float, length> samples;
  std::optional<std::int64_t> label;
  std::uint64_t file;
};

struct example {
  fl::tensor<float, mels, frames> spectrogram;
  std::int64_t label; // -1: none
  std::uint64_t file;
};

const fl::mel_spectrogram& features() {
  static const fl::mel_spectrogram shared({.sample_rate = rate,
                                           .fft_length = 128,
                                           .hop_length = 80,
                                           .mels = mels,
                                           .values = fl::mel_values::natural_log});
  return shared;
}

/// An encoded clip; rates, lengths, formats and numbers of channels (one or two) vary.
bytes encoded(std::uint64_t number) {
  constexpr int rates[] = {8000, 11'025, 16'000, 44'100};
  const int format = number % 3 == 0 ? SF_FORMAT_FLAC : SF_FORMAT_WAV;
  const int channels = number % 5 == 0 ? 2 : 1;
  return write_sound(format | SF_FORMAT_PCM_16,
                     tone(static_cast<std::size_t>(channels) * (100 + 317 * (number % 8)), number), channels,
                     rates[number % 4]);
}

std::optional<std::int64_t> label_of(std::uint64_t number) {
  return number % 4 == 1 ? std::nullopt : std::optional(static_cast<std::int64_t>(number));
}

/// Changes the content of a row: returns what replaces the clip's file.
using change = std::function<std::optional<std::string>(std::uint64_t, std::string)>;

std::string table(std::uint64_t first, std::uint64_t end, const change& change_clip = {}) {
  arrow_writer writer({binary_part("audio"), int64_part("label")});
  while (first < end) { // several record batches
    std::vector<std::optional<std::string>> clips;
    std::vector<std::optional<std::int64_t>> labels;
    for (int i = 0; i < 5 && first < end; ++i, ++first) {
      const bytes file = encoded(first);
      std::string text(reinterpret_cast<const char*>(file.data()), file.size());
      clips.push_back(change_clip ? change_clip(first, std::move(text)) : std::optional(std::move(text)));
      labels.push_back(label_of(first));
    }
    writer.batch({text_data(clips), number_data(labels)});
  }
  return writer.stream();
}

std::uint64_t number_of(std::uint64_t index) { return (index >> 40) * rows_of_file + (index & 0xffffffff); }

/// A folder of tables of twelve clips each.
struct tables {
  explicit tables(std::uint64_t files, const change& change_clip = {}) : clips(files * rows_of_file) {
    for (std::uint64_t f = 0; f < files; ++f)
      names.push_back(folder.write("clips-" + std::to_string(f) + ".arrows",
                                   table(f * rows_of_file, (f + 1) * rows_of_file, change_clip)));
  }

  temporary_folder folder;
  std::vector<std::string> names;
  std::uint64_t clips;
};

/// Whether a clip fails in this epoch.
using failure_rule = std::function<bool(std::uint64_t index, std::uint32_t epoch)>;

struct setting {
  std::size_t workers = 1;
  failure_rule fails = {};
  bool center = false;
  std::size_t batch = 5;
  std::size_t buffer = 16, least = 8;
};

auto decode_for(const setting& s) {
  return fl::per_worker([s] {
    return [s, decoder = fl::audio_decoder(), resampler = fl::audio_resampler()](const clip_row& row,
                                                                                 fl::context& c) mutable {
      if (!row->audio) throw std::runtime_error("the row has no clip");
      if (s.fails && s.fails(c.index, c.epoch)) throw std::runtime_error("out of order");
      sound made{{}, row->label, row.file_number()};
      const fl::audio_clip decoded = resampler.resample(decoder.decode(*row->audio), rate);
      const std::span<float> samples(made.samples.data(), length);
      if (s.center) fl::center_crop_or_pad(decoded.samples, samples);
      else fl::random_crop_or_pad(decoded.samples, samples, c.random);
      return made;
    };
  });
}

void to_spectrogram(const sound& from, fl::batch_slot<example>& slot) {
  features()({from.samples.data(), length}, slot.get<&example::spectrogram>());
  slot.get<&example::label>() = from.label.value_or(-1);
  slot.get<&example::file>() = from.file;
}

/// Everything downstream of the files.
auto downstream(const setting& s) {
  return fl::map(decode_for(s), fl::workers{s.workers}, fl::name{"decode"}) |
         fl::shuffle({.capacity = s.buffer, .min_fill = s.least}) |
         fl::batch_into<example>(s.batch, to_spectrogram, fl::workers{s.workers}, fl::name{"spectrogram"});
}

auto loader_of(const std::vector<std::string>& files, const setting& s) {
  return fl::arrow_rows<clip>(files, {"audio", "label"}) | downstream(s);
}

/// A clip as the consumer receives it.
struct clip_result {
  std::uint32_t epoch;
  std::uint64_t index;
  std::int64_t label;
  std::uint64_t file;
  std::uint64_t hash; // of its spectrogram

  friend bool operator==(const clip_result&, const clip_result&) = default;
};

std::ostream& operator<<(std::ostream& out, const clip_result& h) {
  return out << h.epoch << ":" << number_of(h.index) << "=" << h.hash % 1000;
}

using clip_results = std::vector<clip_result>;

clip_results results_of(const fl::batch_of<example>& batch) {
  clip_results all;
  const auto& spectrograms = batch.get<&example::spectrogram>();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const float> row = spectrograms.at(i);
    const std::string_view text(reinterpret_cast<const char*>(row.data()), row.size_bytes());
    all.push_back({batch.ids()[i].epoch, batch.ids()[i].index, batch.get<&example::label>()[i],
                   batch.get<&example::file>()[i], fl::stable_hash(text)});
  }
  return all;
}

/// The output of a run, until it ended or failed, or after `most` batches.
struct run_output {
  std::vector<clip_results> batches;
  std::vector<fl::failure> skipped;
  std::string error;

  std::vector<clip_result> all() const {
    std::vector<clip_result> clips;
    for (const clip_results& b : batches) clips.insert(clips.end(), b.begin(), b.end());
    return clips;
  }

  std::map<std::uint64_t, int> times() const {
    std::map<std::uint64_t, int> counts;
    for (const clip_result& h : all()) ++counts[number_of(h.index)];
    return counts;
  }

  std::set<std::pair<std::uint32_t, std::uint64_t>> failures() const {
    std::set<std::pair<std::uint32_t, std::uint64_t>> all;
    for (const fl::failure& f : skipped) all.emplace(f.epoch, f.index);
    return all;
  }

  bool operator==(const run_output& other) const {
    return batches == other.batches && failures() == other.failures() && error == other.error;
  }
};

constexpr std::size_t no_end = std::numeric_limits<std::size_t>::max();

template <class Loader>
run_output output_of(Loader loader, std::size_t most = no_end) {
  run_output s;
  try {
    while (s.batches.size() < most) {
      const auto batch = loader.next();
      if (!batch) break;
      s.batches.push_back(results_of(*batch));
    }
  } catch (const fl::pipeline_error& error) {
    s.error = error.what();
  }
  s.skipped = loader.failures();
  return s;
}

/// Each of the first `clips` clips once, except some.
std::map<std::uint64_t, int> once_each(std::uint64_t clips, const std::set<std::uint64_t>& without = {}) {
  std::map<std::uint64_t, int> counts;
  for (std::uint64_t i = 0; i < clips; ++i)
    if (!without.contains(i)) counts[i] = 1;
  return counts;
}

} // namespace

TEST_CASE("an evaluation yields each clip once, with the values that direct calls compute") {
  const watchdog guard("an evaluation");
  const tables t(3);
  std::map<std::uint64_t, std::uint64_t> expected;
  fl::audio_decoder decoder;
  fl::audio_resampler resampler;
  for (std::uint64_t i = 0; i < t.clips; ++i) {
    std::vector<float> samples(length), numbers(mels * frames);
    fl::center_crop_or_pad(resampler.resample(decoder.decode(encoded(i)), rate).samples, samples);
    features()(samples, numbers);
    expected[i] =
        fl::stable_hash({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)});
  }
  std::optional<run_output> first;
  for (const std::size_t workers : counts_of_workers)
    for (const std::size_t queue : {0u, 1u}) {
      const auto s = output_of(loader_of(t.names, {.workers = workers, .center = true, .least = 0})
                                   .finite({.queue_capacity = queue}));
      CHECK(s.batches.size() == 8);
      CHECK(s.batches.back().size() == 1);
      CHECK(s.times() == once_each(t.clips));
      for (const clip_result& h : s.all()) {
        const std::uint64_t number = number_of(h.index);
        CHECK(h.hash == expected[number]);
        CHECK(h.label == label_of(number).value_or(-1));
        CHECK(h.file == number / rows_of_file);
      }
      if (!first) first = s;
      CHECK(s == *first);
    }
}

TEST_CASE("a training yields the same for any workers and queues, and crops vary with the epoch") {
  const watchdog guard("a training");
  const tables t(3);
  const auto first = output_of(loader_of(t.names, {}).infinite({.seed = 3}), 40);
  for (const std::size_t workers : counts_of_workers)
    for (const std::size_t queue : {0u, 1u, 7u}) {
      INFO(workers << " workers, queues of " << queue);
      CHECK(output_of(loader_of(t.names, {.workers = workers}).infinite({.seed = 3, .queue_capacity = queue}),
                      40) == first);
    }
  CHECK(!(output_of(loader_of(t.names, {}).infinite({.seed = 4}), 40) == first));
  std::map<std::uint64_t, std::set<std::uint64_t>> crops;
  for (const clip_result& h : first.all()) crops[number_of(h.index)].insert(h.hash);
  CHECK(crops.size() == t.clips);
  // Clips longer than a crop differ in each epoch.
  CHECK(std::count_if(crops.begin(), crops.end(), [](const auto& c) { return c.second.size() >= 4; }) > 10);
}

TEST_CASE("failed clips are reported with file and row, and follow the error policy") {
  const watchdog guard("failing clips");
  // Clip 17 isn't audio, 20 is cut off, 25 is missing, and so is one of four files.
  tables t(3, [](std::uint64_t number, std::string file) -> std::optional<std::string> {
    if (number == 17) return "JUNK" + file;
    if (number == 20) return file.substr(0, file.size() / 2);
    if (number == 25) return std::nullopt;
    return file;
  });
  const std::string missing = t.folder / "missing.arrows";
  for (const std::size_t workers : counts_of_workers) {
    INFO(workers << " workers");
    auto names = t.names;
    const auto skipping =
        output_of(loader_of(names, {.workers = workers}).finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.error.empty());
    CHECK(skipping.times() == once_each(t.clips, {17, 20, 25}));
    REQUIRE(skipping.skipped.size() == 3);
    CHECK_THAT(to_string(skipping.skipped[0]),
               Contains("map `decode` failed on sample") && Contains("clips-1.arrows: row 5"));
    CHECK_THAT(to_string(skipping.skipped[2]),
               Contains("clips-2.arrows: row 1") && Contains("the row has no clip"));

    const auto failing = output_of(loader_of(names, {.workers = workers}).finite());
    CHECK_THAT(failing.error, Contains("clips-1.arrows: row 5"));
    const auto is_before = [](const auto& times,
                              std::uint64_t clip) { // not all: the shuffle buffer holds some
      return !times.empty() && times.rbegin()->first < clip;
    };
    CHECK(is_before(failing.times(), 17));

    const auto limited = output_of(
        loader_of(names, {.workers = workers}).finite({.on_error = fl::on_error::skip, .failure_limit = 2}));
    CHECK_THAT(limited.error, Contains("clips-2.arrows: row 1"));
    CHECK(is_before(limited.times(), 25));

    names.push_back(missing);
    const auto without =
        output_of(loader_of(names, {.workers = workers}).finite({.on_error = fl::on_error::skip}));
    CHECK(without.times().empty()); // found at the start
    CHECK_THAT(without.error, Contains("missing.arrows"));
    CHECK_THAT(output_of(loader_of({missing}, {.workers = workers}).finite()).error,
               Contains("missing.arrows"));
  }
}

TEST_CASE("clips that fail in one epoch are yielded in the next one") {
  const watchdog guard("temporary failures");
  const tables t(2);
  const failure_rule first_epoch = [](std::uint64_t index, std::uint32_t epoch) {
    return epoch == 0 && (number_of(index) == 3 || number_of(index) == 23);
  };
  std::optional<run_output> first;
  for (const std::size_t workers : counts_of_workers) {
    const auto s = output_of(loader_of(t.names, {.workers = workers, .fails = first_epoch})
                                 .finite({.epochs = 2, .on_error = fl::on_error::skip}));
    auto expected = once_each(t.clips);
    for (auto& [number, times] : expected) times = number == 3 || number == 23 ? 1 : 2;
    CHECK(s.times() == expected);
    CHECK(s.skipped.size() == 2);
    if (!first) first = s;
    CHECK(s == *first);
  }
}

TEST_CASE("if every file fails, the loader reports it immediately, also in infinite mode") {
  const watchdog guard("no clips");
  const temporary_folder folder;
  const std::vector<std::string> missing{folder / "a.arrows", folder / "b.arrows"};
  const std::vector<std::string> junk{folder.write("c.arrows", "JUNK"), folder.write("d.arrows", "")};
  const tables silent(2, [](std::uint64_t, const std::string&) { return "JUNK"; });
  const tables none(2, [](std::uint64_t, const std::string&) { return std::nullopt; });
  for (const auto* files : {&missing, &junk, &silent.names, &none.names})
    for (const std::size_t workers : counts_of_workers) {
      INFO(files->front() << ", " << workers << " workers");
      const auto p = loader_of(*files, {.workers = workers});
      const std::string name = std::filesystem::path(files->front()).filename();
      CHECK_THAT(output_of(p.infinite()).error, Contains(name));
      if (files == &missing) continue;
      // Whatever the failure limit.
      const auto s = output_of(p.infinite({.on_error = fl::on_error::skip, .failure_limit = no_end}));
      CHECK(s.batches.empty());
      CHECK_THAT(s.error, Contains("would never yield anything") && Contains("the last sample that failed") &&
                              Contains(".arrows"));
      CHECK(s.skipped.size() <= 2'000);
      const auto pass = output_of(p.finite({.on_error = fl::on_error::skip, .failure_limit = no_end}));
      CHECK(pass.batches.empty());
      CHECK(pass.error.empty());
      CHECK(pass.skipped.size() == (files->front().find("clips") != std::string::npos ? 24 : 2));
    }
}

TEST_CASE("files without rows yield no clips") {
  const watchdog guard("empty files");
  const temporary_folder folder;
  const std::string empty = folder.write("0.arrows", table(0, 0)),
                    last = folder.write("2.arrows", table(0, 0)),
                    some = folder.write("1.arrows", table(0, 7));
  for (const std::size_t workers : counts_of_workers) {
    const setting s{.workers = workers};
    CHECK(output_of(loader_of({empty}, s).finite({.epochs = 3})) == run_output());
    CHECK(!output_of(loader_of({empty}, s).infinite()).error.empty());
    const auto twice = output_of(loader_of({empty, some, last}, s).finite({.epochs = 2}));
    CHECK(twice.all().size() == 14);
    CHECK(output_of(loader_of({empty, some}, s).infinite(), 9).all().size() == 45);
  }
}

namespace {

/// Stops the run after each of its batches and resumes it with other workers and queues: it must yield
/// `expected`.
template <class Options>
void check_resumed(const std::vector<std::string>& files, const failure_rule& fails, const fl::checkpoint& at,
                   std::size_t batches_before, const run_output& expected, const Options& options,
                   std::size_t number) {
  auto o = options;
  o.resume = fl::checkpoint::from_bytes(at.to_bytes());
  o.queue_capacity = number % 3;
  const auto p = loader_of(files, {.workers = counts_of_workers[number % 3], .fails = fails});
  const auto loader_options = o;
  INFO("resumed after batch " << batches_before << " with " << counts_of_workers[number % 3] << " workers");
  const run_output rest = [&] {
    if constexpr (requires { o.epochs; }) return output_of(p.finite(loader_options));
    else return output_of(p.infinite(loader_options), expected.batches.size() - batches_before);
  }();
  CHECK(rest.error == expected.error);
  CHECK(rest.batches == std::vector(expected.batches.begin() + static_cast<std::ptrdiff_t>(batches_before),
                                    expected.batches.end()));
}

struct checkpointed_run {
  std::vector<fl::checkpoint> checkpoints; // before each batch, and after the last
  std::vector<std::set<std::pair<std::uint32_t, std::uint64_t>>> failed; // up to there
  run_output what;
};

template <class Loader>
checkpointed_run run_with_checkpoints(Loader loader, std::size_t most = no_end) {
  checkpointed_run t;
  const auto mark = [&] {
    t.checkpoints.push_back(loader.checkpoint());
    run_output so_far;
    so_far.skipped = loader.failures();
    t.failed.push_back(so_far.failures());
  };
  mark();
  try {
    while (t.what.batches.size() < most) {
      const auto batch = loader.next();
      if (!batch) break;
      t.what.batches.push_back(results_of(*batch));
      mark();
    }
  } catch (const fl::pipeline_error& error) {
    t.what.error = error.what();
  }
  t.what.skipped = loader.failures();
  return t;
}

bool fails_always(std::uint64_t index, std::uint32_t) {
  const std::uint64_t number = number_of(index);
  return number == 0 || number == 7 || number == 8 || number == 23;
}

} // namespace

TEST_CASE("a run resumes before, at and after failures, and with clips in the shuffle buffer") {
  const watchdog guard("resumed runs");
  const tables t(2);
  for (const failure_rule& fails : {failure_rule(), failure_rule(fails_always)}) {
    const fl::infinite_options options{.seed = 5, .on_error = fl::on_error::skip};
    const checkpointed_run endless =
        run_with_checkpoints(loader_of(t.names, {.workers = 2, .fails = fails}).infinite(options), 24);
    for (std::size_t at = 0; at < endless.checkpoints.size(); ++at)
      check_resumed(t.names, fails, endless.checkpoints[at], at, endless.what, options, at);
    const fl::finite_options passes{.epochs = 2, .on_error = fl::on_error::skip};
    const checkpointed_run whole =
        run_with_checkpoints(loader_of(t.names, {.workers = 2, .fails = fails}).finite(passes));
    CHECK(whole.what.skipped.size() == (fails ? 8 : 0));
    for (std::size_t at = 0; at < whole.checkpoints.size(); ++at)
      check_resumed(t.names, fails, whole.checkpoints[at], at, whole.what, passes, at);
  }
}

TEST_CASE("a resumed run yields clips that no longer fail") {
  const watchdog guard("clips that no longer fail");
  const tables t(2);
  const fl::infinite_options options{.seed = 5, .on_error = fl::on_error::skip};
  const checkpointed_run with_failures =
      run_with_checkpoints(loader_of(t.names, {.workers = 2, .fails = fails_always}).infinite(options), 16);
  REQUIRE(!with_failures.failed.back().empty());
  for (std::size_t at = 0; at < with_failures.checkpoints.size(); ++at) {
    // Only the failures before the checkpoint occur.
    const failure_rule until_then = [&](std::uint64_t index, std::uint32_t epoch) {
      return with_failures.failed[at].contains({epoch, index});
    };
    const run_output expected = output_of(loader_of(t.names, {.fails = until_then}).infinite(options), 24);
    check_resumed(t.names, failure_rule(), with_failures.checkpoints[at], at, expected, options, at);
  }
}

TEST_CASE("a run that ended with an error resumes from before it, and loses nothing") {
  const watchdog guard("a run that failed");
  const tables t(2);
  const failure_rule fails = [](std::uint64_t index, std::uint32_t) { return number_of(index) == 19; };
  const fl::finite_options options{.seed = 5};
  const run_output healthy = output_of(loader_of(t.names, {}).finite(options));
  const run_output skipped =
      output_of(loader_of(t.names, {.fails = fails}).finite({.seed = 5, .on_error = fl::on_error::skip}));
  const checkpointed_run failed =
      run_with_checkpoints(loader_of(t.names, {.workers = 2, .fails = fails}).finite(options));
  CHECK_THAT(failed.what.error, Contains("clips-1.arrows: row 7"));
  CHECK(failed.checkpoints.size() >= 2);
  for (std::size_t at = 0; at < failed.checkpoints.size(); ++at) {
    if (at > 0) REQUIRE(failed.what.batches[at - 1] == healthy.batches[at - 1]);
    check_resumed(t.names, failure_rule(), failed.checkpoints[at], at, healthy, options, at);
    check_resumed(t.names, fails, failed.checkpoints[at], at, failed.what, options, at);
    fl::finite_options skipping = options;
    skipping.on_error = fl::on_error::skip;
    check_resumed(t.names, fails, failed.checkpoints[at], at, skipped, skipping, at);
  }
}

TEST_CASE("the clips are divided among the ranks") {
  const watchdog guard("ranks");
  const tables t(5);
  for (const failure_rule& fails : {failure_rule(), failure_rule(fails_always)})
    for (const std::uint32_t ranks : {2u, 3u, 5u}) {
      INFO(ranks << " ranks");
      std::map<std::uint64_t, int> times;
      for (std::uint32_t number = 0; number < ranks; ++number) {
        const setting s{.workers = counts_of_workers[number % 3], .fails = fails};
        for (const auto& [clip, count] : output_of(loader_of(t.names, s)
                                                       .finite({.on_error = fl::on_error::skip,
                                                     .rank = {number, ranks, fl::remainder::keep}}))
                                             .times())
          times[clip] += count;
      }
      CHECK(times ==
            once_each(t.clips, fails ? std::set<std::uint64_t>{0, 7, 8, 23} : std::set<std::uint64_t>()));
    }
}

TEST_CASE("a loop can be left, and a run stopped or destroyed, at any moment") {
  const watchdog guard("early ends");
  const tables t(2);
  for (const std::size_t workers : counts_of_workers) {
    const auto p = loader_of(t.names, {.workers = workers, .buffer = 20, .least = 15});
    const run_output whole = output_of(p.infinite(), 12);
    for (std::size_t most = 0; most < 12; most += 3) {
      std::size_t came = 0;
      for (const auto& batch : p.infinite()) {
        if (came == most) break;
        CHECK(results_of(batch) == whole.batches[came++]);
      }
      auto loader = p.infinite();
      for (std::size_t i = 0; i < most; ++i) loader.next();
      loader.stop();
      CHECK(!loader.next());
      // Stops it while it runs.
      std::stop_source stop;
      auto stopped = p.infinite({.stop = stop.get_token()});
      std::jthread other([&] { stop.request_stop(); });
      while (stopped.next()) {
      }
      CHECK(stopped.state() == fl::run_state::stopped);
    }
  }
}

TEST_CASE("a run holds no more than its memory plan, and keeps to a budget") {
  const watchdog guard("a budget");
  const tables t(4);
  static_cast<void>(features());
  const setting large{.workers = 2, .batch = 16, .buffer = 200, .least = 150};
  const run_output expected = output_of(loader_of(t.names, large).infinite(), 30);
  const std::size_t generous = *loader_of(t.names, large).memory().bytes();
  for (const std::size_t workers : counts_of_workers) {
    setting s = large;
    s.workers = workers;
    const auto p = loader_of(t.names, s);
    REQUIRE(p.memory().bytes());
    std::size_t least = *p.memory().bytes();
    CHECK(least >= 200 * length * sizeof(float));
    if (workers == 2) CHECK(least == generous);
    try {
      for (;; least = least * 9 / 10) p.memory({.memory_budget = least * 9 / 10});
    } catch (const std::invalid_argument&) {
    }
    CHECK(throws_saying<std::invalid_argument>("is too small",
                                               [&] { p.infinite({.memory_budget = least / 2}); }));
    for (const std::size_t budget : {*p.memory().bytes(), least}) {
      auto loader = p.infinite({.memory_budget = budget});
      CHECK(*loader.memory().bytes() <= budget);
      loader = p.infinite({.memory_budget = budget});
      CHECK(output_of(std::move(loader), 30) == expected);
    }
  }
}

#if !FEEDLINE_TEST_ASAN && !FEEDLINE_TEST_TSAN // which have allocators of their own
TEST_CASE("a loader whose consumer is idle uses no more memory than its plan") {
  const watchdog guard("memory of a loader");
  const tables t(4);
  const auto taken = [] {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  for (const std::size_t workers : {1u, 4u}) {
    // Audio is most of the memory.
    const setting s{.workers = workers, .batch = 16, .buffer = 4000, .least = 4000};
    const auto p = loader_of(t.names, s);
    const std::size_t planned = *p.memory().bytes();
    { // Allocates the decoders' memory, and memory that the next run reuses.
      auto warm = p.infinite();
      warm.next();
    }
    const std::size_t before = taken();
    auto loader = p.infinite();
    loader.next();
    await_all_others_asleep();
    const std::size_t after = taken();
    INFO(workers << " workers: planned " << planned << ", taken " << after << " - " << before);
    CHECK(after <= before + planned);
    CHECK(after + 64'000'000 >= before + planned / 2); // the plan isn't far too large either
  }
}
#endif

TEST_CASE("the stages downstream of the files keep the promises of stages") {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 9; ++i) numbers.push_back(i);
  const auto make = [] {
    const auto decode = fl::per_worker([] {
      return [decoder = fl::audio_decoder(), resampler = fl::audio_resampler()](std::uint64_t number,
                                                                                fl::context& c) mutable {
        sound made{{}, label_of(number), 0};
        const fl::audio_clip decoded = resampler.resample(decoder.decode(encoded(number)), rate);
        fl::random_crop_or_pad(decoded.samples, {made.samples.data(), length}, c.random);
        return made;
      };
    });
    return fl::map(decode, fl::workers{2}) | fl::shuffle({.capacity = 4, .min_fill = 2}) |
           fl::batch_into<example>(2, to_spectrogram, fl::workers{3});
  };
  fl::testing::check_stage(make, numbers, {.places = 6}, results_of);
}
