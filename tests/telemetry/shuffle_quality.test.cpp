// SPDX-License-Identifier: MIT
// shuffle_quality: the order is that of a run, nothing is decoded, and an order that isn't random is found.
#include <feedline/telemetry/shuffle_quality.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::throws_saying;

namespace {

using decode = std::function<int(int)>;

/// A decoder that must not be called.
decode forbidden() {
  return [](int) -> int { throw std::logic_error("decoded"); };
}

decode harmless() {
  return [](int n) { return n; };
}

std::vector<int> numbers_below(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Yields the samples of one shard after another.
class sharded {
 public:
  static constexpr fl::source_traits traits{.kind = "sharded"};

  sharded(std::uint64_t shards, std::uint64_t size) : shards_(shards), size_(size) {}

  std::optional<int> next() {
    if (at_ == shards_ * size_) return std::nullopt;
    return static_cast<int>(at_++);
  }

  std::uint64_t index() const { return at_ - 1; }

  std::string origin(std::uint64_t index) const {
    return "shard-" + std::to_string(index / size_) + ".tar: " + std::to_string(index % size_);
  }

 private:
  std::uint64_t shards_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
};

/// Samples by position that count how often they are read.
class counted_samples {
 public:
  explicit counted_samples(std::uint64_t size)
      : size_(size), reads_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

  std::uint64_t size() const { return size_; }

  int at(std::uint64_t position) const {
    ++*reads_;
    return static_cast<int>(position);
  }

  std::uint64_t index_at(std::uint64_t position) const { return 1000 + position; }

  std::string origin(std::uint64_t index) const {
    return "file-" + std::to_string((index - 1000) / 10) + ": " + std::to_string(index);
  }

  std::uint64_t reads() const { return *reads_; }

 private:
  std::uint64_t size_;
  std::shared_ptr<std::atomic<std::uint64_t>> reads_;
};

/// A user's stage, which may change the order.
struct user_stage {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "user", .one_to_one = true};

  void operator()(int n, auto& emit) { emit(n); }
};

/// Batches of ids.
using id_batches = std::vector<std::vector<fl::sample_id>>;

template <class Loader>
id_batches delivered_by(Loader loader, std::size_t batches) {
  id_batches all;
  while (all.size() < batches) {
    const auto next = loader.next();
    if (!next) break;
    all.emplace_back(next->ids().begin(), next->ids().end());
  }
  return all;
}

id_batches batches_of(const fl::detail::observed_order& order) {
  id_batches all;
  std::size_t begin = 0;
  for (const std::size_t end : order.ends) {
    all.emplace_back(order.ids.begin() + static_cast<std::ptrdiff_t>(begin),
                     order.ids.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return all;
}

/// Compares the order of ids with that of runs.
template <class Pipeline>
void check_order(const Pipeline& p) {
  for (const std::uint32_t world_size : {1U, 3U})
    for (const std::uint64_t seed : {0U, 7U}) {
      const fl::rank rank{.number = world_size - 1, .world_size = world_size};
      CAPTURE(world_size, seed);
      fl::detail::observed_order once;
      once.observe(fl::detail::pipeline_of_ids(p, 8, once).finite({.seed = seed, .epochs = 3, .rank = rank}),
                   1000);
      CHECK(batches_of(once) == delivered_by(p.finite({.seed = seed, .epochs = 3, .rank = rank}), 1000));
      CHECK(!once.ends.empty());
      fl::detail::observed_order endless;
      endless.observe(fl::detail::pipeline_of_ids(p, 8, endless).infinite({.seed = seed, .rank = rank}), 60);
      CHECK(batches_of(endless) == delivered_by(p.infinite({.seed = seed, .rank = rank}), 60));
    }
}

double share_of(std::int64_t group, const std::vector<std::int64_t>& batch) {
  return static_cast<double>(std::count(batch.begin(), batch.end(), group)) /
         static_cast<double>(batch.size());
}

/// The mixing of groups by their definitions.
fl::group_mixing mixing_by_definition(const std::vector<std::vector<std::int64_t>>& batches) {
  fl::group_mixing all;
  std::vector<std::int64_t> together;
  for (const auto& batch : batches) together.insert(together.end(), batch.begin(), batch.end());
  const std::set<std::int64_t> groups(together.begin(), together.end());
  all.groups = groups.size();
  const auto count = static_cast<double>(batches.size());
  double products = 0, squares = 0;
  for (const std::int64_t group : groups) {
    double mean = 0;
    for (const auto& batch : batches) {
      const double share = share_of(group, batch);
      mean += share / count;
      all.per_batch += (share > 0) / count;
      all.by_chance +=
          (1 - std::pow(1 - share_of(group, together), static_cast<double>(batch.size()))) / count;
    }
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const double deviation = share_of(group, batches[i]) - mean;
      squares += deviation * deviation;
      if (i + 1 < batches.size()) products += deviation * (share_of(group, batches[i + 1]) - mean);
    }
  }
  all.autocorrelation = products / squares;
  return all;
}

void check_equal(const fl::group_mixing& a, const fl::group_mixing& b) {
  CHECK(a.groups == b.groups);
  CHECK(a.per_batch == Approx(b.per_batch));
  CHECK(a.by_chance == Approx(b.by_chance));
  CHECK(a.autocorrelation == Approx(b.autocorrelation).margin(1e-9));
}

bool mentions(const std::vector<std::string>& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& s) { return s.find(part) != std::string::npos; });
}

