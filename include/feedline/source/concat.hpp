// SPDX-License-Identifier: MIT
#pragma once
// concat: a source that yields the samples of several sources, one source after another.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/detail/finishing_stage.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Access to the samples of several indexed sources by position, counted over all of them.
template <class Item, class Parts>
class indexed_concat {
 public:
  explicit indexed_concat(Parts parts) : parts_(std::move(parts)) {
    for_each_part(parts_,
                  [this](const auto& part, std::size_t) { firsts_.push_back(firsts_.back() + part.size()); });
  }

  std::uint64_t size() const noexcept { return firsts_.back(); }

  Item at(std::uint64_t position, const std::stop_token& stop = {}) const {
    return in_part(position, [&](const auto& part, std::size_t number, std::uint64_t within) -> Item {
      part_index::join(number, detail::index_at(part, within)); // throws if the index is too large
      return as_any<Item>(sample_at(part, within, stop));
    });
  }

  std::uint64_t index_at(std::uint64_t position) const {
    return in_part(position, [](const auto& part, std::size_t number, std::uint64_t within) {
      return part_index::join(number, detail::index_at(part, within));
    });
  }

  std::optional<std::uint64_t> find(std::uint64_t index) const {
    const std::size_t number = part_index::part_of(index);
    if (number >= number_of(parts_)) return {};
    auto position = with_part(parts_, number,
                              [&](const auto& part) { return find_index(part, part_index::within(index)); });
    if (position) *position += firsts_[number];
    return position;
  }

  bool will_need(std::uint64_t position) const noexcept
    requires(are_announced<Parts>)
  {
    return in_part(position, [](const auto& part, std::size_t, std::uint64_t within) {
      return announce_sample(part, within);
    });
  }

  /// How many samples the first `sources` sources have.
  std::uint64_t size_of_first(std::uint64_t sources) const {
    return firsts_[static_cast<std::size_t>(std::min<std::uint64_t>(sources, number_of(parts_)))];
  }

 private:
  template <class F>
  auto in_part(std::uint64_t position, F f) const {
    const auto next = std::upper_bound(firsts_.begin() + 1, firsts_.end() - 1, position);
    const auto number = static_cast<std::size_t>(next - firsts_.begin()) - 1;
    return with_part(parts_, number,
                     [&](const auto& part) { return f(part, number, position - firsts_[number]); });
  }

  Parts parts_;
  std::vector<std::uint64_t> firsts_{0}; // first position of each source; then the size
};

/// `Parts`: a tuple or vector of sub_sources.
template <class Parts>
class concat_source : public source_of_parts<Parts> {
  using base = source_of_parts<Parts>;
  using base::parts_;

  using facts = facts_of_parts<Parts>;
  using item = typename facts::any;

 public:
  static constexpr source_traits traits{
      .kind = "concat", .yields_file_names = facts::yield_file_names, .live = facts::are_live};

  explicit concat_source(Parts parts) : base(std::move(parts)), end_(number_of(parts_)) {}

  void start_epoch(const epoch& e) {
    epoch_ = e;
    number_ = 0;
    end_ = static_cast<std::size_t>(std::min<std::uint64_t>(number_of(parts_), e.extent));
    for_each_part(parts_, [](auto& part, std::size_t) { part.rewind(); });
  }

  std::optional<item> next() {
    for (; number_ < end_; ++number_) {
      auto value = with_part(parts_, number_, [this](auto& part) -> std::optional<item> {
        if (part.is_idle()) part.start(epoch_of_part(epoch_, number_));
        auto next = part.next();
        if (!next) return std::nullopt;
        index_ = part_index::join(number_, part.index());
        repetition_ = part.repetition();
        return as_any<item>(std::move(*next));
      });
      if (value) return value;
    }
    return std::nullopt;
  }

  std::uint64_t index() const noexcept { return index_; }

  std::uint32_t repetition() const noexcept
    requires(facts::have_repetition)
  {
    return repetition_;
  }

