// SPDX-License-Identifier: MIT
#pragma once
// shuffle_quality: measures how well a pipeline shuffles, without decoding anything.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/telemetry/detail/order_of_ids.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A function that returns the number of a sample's group, such as its label: `f(const sample_id&)`.
using group_of_sample = callback<sample_id, std::int64_t>;

/// Options of shuffle_quality.
struct shuffle_quality_options {
  std::uint64_t batches = 1000;   ///< looks at this many, or at fewer if the run ends before
  std::uint64_t batch_size = 256; ///< the samples of a batch, for a pipeline without batch()
  std::uint32_t epochs = 0;       ///< of a finite run; 0: an infinite run
  std::uint64_t seed = 0;         ///< as for the run that is to be judged
  feedline::rank rank{};          ///< as for that run
  feedline::on_error on_error =
      feedline::on_error::fail; ///< what happens to a sample that the source can't read
  std::stop_token stop{};       ///< ends the measurement early
  group_of_sample label{};      ///< a sample's label; without it there are no numbers of labels
  group_of_sample shard{};      ///< a sample's shard; by default what the source's origin() has before ": "
};

/// How batches mix the groups of samples: shards or labels.
struct group_mixing {
  std::uint64_t groups = 0; ///< how many there are, as far as is known; 0: none are known
  double per_batch = 0;     ///< different groups in a batch, on average
  /// The same for samples drawn at random: the sum of 1 - (1 - p)^(batch size) over groups, p being a group's share.
  double by_chance = 0;
  /// How similar neighbouring batches are: 0 by chance, near 1 if groups are read one after another. With x(g, b), the
  /// share of group g in batch b, it is the sum over all g and b of (x(g, b) - mean of g) * (x(g, b + 1) - mean of g),
  /// divided by the sum of (x(g, b) - mean of g)^2: the lag-1 autocorrelation, groups weighted by their variance.
  double autocorrelation = 0;
};

/// How far samples move, in positions: the mean of |position after the shuffle - position before it|.
struct sample_displacement {
  double mean = 0; ///< of all samples
  /// What a full shuffle buffer of n samples gives: 2 (n - 1) (1 - 1/n)^(n - 1), or about 0.74 n. Each item in the buffer is
  /// as likely to leave, so the time that a sample stays has a geometric distribution with the mean n - 1, and this is its
  /// mean absolute deviation. While the buffer fills or is emptied, samples move less. In a finite run it is at most
  /// by_permutation. For buffers in a row n - 1 is the root of the sum of squares, an approximation. 0: no buffer, or it
  /// follows global_shuffle().
  double by_buffer = 0;
  double by_permutation = 0; ///< what a random permutation of an epoch gives: about a third of its samples
};

/// How long samples stay away, in epochs: from the time a sample is delivered to the time it is in a later epoch.
struct time_away {
  std::uint64_t returns = 0; ///< how many were seen; 0: the other members are 0 too
  double least = 0;          ///< the shortest
  double mean = 0;           ///< 1 on a single rank; about the number of ranks on each of several
  double deviation = 0;      ///< the standard deviation: 0 if all epochs have the same order, 0.41 by chance
};

/// Limits for shuffle_report::problems(), for a pipeline's test.
struct shuffle_thresholds {
  double min_displacement =
      0.5;                 ///< of what the buffer gives; without a buffer, of what a random permutation gives
  double min_mixing = 0.5; ///< groups in a batch, of those by chance
  double max_autocorrelation = 0.3; ///< of shards and of labels; needs 10 batches
  double min_deviation = 0.05;      ///< of time_away, in epochs; needs 100 returns
};

/// What shuffle_quality has measured.
struct shuffle_report {
  std::uint64_t batches = 0;           ///< looked at
  std::uint64_t samples = 0;           ///< in these batches
  std::uint64_t samples_per_epoch = 0; ///< of this rank; at least, if no epoch was seen as a whole
  std::optional<sample_displacement>
      displacement;    ///< nothing if the source has an order that can't be compared
  group_mixing shards; ///< by files of the source
  group_mixing labels; ///< by the options' function
  time_away away;      ///< between epochs
  std::vector<std::string>
      notes; ///< what the numbers don't include, such as stages with an unknown effect on the order

