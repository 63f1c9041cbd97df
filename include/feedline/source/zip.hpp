// SPDX-License-Identifier: MIT
#pragma once
// zip: a source that combines one sample of each of several sources.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/detail/finishing_stage.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The item that consists of these: a pair, tuple or vector of them.
template <class Item, class Values>
Item zipped_item(Values values) {
  if constexpr (listed_parts<Values>) return values;
  else return std::apply([](auto&... value) { return Item(std::move(value)...); }, values);
}

/// Access to the samples of several indexed sources at equal positions.
template <class Item, class Parts>
class indexed_zip {
 public:
  explicit indexed_zip(Parts parts) : parts_(std::move(parts)) {
    for_each_part(parts_, [this](const auto& part, std::size_t) {
      size_ = std::min<std::uint64_t>(size_, part.size());
    });
  }

  std::uint64_t size() const noexcept { return size_; }

  Item at(std::uint64_t position, const std::stop_token& stop = {}) const {
    return zipped_item<Item>(
        made_of_parts(parts_, [&](const auto& part) { return sample_at(part, position, stop); }));
  }

  bool will_need(std::uint64_t position) const noexcept
    requires(are_announced<Parts>)
  {
    bool may_be_of_use = false;
    for_each_part(parts_,
                  [&](const auto& part, std::size_t) { may_be_of_use |= announce_sample(part, position); });
    return may_be_of_use;
  }

  std::uint64_t index_at(std::uint64_t position) const {
    return with_part(parts_, 0, [&](const auto& part) { return detail::index_at(part, position); });
  }

  std::optional<std::uint64_t> find(std::uint64_t index) const {
    const auto position = with_part(parts_, 0, [&](const auto& part) { return find_index(part, index); });
    return position && *position < size_ ? position : std::nullopt;
  }

 private:
  Parts parts_;
  std::uint64_t size_ = ~std::uint64_t{0};
};

/// `Parts`: a tuple or vector of sub_sources.
template <class Parts>
class zip_source : public source_of_parts<Parts> {
  using base = source_of_parts<Parts>;
  using base::parts_;

  using facts = facts_of_parts<Parts>;
  using item = typename facts::all;
  using first = typename facts::first;

 public:
  static constexpr source_traits traits{.kind = "zip",
                                        .yields_file_names = facts::yield_file_names,
                                        .depends_on_file_order = facts::split_files,
                                        .live = facts::are_live};

  explicit zip_source(Parts parts) : base(std::move(parts)) {}

  void start_epoch(const epoch& e) {
    epoch_ = without_limits(e);
    for_each_part(parts_, [](auto& part, std::size_t) { part.rewind(); });
  }

  // Every source advances, even if another one throws. If a source has ended, exceptions of the others belong
  // to no sample and are ignored.
  std::optional<item> next() {
    std::exception_ptr error;
    bool has_ended = false;
    auto values = made_of_parts(parts_, [&](auto& part) -> decltype(part.next()) {
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
    });
    if (has_ended) return std::nullopt;
    if (error) std::rethrow_exception(error);
    return zipped_item<item>(made_of_parts(values, [](auto& value) { return *std::move(value); }));
  }

  std::uint64_t index() const {
    return with_part(parts_, 0, [](const auto& part) { return part.index(); });
  }

  std::uint32_t repetition() const
    requires has_repetition<first>
  {
    return with_part(parts_, 0, [](const auto& part) { return part.repetition(); });
  }

  std::string origin(std::uint64_t index) const {
    return with_part(parts_, 0, [&](const auto& part) { return origin_of(part.described(), index); });
  }

  bool ready() const
    requires(facts::say_when_ready)
  {
    return this->are_ready(0, number_of(parts_));
  }

  void state(auto& archive)
    requires(facts::can_resume)
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
    auto parts = made_of_parts(parts_, [&](const auto& part) { return sub_source(f(part.described())); });
    return zip_source<decltype(parts)>(std::move(parts));
  }

  std::uint64_t fingerprint(std::uint64_t, const std::stop_token& stop = {}) const {
    return this->fingerprint_of_parts(number_of(parts_), stop);
  }

  /// Access to the samples by position.
  auto indexed(const std::stop_token& stop = {}) const
    requires(facts::are_indexed)
  {
    auto parts =
        made_of_parts(parts_, [&](const auto& part) { return detail::indexed(part.described(), stop); });
    return indexed_zip<item, decltype(parts)>(std::move(parts));
  }

 private:
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
      using all_parts = std::tuple<detail::sub_source<decltype(parts)>...>;
      return detail::with_workers_of_parts<true>(detail::zip_source(all_parts(parts...)), parts...);
    }(detail::source_of(std::move(sources))...);
  }
}

/// The same for sources of one type, whose number is known when the program runs, which gives a std::vector of their items. Their
/// stages, if any, have no workers.
template <detail::listed_part Source>
auto zip(std::vector<Source> sources) {
  return detail::as_pipeline(detail::zip_source(detail::listed_sources("zip", std::move(sources))));
}

} // namespace feedline::inline FEEDLINE_ABI
