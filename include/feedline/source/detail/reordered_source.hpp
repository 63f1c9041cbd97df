// SPDX-License-Identifier: MIT
#pragma once
// The samples of an indexed source in an order of positions that is computed on the fly.
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/plan/rank_share.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A value that is made when it is first needed. Copies share it.
template <class T>
class shared_lazy {
 public:
  /// Returns the value, which the first call gets from `make`. If that throws, the next call tries again.
  template <class Make>
  const T& get(Make make) const {
    const std::lock_guard lock(
        shared_->mutex); // ThreadSanitizer doesn't know that call_once may be left by an exception
    if (!shared_->value) shared_->value.emplace(make());
    return *shared_->value;
  }

 private:
  struct state {
    std::mutex mutex;
    std::optional<const T> value;
  };

  std::shared_ptr<state> shared_ = std::make_shared<state>();
};

/// An order in which a position can occur twice.
template <class Orders>
concept repeats_places = requires { requires Orders::repeats_places; };

/// `orders(places, key)` returns the order of an epoch: size(), and operator[](number), which returns the
/// position with that number in the order. If no position occurs twice it may have the inverse too,
/// find(position).
template <indexed_source Source, class Orders>
class reordered_source {
  using samples = decltype(indexed(std::declval<const Source&>()));
  using order = decltype(std::declval<const Orders&>()(0, 0));

 public:
  static constexpr source_traits traits{.kind = kind_of<Source>(),
                                        .splits_samples_by_rank = true,
                                        .yields_file_names = yields_file_names<Source>,
                                        .random_order = true};

  reordered_source(Source source, Orders orders) : source_(std::move(source)), orders_(std::move(orders)) {}

  void start_epoch(const epoch& e) {
    stop_ = e.stop;
    samples_.emplace(index_.get([&] { return indexed(source_, stop_); }));
    std::uint64_t places = samples_->size();
    if constexpr (requires { samples_->size_of_first(e.extent); }) places = samples_->size_of_first(e.extent);
    else places = std::min(places, e.extent);
    order_.emplace(orders_(places, key(e.seed, e.number)));
    share_ = rank_share(order_->size(), e);
    reached_ = announced_ = 0;
    again_.reset();
    pace_ = {};
  }

  std::optional<source_item_t<Source>> next() {
    if (again_) {
      place_ = *std::exchange(again_, std::nullopt);
    } else {
      if (reached_ == share_.size) return std::nullopt;
      announce();
      repetition_ = repetition_at(reached_);
      place_ = place_of(reached_++);
    }
    return sample_at(place_);
  }

  /// Whether next() would return a sample, or end the epoch, without waiting.
  bool ready() const
    requires says_when_sample_ready<samples>
  {
    if (again_) return samples_->ready(*again_);
    return reached_ == share_.size || samples_->ready(place_of(reached_));
  }

  std::uint64_t index() const { return index_at(place_); }

  std::uint32_t repetition() const noexcept
    requires repeats_places<Orders>
  {
    return repetition_;
  }

  void skip(std::uint64_t count) { reached_ += std::min(count, share_.size - reached_); }

  void seek(std::uint64_t index, std::uint32_t repetition = 0) {
    again_ = find(index);
    repetition_ = repetition;
    reached_ = share_.size; // nothing follows
  }

  /// The positions of this rank in this epoch.
  const rank_share& share() const noexcept { return share_; }

  /// The position of sample number i of this rank's epoch.
  std::uint64_t place_of(std::uint64_t i) const { return (*order_)[share_.place_of(i)]; }

  /// The number of sample number i in the whole epoch's order, if samples can occur twice; else 0.
  std::uint32_t repetition_at(std::uint64_t i) const noexcept {
    return repeats_places<Orders> ? static_cast<std::uint32_t>(share_.place_of(i)) : 0;
  }

  source_item_t<Source> sample_at(std::uint64_t place) const {
    return detail::sample_at(*samples_, place, stop_);
  }