  /// Sentences that say what is wrong and what helps; none if the samples are well shuffled.
  std::vector<std::string> problems(const shuffle_thresholds& limits = {}) const;

  /// Whether there are no problems.
  bool is_shuffled(const shuffle_thresholds& limits = {}) const { return problems(limits).empty(); }
};

/// All of it in lines of text, with the problems by the default thresholds.
std::string to_string(const shuffle_report& r);

namespace detail {

/// Throws std::invalid_argument for options that make no sense.
void check_shuffle_quality(const shuffle_quality_options& o);

/// The numbers. `origin` names a sample's shard.
shuffle_report shuffle_report_of(const observed_order& order, const shuffle_quality_options& o,
                                 function_ref<std::string(std::uint64_t)> origin);

} // namespace detail

/// Measures the order in which a run of a pipeline delivers its samples, by their identities alone: an order that isn't
/// random makes training worse, and nothing else shows it.
///
/// The source is read as in a run, but its samples are dropped at once, and after global_shuffle() it isn't read at all.
/// map and its like are left out: nothing is decoded. Shuffle buffers and batches work with identities in place of items,
/// with the random numbers of a run with the same seed: the order is the same as that of its `batch.ids()`. Stages whose
/// effect on the order depends on items, such as filter, flat_map, bucket_batch and a user's, count as if they passed on
/// each item; a note of the report names them.
///
/// Takes:   a pipeline; options
/// Gives:   shuffle_report: numbers, problems as sentences, and to_string()
/// Throws:  std::invalid_argument for batches or batch_size 0 and an invalid rank; pipeline_error if the source fails
/// Stops:   when the options' token requests it, with a report of the batches so far
/// Example: `REQUIRE(fl::shuffle_quality(train, {.batches = 1000}).problems().empty());`
///
/// It works for any source but a live one, whose samples can't be read twice.
template <class Pipeline>
shuffle_report shuffle_quality(const Pipeline& p, const shuffle_quality_options& options = {}) {
  static_assert(detail::is_pipeline<Pipeline> || std::is_same_v<Pipeline, detail::refused_pipeline>,
                "feedline::shuffle_quality: it takes a pipeline, such as `from(source) | batch(64)`");
  static_assert(detail::can_be_reread<Pipeline> || !detail::is_pipeline<Pipeline>,
                "feedline::shuffle_quality: the samples of a live source can't be read twice: a run would "
                "miss those that were looked at");
  if constexpr (detail::can_be_reread<Pipeline>) {
    detail::check_shuffle_quality(options);
    detail::observed_order order;
    const auto ids = detail::pipeline_of_ids(p, static_cast<std::size_t>(options.batch_size), order);
    if (options.epochs > 0)
      order.observe(ids.finite({.seed = options.seed,
                                .epochs = options.epochs,
                                .stop = options.stop,
                                .on_error = options.on_error,
                                .rank = options.rank}),
                    options.batches);
    else
      order.observe(ids.infinite({.seed = options.seed,
                                  .stop = options.stop,
                                  .on_error = options.on_error,
                                  .rank = options.rank}),
                    options.batches);
    return detail::shuffle_report_of(
        order, options, [&](std::uint64_t index) { return detail::origin_of(p.source(), index); });
  } else {
    return {};
  }
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <cmath>
#include <map>
#include <unordered_map>

#include <feedline/core/metrics.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

FEEDLINE_INLINE void check_shuffle_quality(const shuffle_quality_options& o) {
  const auto check = [](std::uint64_t number, const char* what) {
    refuse_negative(number, what);
    if (number == 0) throw std::invalid_argument(std::string(what) + " must be at least 1");
  };
  check(o.batches, "feedline::shuffle_quality: the number of batches");
  check(o.batch_size, "feedline::shuffle_quality: the batch_size");
  o.rank.check();
}

/// The number of samples of the largest epoch, which is a whole one if any is.
FEEDLINE_INLINE std::uint64_t samples_of_epoch(const observed_order& order) {
  if (order.has_positions && !order.marks.empty()) return order.marks.front().range;
  std::map<std::uint32_t, std::uint64_t> counts;
  std::uint64_t largest = 0;
  for (const sample_id& id : order.ids) largest = std::max(largest, ++counts[id.epoch]);
  return largest;
}

/// What a random permutation of `range` positions gives for a position: the mean distance to the others and itself.
FEEDLINE_INLINE double mean_distance(std::uint64_t position, std::uint64_t range) {
  const auto below = static_cast<double>(position);
  const auto above = static_cast<double>(range - 1 - position);
  return (below * (below + 1) + above * (above + 1)) / (2 * static_cast<double>(range));
}

FEEDLINE_INLINE std::optional<sample_displacement> displacement_of(const observed_order& order,
                                                                   std::uint64_t epoch_size, bool is_finite) {
  sample_displacement all;
  bool by_source = false;
  std::uint64_t position = 0;
  for (const order_mark& m : order.marks) {
    const std::uint64_t to = m.to == order_mark::unknown ? position : m.to;
    const std::uint64_t from = m.from == order_mark::unknown ? to : m.from;
    const std::uint64_t range = m.range > 0 ? m.range : epoch_size;
    all.mean += static_cast<double>(to > from ? to - from : from - to);
    all.by_permutation += mean_distance(to % range, range);
    by_source = by_source || m.range > 0;
    ++position;
  }
  if (position == 0 || (order.source_is_random && !by_source && order.squared_reach == 0)) return {};
  all.mean /= static_cast<double>(position);
  all.by_permutation /= static_cast<double>(position);
  if (const double reach = std::sqrt(order.squared_reach); reach > 0 && !by_source)
    all.by_buffer = 2 * reach * std::pow(1 - 1 / (reach + 1), reach);
  if (is_finite) all.by_buffer = std::min(all.by_buffer, all.by_permutation); // epochs don't mix
  return all;
}

/// How batches that end there mix groups, of which there are at least `known`.
FEEDLINE_INLINE group_mixing mixing_of(const std::vector<std::int64_t>& group_of_each,
                                       const std::vector<std::size_t>& ends, std::uint64_t known) {
  group_mixing all;
  if (group_of_each.empty()) return all;
  std::map<std::int64_t, double> shares;
  for (const std::int64_t group : group_of_each)
    shares[group] += 1 / static_cast<double>(group_of_each.size());
  all.groups = std::max<std::uint64_t>(shares.size(), known);
  const auto total = static_cast<double>(all.groups);
  const double seen = static_cast<double>(shares.size()) / total; // the others count as of average size
  const auto batches = static_cast<double>(ends.size());
  std::map<std::int64_t, double> means, last, first; // shares in batches
  double products = 0, squares = 0;
  std::size_t begin = 0;
  std::map<std::size_t, double> expected; // by the size of a batch
  for (const std::size_t end : ends) {
    const auto size = static_cast<double>(end - begin);
    std::map<std::int64_t, double> now;
    for (; begin < end; ++begin) now[group_of_each[begin]] += 1 / size;
    all.per_batch += static_cast<double>(now.size());
    const auto [chance, is_new] = expected.try_emplace(static_cast<std::size_t>(size));
    if (is_new) {
      const auto drawn = [&](double share) { return 1 - std::pow(1 - share, size); };
      for (const auto& [group, share] : shares) chance->second += drawn(share * seen);
      chance->second += (total - static_cast<double>(shares.size())) * drawn(1 / total);
    }
    all.by_chance += chance->second;
    for (const auto& [group, share] : now) {
      means[group] += share / batches;
      squares += share * share;
      if (const auto before = last.find(group); before != last.end()) products += share * before->second;
    }
    if (end == ends.front()) first = now;
    last = std::move(now);
  }
  // The sums of products of deviations from the mean, from those of the shares.
  for (const auto& [group, mean] : means) {
    const auto share_in = [&](const auto& batch) {
      const auto found = batch.find(group);
      return found == batch.end() ? 0.0 : found->second;
    };
    products -= mean * (2 * batches * mean - share_in(first) - share_in(last)) - (batches - 1) * mean * mean;
    squares -= batches * mean * mean;
  }
  all.per_batch /= batches;
  all.by_chance /= batches;
  if (squares > 1e-9) all.autocorrelation = products / squares;
  return all;
}

FEEDLINE_INLINE time_away time_away_of(const observed_order& order, std::uint64_t epoch_size) {
  struct visit {
    std::uint64_t position;
    std::uint32_t epoch;
  };

  time_away all;
  double squares = 0;
  std::unordered_map<std::uint64_t, visit> last;
  for (std::uint64_t position = 0; const sample_id& id : order.ids) {
    const visit now{position++, id.epoch};
    const auto [before, is_first] = last.try_emplace(id.index, now);
    if (!is_first && before->second.epoch != now.epoch) {
      const double gap =
          static_cast<double>(now.position - before->second.position) / static_cast<double>(epoch_size);
      all.least = all.returns == 0 ? gap : std::min(all.least, gap);
      ++all.returns;
      all.mean += gap;
      squares += gap * gap;
    }
    before->second = now;
  }
  if (all.returns == 0) return all;
  const auto count = static_cast<double>(all.returns);
  all.mean /= count;
  all.deviation = std::sqrt(std::max(0.0, squares / count - all.mean * all.mean));
  return all;
}

/// The number of each sample's shard; empty if the source doesn't name shards. A source of files has the file's number in
/// the upper bits of an index; others are asked.
FEEDLINE_INLINE std::vector<std::int64_t> shards_of(const std::vector<sample_id>& ids, bool are_files,
                                                    function_ref<std::string(std::uint64_t)> origin) {
  constexpr int bits_of_place = 40;
  std::vector<std::int64_t> all;
  if (are_files) {
    for (const sample_id& id : ids) all.push_back(static_cast<std::int64_t>(id.index >> bits_of_place));
    return all;
  }
  std::map<std::string, std::int64_t> numbers;
  const auto shard_of = [&](std::uint64_t index) -> std::int64_t {
    const std::string text = origin(index);
    const std::size_t end = text.find(": ");
    if (end == std::string::npos) return -1;
    return numbers.try_emplace(text.substr(0, end), static_cast<std::int64_t>(numbers.size())).first->second;
  };
  std::unordered_map<std::uint64_t, std::int64_t> shards; // by index
  for (const sample_id& id : ids) {
    const auto [shard, is_new] = shards.try_emplace(id.index);
    if (is_new) shard->second = shard_of(id.index);
    if (shard->second < 0) return {};
    all.push_back(shard->second);
  }
  return all;
}

FEEDLINE_INLINE std::vector<std::int64_t> groups_of(const std::vector<sample_id>& ids,
                                                    const group_of_sample& group) {
  std::vector<std::int64_t> all;
  for (const sample_id& id : ids) all.push_back(group(id));
  return all;
}

FEEDLINE_INLINE shuffle_report shuffle_report_of(const observed_order& order,
                                                 const shuffle_quality_options& o,
                                                 function_ref<std::string(std::uint64_t)> origin) {
  shuffle_report all;
  all.notes = order.notes;
  all.batches = order.ends.size();
  all.samples = order.ids.size();
  all.samples_per_epoch = samples_of_epoch(order);
  all.displacement = displacement_of(order, all.samples_per_epoch, o.epochs > 0);
  // A rank reads its share of the files.
  const std::uint64_t ranks = o.rank.by_sample ? 1 : o.rank.world_size;
  const std::uint64_t files = (order.files + ranks - 1) / ranks;
  if (o.shard) {
    all.shards = mixing_of(groups_of(order.ids, o.shard), order.ends, 0);
  } else {
    try {
      all.shards = mixing_of(shards_of(order.ids, order.files > 0, origin), order.ends, files);
    } catch (const std::exception& error) {
      all.notes.push_back(std::string("the source can't name the shards of all samples: ") + error.what());
    }
  }
  if (o.label) all.labels = mixing_of(groups_of(order.ids, o.label), order.ends, 0);
  all.away = time_away_of(order, all.samples_per_epoch);
  if (!all.displacement && all.samples > 0)
    all.notes.push_back("the source has a random order of its own: how far it moves samples isn't known");
  if (all.shards.groups == 0 && all.samples > 0)
    all.notes.push_back("the source names no shards: options.shard can");
  return all;
}

FEEDLINE_INLINE void add_problems_of(std::vector<std::string>& all, const group_mixing& mixing,
                                     const std::string& name, std::uint64_t batches,
                                     const shuffle_thresholds& limits) {
  const std::string help =
      ": enlarge the buffer of shuffle(), read more shards at once with interleave(), or "
      "shuffle the whole data set with global_shuffle()";
  if (mixing.per_batch < limits.min_mixing * mixing.by_chance)
    all.push_back("a batch mixes " + digits(mixing.per_batch) + " " + name + " of " +
                  std::to_string(mixing.groups) + " (by chance " + digits(mixing.by_chance) + ")" + help);
  if (batches >= 10 && mixing.autocorrelation > limits.max_autocorrelation)
    all.push_back("neighbouring batches have similar " + name + " (autocorrelation " +
                  digits(mixing.autocorrelation) + ", by chance 0)" + help);
}

} // namespace detail

