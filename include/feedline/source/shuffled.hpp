// SPDX-License-Identifier: MIT
#pragma once
// shuffled: the samples of an indexed source in an order that reaches over all of them.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <feedline/core/permutation.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/source.hpp>

namespace feedline {

namespace detail {

/// Makes something when it is first asked for. Copies share it.
template <class T>
class shared_lazy {
 public:
  /// What `make` makes; if it throws, the next call tries again.
  template <class Make>
  const T& get(Make make) const {
    std::call_once(shared_->once, [&] { shared_->value.emplace(make()); });
    return *shared_->value;
  }

 private:
  struct state {
    std::once_flag once;
    std::optional<const T> value;
  };

  std::shared_ptr<state> shared_ = std::make_shared<state>();
};

template <indexed_source Source>
class shuffled_source {
  using samples = decltype(indexed(std::declval<const Source&>()));

 public:
  static constexpr const char* kind = kind_of<Source>();

  explicit shuffled_source(Source source) : source_(std::move(source)) {}

  void start_epoch(const epoch& e) {
    samples_.emplace(index_.get([this] { return indexed(source_); }));
    order_.emplace(samples_->size(), key(e.seed, e.number));
    reached_ = 0;
  }

  std::optional<source_item_t<Source>> next() {
    if (reached_ == order_->size()) return std::nullopt;
    place_ = place_of(reached_++);
    return sample_at(place_);
  }

  std::uint64_t index() const { return index_at(place_); }

  std::uint64_t epoch_size() const { return order_->size(); }

  /// Where number i of the epoch is.
  std::uint64_t place_of(std::uint64_t i) const { return (*order_)[i]; }

  source_item_t<Source> sample_at(std::uint64_t place) const { return samples_->at(place); }

  std::uint64_t index_at(std::uint64_t place) const { return detail::index_at(*samples_, place); }

  std::string origin(std::uint64_t index) const { return origin_of(source_, index); }

 private:
  Source source_;
  shared_lazy<samples> index_;
  std::optional<samples> samples_; // this run's share in them
  std::optional<permutation> order_;
  std::uint64_t reached_ = 0; // samples of the epoch
  std::uint64_t place_ = 0;   // of the last one
};

struct shuffled_part {
  using feedline_part = void;
  using feedline_changes_source = void;

  template <class Source, class... Stages>
  auto changed(pipeline<Source, Stages...> p) const {
    static_assert(sizeof...(Stages) == 0, "feedline: shuffled() must stand right behind the source");
    static_assert(
        indexed_source<Source>,
        "feedline: the samples of this Source can't be had by their place, so they can't be shuffled as "
        "a whole: use shuffle({.capacity = ...})");
    if constexpr (sizeof...(Stages) == 0 && indexed_source<Source>) {
      using source = shuffled_source<Source>;
      return pipeline<source>(source(std::move(p).source()), {});
    } else {
      return refused_pipeline();
    }
  }
};

} // namespace detail

/// Gives the samples of a source that is indexed in an order that reaches over all of them: a keyed
/// permutation of their places, another one in each epoch, which needs no memory and no buffer. It stands
/// right behind the source.
///
/// Takes:   sources whose samples can be had by their place: from(vector), records, files, tar_samples, or one
///          of your own (see indexed_samples)
/// Gives:   every sample, once per epoch
/// Order:   random, the same for the same seed and epoch number, in finite mode too
/// Throws:  what the source throws when its samples are counted, as a failure of the source
/// Example: `tar_samples("train-*.tar") | shuffled() | map(decode, workers{8}) | batch(256)`
inline auto shuffled() { return detail::shuffled_part(); }

} // namespace feedline
