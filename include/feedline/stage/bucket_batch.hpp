// SPDX-License-Identifier: MIT
#pragma once
// bucket_batch: batches of samples of similar length.
#include <limits>
#include <memory_resource>

#include <feedline/core/contract.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of bucket_batch.
struct bucket_batch_options {
  /// The greatest length in each bucket, in rising order. One more bucket takes longer samples.
  std::vector<std::size_t> boundaries{};
  std::size_t batch_size = 0; ///< the most samples in a batch; 0: as many as `max_tokens` allows
  std::size_t max_tokens = 0; ///< the most that longest length × samples of a batch may be; 0: no limit
  bool drop_last = false;     ///< leave out the samples left in the buckets at the end
  std::pmr::memory_resource* memory = nullptr; ///< as in batch_options
};

namespace detail {

struct size_of_item {
  template <class Item>
    requires requires(const Item& item) { item.size(); }
  auto operator()(const Item& item) const {
    return item.size();
  }
};

template <class Mode, class Length>
class bucket_batch_stage {
 public:
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "bucket_batch", .checkpoints_mid_call = true};

  bucket_batch_stage(bucket_batch_options options, Mode mode, Length length)
      : options_(std::move(options)), mode_(mode), length_(std::move(length)) {}

  template <class In>
  static consteval fit fits() {
    if constexpr (!columns_of<Mode, In>::exist) {
      return fit::no_shape;
    } else if constexpr (fit_of_call<Length, const In&>() != fit::yes) {
      return fit_of_call<Length, const In&>() == fit::not_const ? fit::not_const : fit::no_length;
    } else {
      using length = std::remove_cvref_t<call_result_t<typename Length::called, const In&>>;
      return std::unsigned_integral<length> ? fit::yes : fit::no_length;
    }
  }

  template <class In>
  class running {
    using builder = batch_builder<In, Mode>;

   public:
    using output = typename builder::output;

    // Emits at most one batch, so that the samples held then, with this one, are enough to resume.
    void operator()(sample<In>&& s, auto& emit, context& c) {
      const std::size_t length = length_of(s.value, c);
      bucket& b = bucket_of(length);
      if (b.size() == 0 || has_room_for(b, length)) {
        put(b, std::move(s), length);
        if (b.batch.is_full()) b.batch.flush(emit);
      } else {
        bucket next{builder_for(length)};
        put(next, std::move(s), length); // a refused sample leaves the bucket unchanged
        std::swap(b, next);
        next.batch.flush(emit);
      }
    }

    void finish(auto& emit) {
      bool wanted = !options_.drop_last;
      dropped_ = !wanted;
      for (bucket& b : buckets_) {
        if (b.size() == 0) continue;
        if (wanted) wanted = b.batch.flush(emit);
        else b.batch = builder_for(0);
      }
    }

    /// Whether it has dropped no samples of this epoch. (A run resumed within the epoch would read them
    /// again.)
    bool at_rest() const noexcept { return !dropped_; }

    void end_epoch() noexcept { dropped_ = false; }

    void state(auto& archive) {
      held_rows rows{*this};
      archive(rows);
    }

   private:
    struct bucket {
      builder batch;
      std::size_t longest = 0; // of the samples that it holds

      std::size_t size() const noexcept { return batch.ids().size(); }
    };

    /// The samples in all buckets, saved as held_samples are.
    struct held_rows {
      using feedline_held_samples = void;

      std::size_t size() const noexcept {
        std::size_t sum = 0;
        for (const bucket& b : of.buckets_) sum += b.size();
        return sum;
      }

      bool empty() const noexcept { return size() == 0; }

      static constexpr bool can_save_values = false; // they are rows of batches already

      void save(held& into, bool) const {
        for (const bucket& b : of.buckets_)
          into.listed.insert(into.listed.end(), b.batch.ids().begin(), b.batch.ids().end());
      }

      void load(const std::vector<sample_id>& ids, read_again& found) {
        for (const sample_id& id : ids) {
          sample<carried<In>> s = samples_of<In>(found).take(id);
          context c = make_context(id, of.key_, of.stop_);
          const std::size_t length = of.length_of(detail::value_in(s.value), c);
          bucket& b = of.bucket_of(length);
          if (b.size() > 0 && (b.batch.is_full() || !of.has_room_for(b, length)))
            throw std::runtime_error("feedline::bucket_batch: the run can't be resumed: samples that it held "
                                     "have other lengths now");
          of.put(b, {std::move(detail::value_in(s.value)), id}, length);
        }
      }

      running& of;
    };

    friend bucket_batch_stage;

    running(const bucket_batch_stage& stage, const stage_info& info)
        : key_(info.key),
          stop_(info.stop),
          options_(stage.options_),
          memory_(block_cache::over(options_.memory)),
          mode_(stage.mode_),
          length_(stage.length_.bind()) {
      for (std::size_t i = 0; i <= options_.boundaries.size(); ++i) buckets_.push_back({builder_for(0)});
    }

    std::size_t length_of(const In& item, context& c) {
      return static_cast<std::size_t>(call(length_.get(), item, c));
    }

    bucket& bucket_of(std::size_t length) {
      const auto bound = std::lower_bound(options_.boundaries.begin(), options_.boundaries.end(), length);
      return buckets_[static_cast<std::size_t>(bound - options_.boundaries.begin())];
    }