FEEDLINE_INLINE std::vector<std::string> shuffle_report::problems(const shuffle_thresholds& limits) const {
  using detail::digits;
  if (samples == 0) return {"the run has delivered no samples"};
  std::vector<std::string> all;
  if (displacement) {
    const auto& [mean, by_buffer, by_permutation] = *displacement;
    const double expected = by_buffer > 0 ? by_buffer : by_permutation;
    if (mean == 0 && expected > 0 && limits.min_displacement > 0)
      all.push_back(
          "samples aren't shuffled, they keep the order of the source: add shuffle({.capacity = …}), "
          "or global_shuffle() after a source that is indexed");
    else if (static_cast<double>(samples) > 3 * by_buffer && // otherwise the buffer is still being filled
             mean < limits.min_displacement * expected)
      all.push_back("samples move by " + digits(mean) + " positions, where " +
                    (by_buffer > 0 ? "such a shuffle buffer" : "a random permutation") + " gives " +
                    digits(expected) + ": look at more batches, or at the stages before the shuffle");
  }
  detail::add_problems_of(all, shards, "shards", batches, limits);
  detail::add_problems_of(all, labels, "labels", batches, limits);
  if (away.returns >= 100 && away.deviation < limits.min_deviation)
    all.push_back("each epoch has almost the same order: a sample returns after " + digits(away.mean) +
                  " epochs, with a standard deviation of " + digits(away.deviation) +
                  " (by chance 0.41): enlarge the buffer of shuffle(), or use global_shuffle()");
  return all;
}