/// A pipeline with a shuffle buffer, of 40 shards of 500 samples.
auto buffered(std::size_t capacity) {
  return fl::from(sharded(40, 500)) | fl::map(forbidden()) | fl::shuffle({.capacity = capacity}) |
         fl::batch(50);
}

} // namespace

TEST_CASE("The order of ids is that of a run, with any stages around a shuffle") {
  check_order(fl::from(sharded(9, 11)) | fl::map(harmless(), fl::workers{2}) |
              fl::shuffle({.capacity = 20, .min_fill = 10}) | fl::map(harmless()) | fl::batch(7));
}

TEST_CASE("The order of ids is that of a run, with stages that count samples and batches") {
  check_order(fl::from(sharded(9, 11)) | fl::skip(5) | fl::shuffle({.capacity = 20}) | fl::enumerate() |
              fl::take(70) | fl::prefetch(3) | fl::batch(4, fl::as_list, {.drop_last = true}) |
              fl::shuffle({.capacity = 5}) | fl::map([](auto&& b) { return std::move(b); }));
}

TEST_CASE("The order of ids is that of a run, with random access and batch_into") {
  check_order(counted_samples(90) | fl::global_shuffle() | fl::map(harmless(), fl::workers{2}) |
              fl::shuffle({.capacity = 9}) |
              fl::batch_into<int>(
                  8, [](int n, fl::batch_slot<int>& slot) { slot.value() = n; }, fl::workers{2}));
  check_order(counted_samples(90) | fl::with_replacement() | fl::map(harmless()) | fl::batch(8));
}

TEST_CASE("The order of ids is that of a run, with sources of several sources") {
  const auto part = [](int size) { return fl::from(numbers_below(size)) | fl::map(harmless()); };
  check_order(
      fl::mix(fl::weighted(part(30), 1), fl::weighted(counted_samples(50) | fl::global_shuffle(), 2)) |
      fl::shuffle({.capacity = 7}) | fl::batch(8));
  check_order(fl::concat(part(30), counted_samples(20)) | fl::shuffle({.capacity = 9}) | fl::batch(8));
  check_order(fl::zip(part(60), counted_samples(50)) | fl::shuffle({.capacity = 9}) | fl::batch(8));
}