    /// The most samples in a batch whose longest sample has this length.
    std::size_t max_samples(std::size_t longest) const noexcept {
      const std::size_t size =
          options_.batch_size > 0 ? options_.batch_size : std::numeric_limits<std::size_t>::max();
      if (options_.max_tokens == 0) return size;
      return std::min(size,
                      std::max<std::size_t>(1, options_.max_tokens / std::max<std::size_t>(1, longest)));
    }

    bool has_room_for(const bucket& b, std::size_t length) const noexcept {
      return b.size() < max_samples(std::max(b.longest, length));
    }

    builder builder_for(std::size_t first_length) const {
      return builder(max_samples(first_length), batch_options(), mode_, memory_);
    }

    void put(bucket& b, sample<In>&& s, std::size_t length) {
      if (b.size() == 0) b = {builder_for(length)};
      b.batch.keep(std::move(s));
      b.longest = std::max(b.longest, length);
    }

    std::uint64_t key_;
    std::stop_token stop_;
    bucket_batch_options options_;
    std::shared_ptr<block_cache> memory_;
    Mode mode_;
    decltype(std::declval<const Length&>().bind()) length_;
    std::vector<bucket> buckets_;
    bool dropped_ = false; // some samples of this epoch
  };

  template <class In>
    requires(bucket_batch_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info& info) const {
    return running<In>(*this, info);
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return bytes_of_batch<In, Mode>(options_.batch_size > 0 ? options_.batch_size : options_.max_tokens, in,
                                    mode_);
  }

  std::size_t items_begun() const noexcept { return options_.boundaries.size() + 1; }

  /// Each packet downstream of it carries the identities of the samples that the buckets held.
  note_size notes() const noexcept {
    const std::size_t max_held =
        (options_.batch_size > 0 ? options_.batch_size : options_.max_tokens) * items_begun();
    return {sizeof(held) + 2 * max_held * sizeof(sample_id), 1};
  }

  std::uint64_t fingerprint() const noexcept {
    std::uint64_t hash = key(options_.batch_size, options_.max_tokens, options_.drop_last);
    for (const std::size_t bound : options_.boundaries) hash = key(hash, bound);
    return hash;
  }

 private:
  bucket_batch_options options_;
  Mode mode_;
  Length length_;
};

template <class Mode, class F>
auto make_bucket_batch(bucket_batch_options o, Mode mode, F&& length) {
  if (o.batch_size == 0 && o.max_tokens == 0)
    throw std::invalid_argument(
        "feedline::bucket_batch: the size of a batch is missing: set batch_size, max_tokens or both");
  refuse_negative(o.batch_size, "feedline::bucket_batch: the batch_size");
  refuse_negative(o.max_tokens, "feedline::bucket_batch: the max_tokens");
  for (const std::size_t bound : o.boundaries) refuse_negative(bound, "feedline::bucket_batch: a boundary");
  const auto does_not_rise = [](std::size_t a, std::size_t b) { return a >= b; };
  if (std::adjacent_find(o.boundaries.begin(), o.boundaries.end(), does_not_rise) != o.boundaries.end())
    throw std::invalid_argument(
        "feedline::bucket_batch: the boundaries must rise: each must be greater than the one before");
  using function = held_function_t<F>;
  return bucket_batch_stage<Mode, function>(std::move(o), mode, function(std::forward<F>(length)));
}

} // namespace detail

/// Gathers samples of similar length into batches, so that they need little padding.
///
/// A sample goes into the first bucket whose boundary is at least the sample's length. A bucket becomes a
/// batch when it holds `batch_size` samples, or when the next sample would make its longest length times its
/// number of samples exceed `max_tokens`. A sample that is longer than `max_tokens` is a batch by itself.
///
/// Takes:   the items that batch takes, with as_list any; optionally as_list or padded; optionally a function
///          that returns an item's length: `f(const item&)`, an unsigned whole number; without it
///          `item.size()`
/// Gives:   batch_of<item>; at the end of an epoch in finite mode, what is left, bucket by bucket
/// Order:   the order in which buckets become full; within a batch, arrival order
/// Throws:  std::invalid_argument if batch_size and max_tokens are both 0, or if the boundaries don't rise;
///          what the function throws, as a failure of its sample
/// Stops:   at once
/// Example: `lines({"*.txt"}) | bucket_batch({.boundaries = {32, 64, 128}, .max_tokens = 4096}, padded{})`
template <class Length = detail::size_of_item>
auto bucket_batch(const bucket_batch_options& options, Length length = {}) {
  return detail::make_bucket_batch(options, stacked_t(), std::move(length));
}

/// A batch is a std::vector of any items.
template <class Length = detail::size_of_item>
auto bucket_batch(const bucket_batch_options& options, as_list_t mode, Length length = {}) {
  return detail::make_bucket_batch(options, mode, std::move(length));
}

/// Strings, vectors, and tensors whose types have no shape are padded to the longest in their batch, in their first dimension.
template <class Length = detail::size_of_item>
auto bucket_batch(const bucket_batch_options& options, padded mode, Length length = {}) {
  return detail::make_bucket_batch(options, mode, std::move(length));
}

} // namespace feedline::inline FEEDLINE_ABI