FEEDLINE_INLINE std::string to_string(const shuffle_report& r) {
  using detail::digits;
  std::string text = detail::grouped(r.batches) + " batches, " + detail::grouped(r.samples) +
                     " samples in all; an epoch has at least " + detail::grouped(r.samples_per_epoch);
  if (r.displacement) {
    text += "\n  a sample moves by " + digits(r.displacement->mean) + " positions (";
    if (r.displacement->by_buffer > 0)
      text += "in theory such a shuffle buffer gives " + digits(r.displacement->by_buffer) + ", ";
    text += "a random permutation " + digits(r.displacement->by_permutation) + ")";
  }
  const auto add = [&](const group_mixing& mixing, const char* name) {
    if (mixing.groups == 0) return;
    text += "\n  a batch mixes " + digits(mixing.per_batch) + " " + name + " of " +
            std::to_string(mixing.groups) + " (by chance " + digits(mixing.by_chance) +
            "), autocorrelation " + detail::signed_digits(mixing.autocorrelation);
  };
  add(r.shards, "shards");
  add(r.labels, "labels");
  if (r.away.returns > 0)
    text += "\n  a sample returns after " + digits(r.away.mean) + " epochs, at least " +
            digits(r.away.least) + ", with a standard deviation of " + digits(r.away.deviation);
  for (const std::string& problem : r.problems()) text += "\n  problem: " + detail::readable(problem);
  for (const std::string& note : r.notes) text += "\n  note: " + detail::readable(note);
  return text;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
