// SPDX-License-Identifier: MIT
#pragma once
// shuffle_quality: measures how well a pipeline shuffles, without decoding anything.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
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

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/shuffle_quality.ipp>
#endif