  bool ready() const
    requires(facts::say_when_ready)
  {
    return this->are_ready(number_, end_); // the current source may end, and the next one wait
  }

  void state(auto& archive)
    requires(facts::can_resume)
  {
    archive(number_);
    if (number_ < end_)
      with_part(parts_, number_, [&](auto& part) { part.state(archive, epoch_of_part(epoch_, number_)); });
  }

  void resumed() {
    if (number_ < end_) with_part(parts_, number_, [](auto& part) { part.resumed(); });
  }

  void seek(std::uint64_t index, std::uint32_t repetition = 0)
    requires(facts::can_seek)
  {
    number_ = part_index::part_of(index);
    end_ = std::min(number_ + 1, number_of(parts_));
    if (number_ < end_)
      with_part(parts_, number_, [&](auto& part) {
        part.seek(part_index::within(index), repetition, epoch_of_part(epoch_, number_));
      });
  }

  /// A concat of the sources that `f` makes of these.
  template <class F>
  auto with_parts(F f) const {
    auto parts = made_of_parts(parts_, [&](const auto& part) { return sub_source(f(part.described())); });
    return concat_source<decltype(parts)>(std::move(parts));
  }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    return this->fingerprint_of_parts(extent, stop);
  }

  /// Access to the samples by position.
  auto indexed(const std::stop_token& stop = {}) const
    requires(facts::are_indexed)
  {
    auto parts =
        made_of_parts(parts_, [&](const auto& part) { return detail::indexed(part.described(), stop); });
    return indexed_concat<item, decltype(parts)>(std::move(parts));
  }

 private:
  epoch epoch_;
  std::size_t number_ = 0; // of the current source
  std::size_t end_;
  std::uint64_t index_ = 0;      // of the last sample
  std::uint32_t repetition_ = 0; // likewise
};

} // namespace detail

/// Yields all samples of one source, then all samples of the next.
///
/// Takes:   up to 255 sources, each optionally followed by map, filter or tap. The last stages, map or tap, may have
///          workers, which process its samples downstream of the whole concat: what comes out is the same
/// Gives:   their items, as a std::variant if the types differ. A sample's index is
///          `number of its source << 56 | its index there`, sources counted from 0. A concat of indexed
///          sources is indexed: a global_shuffle() after it shuffles all of them together
/// Order:   one source after another, each in its order. Each source has a different seed, so that equal
///          sources have different orders
/// Throws:  what the sources throw, when it happens; std::length_error instead of a sample whose index in its
///          source needs more than 56 bits (in more than 2^16 files, or in another concat). A source that
///          can't start throws once and is left out
/// Example: `concat(tar_samples("photos-*.tar"), tar_samples("drawings-*.tar")) | global_shuffle() | map(decode)`
template <class... Sources>
auto concat(Sources... sources) {
  static_assert(sizeof...(Sources) > 0 && sizeof...(Sources) <= detail::part_index::most_parts,
                "feedline::concat: it takes 1 to 255 sources");
  if constexpr (!(detail::part_source<Sources> && ...)) {
    static_assert(
        (detail::part_source<Sources> && ...),
        "feedline::concat: it takes sources, each optionally followed by map, filter or tap, the last of "
        "which may be map or tap with workers: put other stages after concat()");
    return detail::refused_pipeline();
  } else {
    return [](auto... parts) {
      using all_parts = std::tuple<detail::sub_source<decltype(parts)>...>;
      return detail::with_workers_of_parts<false>(detail::concat_source(all_parts(parts...)), parts...);
    }(detail::source_of(std::move(sources))...);
  }
}

/// The same for sources of one type, whose number is known when the program runs. Their stages, if any, have no workers.
template <detail::listed_part Source>
auto concat(std::vector<Source> sources) {
  return detail::as_pipeline(detail::concat_source(detail::listed_sources("concat", std::move(sources))));
}

} // namespace feedline::inline FEEDLINE_ABI