  /// Announces that sample_at(place) will be called soon. Returns whether that may be of use.
  bool will_need(std::uint64_t place) const noexcept
    requires announced_samples<samples>
  {
    return announce_sample(*samples_, place);
  }

  /// Whether sample_at(place) would return without waiting.
  bool is_ready(std::uint64_t place) const
    requires says_when_sample_ready<samples>
  {
    return samples_->ready(place);
  }

  std::uint64_t index_at(std::uint64_t place) const { return detail::index_at(*samples_, place); }

  /// The position of the sample with this index.
  std::optional<std::uint64_t> find(std::uint64_t index) const { return find_index(*samples_, index); }

  /// The number that the sample with this index has in the whole epoch's order.
  std::uint64_t number_of(std::uint64_t index) const
    requires requires(const order& o) { o.find(index); }
  {
    const auto place = find(index);
    return place && *place < order_->size() ? order_->find(*place) : order_->size();
  }

  std::uint64_t extent() const { return extent_of(source_); }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    return key(fingerprint_of(source_, extent, stop), orders_.fingerprint());
  }

  std::string parameters() const {
    std::string all = parameters_of(source_);
    add_parameters(all, orders_.parameters());
    return all;
  }

  std::string outage() const { return outage_of(source_); }

  std::optional<std::size_t> max_item_bytes() const { return max_item_bytes_of(source_); }

  std::size_t bytes_held() const {
    if constexpr (requires { source_.bytes_held_by_position(); }) return source_.bytes_held_by_position();
    else return bytes_held_by(source_);
  }

  std::string origin(std::uint64_t index) const { return origin_of(source_, index); }

  void metrics(auto& out) const
    requires requires(const Source& s) { s.metrics(out); }
  {
    source_.metrics(out);
  }

 private:
  // Announces the samples that follow in the epoch.
  void announce() {
    if constexpr (announced_samples<samples>) {
      constexpr std::uint64_t ahead = 64; // samples
      const std::uint64_t end = std::min(share_.size, reached_ + ahead + 1);
      if (announced_ < end) announce_before(end);
    }
  }

  // A function of its own, as it is rarely needed while samples are in memory.
  [[gnu::noinline]] void announce_before(std::uint64_t end) {
    announced_ = std::max(announced_, reached_ + 1);
    while (announced_ < end) {
      pace_.note(will_need(place_of(announced_)));
      do ++announced_;
      while (!pace_.is_due());
    }
  }

  Source source_;
  Orders orders_;
  shared_lazy<samples> index_;
  std::optional<samples> samples_; // this run's handle of them
  std::optional<order> order_;
  rank_share share_;
  std::stop_token stop_;
  std::uint64_t reached_ = 0;   // how many samples of the epoch were yielded
  std::uint64_t announced_ = 0; // how many were announced, passed over or yielded
  announcement_pace pace_;
  std::uint64_t place_ = 0;            // of the last sample
  std::uint32_t repetition_ = 0;       // likewise
  std::optional<std::uint64_t> again_; // the position that seek() requested
};

/// What follows a source in a pipeline and turns it into a reordered_source.
template <class Orders>
struct reordering {
  using feedline_part = void;
  using feedline_changes_source = void;

  template <class Source, class... Segments>
  auto changed(const pipeline<Source, Segments...>& p) const {
    constexpr bool may_stand_here =
        keep_any_order(typename pipeline<Source, Segments...>::segments::stage_types());
    static_assert(
        may_stand_here,
        "feedline: global_shuffle() and with_replacement() must follow the source directly, or map, filter "
        "and tap");
    static_assert(
        indexed_source<Source>,
        "feedline: this Source has no access to its samples by position, so they can't be shuffled as a "
        "whole: use shuffle({.capacity = ...})");
    if constexpr (may_stand_here && indexed_source<Source>) {
      return with_source(reordered_source<Source, Orders>(p.source(), orders), p);
    } else {
      return refused_pipeline();
    }
  }

  Orders orders;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