TEST_CASE("Nothing is decoded, and samples with positions aren't read") {
  const counted_samples samples(100);
  const auto never = fl::map(forbidden(), fl::workers{2});
  CHECK(fl::shuffle_quality(samples | fl::global_shuffle() | never | fl::batch(10)).samples == 10'000);
  CHECK(fl::shuffle_quality(samples | never | fl::tap([](int) { throw std::logic_error("shown"); }) |
                            fl::batch(10))
            .samples == 10'000);
  const auto part = [] { return fl::from(numbers_below(20)) | fl::map(forbidden()); };
  CHECK(fl::shuffle_quality(fl::mix(fl::weighted(part(), 1), fl::weighted(samples, 1)) | fl::batch(10),
                            {.epochs = 1})
            .samples == 120);
  CHECK(fl::shuffle_quality(fl::concat(part(), samples) | fl::batch(10), {.epochs = 1}).samples == 120);
  CHECK(fl::shuffle_quality(fl::zip(part(), samples) | fl::batch(10), {.epochs = 1}).samples == 20);
  CHECK(samples.reads() == 0);
}

TEST_CASE("An order without a shuffle is found") {
  const auto r = fl::shuffle_quality(fl::from(sharded(40, 500)) | fl::map(forbidden()) | fl::batch(50));
  CHECK(r.batches == 1000);
  CHECK(r.samples == 50'000);
  CHECK(r.samples_per_epoch == 20'000);
  CHECK(r.displacement.value().mean == 0);
  CHECK(r.displacement->by_buffer == 0);
  CHECK(r.displacement->by_permutation > 6000);
  CHECK(r.shards.groups == 40);
  CHECK(r.shards.per_batch == 1);
  CHECK(r.shards.autocorrelation > 0.8);
  CHECK(r.away.deviation == 0);
  const auto problems = r.problems();
  CHECK(problems.size() == 4);
  CHECK(mentions(problems, "aren't shuffled"));
  CHECK(mentions(problems, "a batch mixes 1.00 shards of 40 (by chance "));
  CHECK(mentions(problems, "autocorrelation"));
  CHECK(mentions(problems, "almost the same order"));
  CHECK(!r.is_shuffled());
}

TEST_CASE("A buffer that is small compared with the shards is found") {
  const auto r = fl::shuffle_quality(buffered(250));
  CHECK(r.displacement.value().by_buffer == Approx(2 * 249 * std::pow(1 - 1 / 250.0, 249)));
  CHECK(r.displacement->mean == Approx(r.displacement->by_buffer).epsilon(0.02));
  CHECK(r.shards.per_batch < 5);
  CHECK(r.shards.by_chance == Approx(40 * (1 - std::pow(1 - 1 / 40.0, 50))).epsilon(0.02));
  CHECK(r.shards.autocorrelation > 0.5);
  CHECK(mentions(r.problems(), "enlarge the buffer of shuffle()"));
  CHECK(mentions(r.problems(), "neighbouring batches have similar shards"));
  CHECK(r.problems({.min_mixing = 0, .max_autocorrelation = 1, .min_deviation = 0}).empty());
}

TEST_CASE("Batches that look mixed but resemble their neighbours are found") {
  const auto r = fl::shuffle_quality(buffered(5000));
  CHECK(r.shards.per_batch > 0.5 * r.shards.by_chance);
  CHECK(r.shards.autocorrelation > 0.6);
  CHECK(mentions(r.problems(), "neighbouring batches"));
  CHECK(!mentions(r.problems(), "a batch mixes"));
}

TEST_CASE("A global shuffle is as good as chance") {
  const counted_samples samples(2000);
  const auto p = samples | fl::global_shuffle() | fl::map(forbidden()) | fl::batch(40);
  for (const std::uint32_t world_size : {1U, 4U}) {
    CAPTURE(world_size);
    const auto r = fl::shuffle_quality(p, {.rank = {.number = 1 % world_size, .world_size = world_size},
                                           .label = [](const fl::sample_id& id) { return id.index % 10; }});
    CAPTURE(to_string(r));
    CHECK(r.is_shuffled());
    CHECK(r.samples_per_epoch == 2000 / world_size);
    CHECK(r.displacement.value().mean == Approx(r.displacement->by_permutation).epsilon(0.02));
    CHECK(r.displacement->by_permutation == Approx(2000.0 / world_size / 3).epsilon(0.01));
    CHECK(r.shards.groups == 200);
    CHECK(r.shards.per_batch == Approx(r.shards.by_chance).epsilon(0.02));
    CHECK(std::abs(r.shards.autocorrelation) < 0.05);
    CHECK(r.labels.groups == 10);
    CHECK(r.labels.per_batch == Approx(r.labels.by_chance).epsilon(0.02));
    CHECK(std::abs(r.labels.autocorrelation) < 0.05);
    CHECK(r.away.mean == Approx(world_size).epsilon(0.05));
    CHECK(r.away.least < 0.2);
    if (world_size == 1) CHECK(r.away.deviation == Approx(std::sqrt(1 / 6.0)).epsilon(0.05));
    CHECK(r.notes.empty());
  }
  // A part of an epoch
  const auto r = fl::shuffle_quality(p, {.batches = 10});
  CHECK(r.samples_per_epoch == 2000);
  CHECK(r.displacement.value().mean == Approx(r.displacement->by_permutation).epsilon(0.1));
  CHECK(r.away.returns == 0);
}

TEST_CASE("The numbers are those of their definitions") {
  const auto p =
      fl::from(sharded(7, 30)) | fl::map(harmless()) | fl::shuffle({.capacity = 25}) | fl::batch(9);
  const auto label = [](const fl::sample_id& id) { return static_cast<std::int64_t>(id.index % 4) - 2; };
  const auto r = fl::shuffle_quality(p, {.epochs = 3, .seed = 5, .label = label});
  const id_batches all = delivered_by(p.finite({.seed = 5, .epochs = 3}), 1000);
  std::vector<std::vector<std::int64_t>> shards, labels;
  std::map<std::uint64_t, double> last;
  double moved = 0, least = 1e9, gaps = 0, position = 0, returns = 0;
  for (const auto& batch : all) {
    shards.emplace_back();
    labels.emplace_back();
    for (const fl::sample_id& id : batch) {
      shards.back().push_back(static_cast<std::int64_t>(id.index / 30));
      labels.back().push_back(label(id));
      moved += std::abs(position - static_cast<double>(id.epoch * 210 + id.index));
      if (const auto before = last.find(id.index); before != last.end()) {
        least = std::min(least, position - before->second);
        gaps += position - before->second;
        ++returns;
      }
      last[id.index] = position++;
    }
  }
  CHECK(r.batches == all.size());
  CHECK(r.samples == 630);
  CHECK(r.samples_per_epoch == 210);
  check_equal(r.shards, mixing_by_definition(shards));
  check_equal(r.labels, mixing_by_definition(labels));
  CHECK(r.displacement.value().mean == Approx(moved / 630));
  CHECK(r.displacement->by_permutation == Approx((210.0 * 210 - 1) / (3 * 210)));
  CHECK(static_cast<double>(r.away.returns) == returns);
  CHECK(r.away.least == Approx(least / 210));
  CHECK(r.away.mean == Approx(gaps / returns / 210));
}

TEST_CASE("Two buffers in a row, and one of batches, reach as far as in theory") {
  const auto two = fl::shuffle_quality(fl::from(numbers_below(50'000)) | fl::shuffle({.capacity = 300}) |
                                       fl::shuffle({.capacity = 400}) | fl::batch(50));
  CHECK(two.displacement.value().by_buffer == Approx(0.7358 * 500).epsilon(0.01));
  CHECK(two.displacement->mean == Approx(two.displacement->by_buffer).epsilon(0.08));
  const auto batches =
      fl::shuffle_quality(fl::from(numbers_below(50'000)) | fl::batch(50) | fl::shuffle({.capacity = 20}));
  CHECK(batches.displacement.value().mean == Approx(0.7358 * 1000).epsilon(0.1));
}

TEST_CASE("Samples that stages leave out don't count as moved") {
  const auto r = fl::shuffle_quality(fl::from(numbers_below(3000)) | fl::skip(1000) |
                                     fl::shuffle({.capacity = 20}) | fl::take(500) | fl::batch(10));
  CHECK(r.displacement.value().mean == Approx(r.displacement->by_buffer).epsilon(0.1));
}

TEST_CASE("Shards can be named by a function") {
  const auto r = fl::shuffle_quality(fl::from(numbers_below(1000)) | fl::batch(10),
                                     {.shard = [](const fl::sample_id& id) { return id.index / 100; }});
  CHECK(r.shards.groups == 10);
  CHECK(r.shards.per_batch == 1);
  CHECK(r.shards.autocorrelation > 0.8);
  const auto none = fl::shuffle_quality(fl::from(numbers_below(1000)) | fl::batch(10));
  CHECK(none.shards.groups == 0);
  CHECK(mentions(none.notes, "names no shards"));
  CHECK(none.labels.groups == 0);
}

TEST_CASE("Labels in a row are found") {
  const auto r =
      fl::shuffle_quality(fl::from(numbers_below(10'000)) | fl::shuffle({.capacity = 100}) | fl::batch(50),
                          {.label = [](const fl::sample_id& id) { return id.index / 1000; }});
  CHECK(r.labels.per_batch < 2);
  CHECK(r.labels.by_chance > 9);
  CHECK(mentions(r.problems(), "a batch mixes "));
  CHECK(mentions(r.problems(), "neighbouring batches have similar labels"));
}

TEST_CASE("Filters inside a source count as if they let each sample through") {
  const auto odd = fl::from(numbers_below(100)) |
                   fl::filter([](int n) { return n % 2 == 1; }, fl::name{"odd"}) | fl::map(harmless());
  const auto r = fl::shuffle_quality(fl::concat(odd, odd) | fl::batch(10), {.epochs = 1});
  CHECK(r.samples == 200);
  CHECK(mentions(r.notes, "filter `odd` leaves out inside the source"));
}

TEST_CASE("The shards of a source of files are its files, also those that weren't reached") {
  const fl::test::temporary_folder folder;
  for (int file = 0; file < 20; ++file) {
    std::ofstream lines(folder / ("part-" + std::to_string(file) + ".txt"));
    for (int line = 0; line < 100; ++line) lines << "a line\n";
  }
  const auto lines = fl::lines({folder / "part-*.txt"});
  const auto first = fl::shuffle_quality(lines | fl::batch(20), {.batches = 15});
  CHECK(first.shards.groups == 20);
  CHECK(first.shards.per_batch == 1);
  CHECK(first.shards.by_chance == Approx(20 * (1 - std::pow(0.95, 20))));
  const auto rank = fl::shuffle_quality(lines | fl::batch(20), {.rank = {.number = 1, .world_size = 4}});
  CHECK(rank.shards.groups == 20);
  const auto all =
      fl::shuffle_quality(lines | fl::interleave(20) | fl::shuffle({.capacity = 500}) | fl::batch(20));
  CAPTURE(to_string(all));
  CHECK(all.shards.per_batch > 10);
  CHECK(all.is_shuffled());
}

TEST_CASE("Stages with an unknown effect on the order pass on each item, and the notes say so") {
  const auto r = fl::shuffle_quality(
      fl::from(numbers_below(100)) | fl::filter([](int n) { return n > 50; }, fl::name{"late"}) |
          fl::flat_map([](int n) { return std::vector<int>(3, n); }) | user_stage() |
          fl::map(forbidden(), fl::workers{2}, fl::unordered) |
          fl::bucket_batch({.batch_size = 7}, fl::as_list, [](int) { return 1U; }),
      {.batch_size = 30, .epochs = 1});
  CAPTURE(to_string(r));
  CHECK(r.samples == 100);
  CHECK(r.batches == 4);
  CHECK(mentions(r.notes, "filter `late` counts as if it passed on each item"));
  CHECK(mentions(r.notes, "flat_map counts"));
  CHECK(mentions(r.notes, "user counts"));
  CHECK(mentions(r.notes, "bucket_batch counts"));
  CHECK(mentions(r.notes, "unordered workers"));
  CHECK(mentions(r.notes, "30 samples in a row count as a batch"));
  CHECK(to_string(r).find("note: filter `late`") != std::string::npos);
}

TEST_CASE("A source with a random order of its own isn't compared with its positions") {
  const auto r = fl::shuffle_quality(
      fl::mix(fl::weighted(fl::from(numbers_below(100)), 1), fl::weighted(fl::from(numbers_below(100)), 1)) |
      fl::batch(10));
  CHECK(!r.displacement);
  CHECK(mentions(r.notes, "a random order of its own"));
}

TEST_CASE("Little data gives a report of what there is") {
  const auto few = fl::shuffle_quality(fl::from(numbers_below(25)) | fl::batch(10), {.epochs = 1});
  CHECK(few.batches == 3);
  CHECK(few.samples == 25);
  const auto one = fl::shuffle_quality(fl::from(numbers_below(1)) | fl::batch(10), {.epochs = 1});
  CHECK(one.samples == 1);
  CHECK(one.is_shuffled());
  const auto none = fl::shuffle_quality(fl::from(numbers_below(0)) | fl::batch(10), {.epochs = 2});
  CHECK(none.samples == 0);
  CHECK(none.problems() == std::vector<std::string>{"the run has delivered no samples"});
  CHECK(throws_saying<fl::pipeline_error>(
      "yielded no sample", [] { fl::shuffle_quality(fl::from(numbers_below(0)) | fl::batch(10)); }));
}

TEST_CASE("A failure of the source ends the measurement, unless failures are skipped") {
  const auto p = fl::from(fl::test::numbers(100, {30})) | fl::map(forbidden()) | fl::batch(10);
  CHECK(throws_saying<fl::pipeline_error>("numbers failed", [&] { fl::shuffle_quality(p, {.epochs = 1}); }));
  CHECK(throws_saying<fl::pipeline_error>("unlucky 30", [&] { fl::shuffle_quality(p, {.epochs = 1}); }));
  CHECK(fl::shuffle_quality(p, {.epochs = 1, .on_error = fl::on_error::skip}).samples == 99);
}

TEST_CASE("A stop ends the measurement early") {
  std::stop_source stop;
  stop.request_stop();
  const auto r =
      fl::shuffle_quality(fl::from(numbers_below(100)) | fl::batch(10), {.stop = stop.get_token()});
  CHECK(r.batches <= 1000);
}

TEST_CASE("Options that make no sense are refused") {
  const auto p = fl::from(numbers_below(10)) | fl::batch(5);
  const auto refuses = [&](const std::string& why, const fl::shuffle_quality_options& o) {
    return throws_saying<std::invalid_argument>(why, [&] { fl::shuffle_quality(p, o); });
  };
  CHECK(refuses("the number of batches must be at least 1", {.batches = 0}));
  CHECK(refuses("the number of batches", {.batches = static_cast<std::uint64_t>(-1)}));
  CHECK(refuses("the batch_size must be at least 1", {.batch_size = 0}));
  CHECK(refuses("rank", {.rank = {.number = 2, .world_size = 2}}));
}

TEST_CASE("The text has all numbers and problems") {
  const auto r =
      fl::shuffle_quality(buffered(250), {.label = [](const fl::sample_id& id) { return id.index % 2; }});
  const std::string text = to_string(r);
  CAPTURE(text);
  for (const char* part :
       {"1,000 batches, 50,000 samples in all", "a sample moves by ",
        "in theory such a shuffle buffer gives 184", " shards of 40 (by chance ", "autocorrelation 0.9",
        "2.00 labels of 2 (by chance 2.00)", "a sample returns after ", "problem: a batch mixes "})
    CHECK(text.find(part) != std::string::npos);
}
