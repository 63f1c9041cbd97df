// SPDX-License-Identifier: MIT
#pragma once
// zip: a source that combines one sample of each of several sources.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/detail/finishing_stage.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Access to the samples of several indexed sources at equal positions.
template <class Item, class First, class... Rest>
class indexed_zip {
 public:
  explicit indexed_zip(First first, Rest... rest) : parts_(std::move(first), std::move(rest)...) {
    size_ = std::apply(
        [](const auto&... part) { return std::min({static_cast<std::uint64_t>(part.size())...}); }, parts_);
  }

  std::uint64_t size() const noexcept { return size_; }

  Item at(std::uint64_t position, const std::stop_token& stop = {}) const {
    return std::apply([&](const auto&... part) { return Item(sample_at(part, position, stop)...); }, parts_);
  }

  bool will_need(std::uint64_t position) const noexcept
    requires(announced_samples<First> || (announced_samples<Rest> || ...))
  {
    return std::apply([&](const auto&... part) { return (announce_sample(part, position) | ...); }, parts_);
  }

  std::uint64_t index_at(std::uint64_t position) const {
    return detail::index_at(std::get<0>(parts_), position);
  }

  std::optional<std::uint64_t> find(std::uint64_t index) const {
    const auto position = find_index(std::get<0>(parts_), index);
    return position && *position < size_ ? position : std::nullopt;
  }

 private:
  std::tuple<First, Rest...> parts_;
  std::uint64_t size_;
};

template <source First, source... Rest>
class zip_source : public source_of_parts<sub_source<First>, sub_source<Rest>...> {
  using base = source_of_parts<sub_source<First>, sub_source<Rest>...>;
  using base::parts_;

  static constexpr std::size_t count = 1 + sizeof...(Rest);
  using item = typename zipped<source_item_t<First>, source_item_t<Rest>...>::type;
  using all_numbers = std::make_index_sequence<count>;

 public:
  static constexpr source_traits traits{
      .kind = "zip",
      .yields_file_names = detail::yields_file_names<First> || (detail::yields_file_names<Rest> || ...),
      .depends_on_file_order = splits_files_by_rank<First> || (splits_files_by_rank<Rest> || ...),
      .live = live_source<First> || (live_source<Rest> || ...)};

  explicit zip_source(First first, Rest... rest)
      : base(sub_source(std::move(first)), sub_source(std::move(rest))...) {}

  void start_epoch(const epoch& e) {
    epoch_ = without_limits(e);
    for_each_part(parts_, [](auto& part, std::size_t) { part.rewind(); });
  }

  std::optional<item> next() { return next(all_numbers()); }

  std::uint64_t index() const { return std::get<0>(parts_).index(); }

  std::uint32_t repetition() const
    requires has_repetition<First>
  {
    return std::get<0>(parts_).repetition();
  }

  std::string origin(std::uint64_t index) const { return origin_of(std::get<0>(parts_).described(), index); }

  bool ready() const
    requires(says_when_ready<First> || (says_when_ready<Rest> || ...))
  {
    return this->are_ready(0, count);
  }

  void state(auto& archive)
    requires(can_be_resumed<First> && (can_be_resumed<Rest> && ...))
  {
    for_each_part(parts_, [&](auto& part, std::size_t) { part.state(archive, epoch_); });
  }

  std::optional<std::size_t> max_item_bytes() const {
    known_bytes sum = sizeof(item);
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      sum = sum_of(sum, max_item_bytes_of(part.described()));
    });
    return sum;
  }

  /// A zip of the sources that `f` makes of these.
  template <class F>
  auto with_parts(F f) const {
    return remade<zip_source>(parts_, f);
  }

  std::uint64_t fingerprint(std::uint64_t, const std::stop_token& stop = {}) const {
    return this->fingerprint_of_parts(count, stop);
  }

  /// Access to the samples by position.
  auto indexed(const std::stop_token& stop = {}) const
    requires(indexed_source<First> && (indexed_source<Rest> && ...))
  {
    return std::apply(
        [&](const auto&... part) {
          return indexed_zip<item, decltype(detail::indexed(part.described()))...>(
              detail::indexed(part.described(), stop)...);
        },
        parts_);
  }

 private:
  // Every source advances, even if another one throws. If a source has ended, exceptions of the others belong
  // to no sample and are ignored.
  template <std::size_t... I>
  std::optional<item> next(std::index_sequence<I...>) {
    std::exception_ptr error;
    bool has_ended = false;
    const auto next_of = [&](auto& part) -> decltype(part.next()) {
      try {
        if (part.is_idle()) part.start(epoch_);
        auto value = part.next();
        has_ended |= !value;
        return value;
      } catch (...) {
        // An outage says more than the failure of a sample.
        if (!error || is_outage(std::current_exception())) error = std::current_exception();
        return std::nullopt;
      }
    };
    std::tuple values{next_of(std::get<I>(parts_))...}; // braces: one after another
    if (!(std::get<I>(values).has_value() && ...)) {
      if (error && !has_ended) std::rethrow_exception(error);
      return std::nullopt;
    }
    return std::optional<item>(std::in_place, *std::move(std::get<I>(values))...);
  }

  epoch epoch_;
};

} // namespace detail

/// Combines one sample of each source, until one of them ends.
///
/// Takes:   up to 255 sources, each optionally followed by map, filter or tap. The last stages, map or tap, may have
///          workers, which process its samples downstream of the whole zip: what comes out is the same
/// Gives:   a std::pair of the items of two sources, otherwise a std::tuple of all; the index and repetition are
///          those of the first source's sample. A zip of indexed sources is indexed: global_shuffle() can follow it
/// Order:   that of the sources. All have the same seed, so that files that correspond to each other stay
///          together in every order, and equal sources have equal orders
/// Throws:  what a source throws, as a failure of this sample. The other sources advance, and stay in step if
///          the source throws once for each sample that it can't yield
/// Example: `zip(lines({"english.txt"}), lines({"german.txt"})) | map(tokenize) | batch(32, padded{})`
template <class... Sources>
auto zip(Sources... sources) {
  static_assert(sizeof...(Sources) > 0 && sizeof...(Sources) <= detail::part_index::most_parts,
                "feedline::zip: it takes 1 to 255 sources");
  if constexpr (!(detail::part_source<Sources> && ...)) {
    static_assert(
        (detail::part_source<Sources> && ...),
        "feedline::zip: it takes sources, each optionally followed by map, filter or tap, the last of "
        "which may be map or tap with workers: put other stages after zip()");
    return detail::refused_pipeline();
  } else {
    return [](auto... parts) {
      return detail::with_workers_of_parts<true>(detail::zip_source<decltype(parts)...>(parts...), parts...);
    }(detail::source_of(std::move(sources))...);
  }
}

} // namespace feedline::inline FEEDLINE_ABI
