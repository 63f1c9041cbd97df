// SPDX-License-Identifier: MIT
#pragma once
// check_source: checks that a source keeps the promises of pipelines that begin with it.
#include <map>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing/check_options.hpp>
#include <feedline/testing/detail/items.hpp>
#include <feedline/testing/detail/observed.hpp>
#include <feedline/testing/detail/runs.hpp>

namespace feedline::inline FEEDLINE_ABI::testing {

namespace detail {

/// The result of a call of a source's next().
struct source_step {
  bool has_ended = false;
  std::string error; // empty: there is an item
  std::size_t item = 0;
  std::uint64_t index = 0;

  friend bool operator==(const source_step&, const source_step&) = default;
};

/// A source that is called without a run. Its type is hidden.
class hand_source {
 public:
  virtual ~hand_source() = default;
  virtual std::unique_ptr<hand_source> copy() const = 0;
  virtual void start(const epoch& e) = 0;
  virtual source_step next() = 0;

  virtual bool has_skip() const = 0;
  virtual void skip(std::uint64_t count) = 0;
  virtual bool has_state() const = 0;
  virtual std::vector<std::uint64_t> write_state() = 0;
  /// Returns the number of words that it did not read; negative if it read more than there were.
  virtual std::ptrdiff_t read_state(std::vector<std::uint64_t> words) = 0;
  virtual bool has_seek() const = 0;
  virtual void seek(std::uint64_t index) = 0;

  virtual std::string origin(std::uint64_t index) const = 0;
  virtual std::uint64_t extent() const = 0;
  virtual std::uint64_t fingerprint() const = 0;
  virtual std::optional<std::size_t> max_item_bytes() const = 0;
  /// The bytes of the largest sample so far.
  virtual std::size_t largest_given() const = 0;

  virtual bool is_indexed() const = 0;
  /// The samples by position: (index, item).
  virtual std::vector<source_step> at_positions(std::size_t limit) const = 0;
  virtual std::optional<std::uint64_t> find(std::uint64_t index) const = 0;
};

/// The characters of a short string are stored inside it, but counted as if outside.
inline constexpr std::size_t inside_short_text = 16;

/// Reads a state. Returns the number of words left; negative if it asked for more than there were.
template <class Part, class Prepare>
std::ptrdiff_t read_words(Part& part, std::vector<std::uint64_t> words, const Prepare& prepare) {
  constexpr std::size_t beyond = 64;
  words.insert(words.end(), beyond, 0);
  state_reader reader(words);
  prepare(reader);
  feedline::detail::read_state(part, reader);
  return static_cast<std::ptrdiff_t>(reader.left()) - static_cast<std::ptrdiff_t>(beyond);
}

template <source Source, class Table>
class typed_hand_source final : public hand_source {
 public:
  typed_hand_source(Source source, std::shared_ptr<Table> table)
      : source_(std::move(source)), table_(std::move(table)) {}

  std::unique_ptr<hand_source> copy() const override {
    return std::make_unique<typed_hand_source>(source_, table_);
  }

  void start(const epoch& e) override { feedline::detail::start_source(source_, e); }

  source_step next() override {
    source_step s;
    try {
      const auto value = source_.next();
      s.has_ended = !value;
      if (!value) return s;
      s.index = feedline::detail::index_of(source_, given_++);
      s.item = table_->number_of(*value);
      largest_given_ = std::max(largest_given_, feedline::detail::bytes_taken(*value));
    } catch (const std::exception& error) {
      s.error = std::string("the error ") + error.what();
    }
    return s;
  }

  bool has_skip() const override { return skips; }

  void skip(std::uint64_t count) override {
    given_ += count;
    if constexpr (skips) source_.skip(count);
  }

  bool has_state() const override { return feedline::detail::has_state<Source>; }

  std::vector<std::uint64_t> write_state() override {
    std::vector<std::uint64_t> words;
    if constexpr (feedline::detail::has_state<Source>) {
      state_writer writer(words);
      source_.state(writer);
    }
    return words;
  }

  std::ptrdiff_t read_state(std::vector<std::uint64_t> words) override {
    if constexpr (feedline::detail::has_state<Source>)
      return read_words(source_, std::move(words), [](state_reader&) {});
    else return 0;
  }

  bool has_seek() const override { return can_seek; }

  void seek(std::uint64_t index) override {
    if constexpr (can_seek) source_.seek(index);
  }

  std::string origin(std::uint64_t index) const override {
    return feedline::detail::origin_of(source_, index);
  }

  std::uint64_t extent() const override {
    if constexpr (requires { source_.extent(); }) return source_.extent();
    else return 0;
  }

  std::uint64_t fingerprint() const override {
    if constexpr (requires { source_.fingerprint(extent()); }) return source_.fingerprint(extent());
    else return 0;
  }

  std::optional<std::size_t> max_item_bytes() const override {
    if constexpr (requires { source_.max_item_bytes(); })
      return feedline::detail::announced_bytes<source_item_t<Source>>(source_.max_item_bytes());
    else return std::nullopt;
  }

  std::size_t largest_given() const override { return largest_given_; }

  bool is_indexed() const override { return indexed_source<Source>; }

  std::vector<source_step> at_positions(std::size_t limit) const override {
    std::vector<source_step> all;
    if constexpr (indexed_source<Source>) {
      const auto samples = feedline::detail::indexed(source_);
      for (std::uint64_t position = 0; position < samples.size() && all.size() < limit; ++position) {
        source_step& s = all.emplace_back();
        try {
          s.index = feedline::detail::index_at(samples, position);
          s.item = table_->number_of(samples.at(position));
        } catch (const std::exception& error) {
          s.error = std::string("the error ") + error.what();
        }
      }
    }
    return all;
  }

  std::optional<std::uint64_t> find(std::uint64_t index) const override {
    if constexpr (indexed_source<Source>)
      return feedline::detail::find_index(feedline::detail::indexed(source_), index);
    else return {};
  }

 private:
  static constexpr bool skips = requires(Source& s) { s.skip(0u); };
  static constexpr bool can_seek = requires(Source& s) { s.seek(0u); };

  Source source_;
  std::shared_ptr<Table> table_;
  std::uint64_t given_ = 0;
  std::size_t largest_given_ = 0;
};

/// The promises that can be checked without a run.
class hand_source_checks {
 public:
  /// `make`: makes the source.
  hand_source_checks(feedline::detail::function_ref<std::unique_ptr<hand_source>()> make,
                     const item_texts& texts, observed& seen, const check_options& options)
      : make_(make), texts_(texts), seen_(seen), options_(options) {}

  /// The steps of an epoch.
  const std::vector<source_step>& epoch_steps(std::uint32_t number);

  void all();

 private:
  // As a run with several epochs starts it.
  epoch make_epoch(std::uint32_t number) const {
    epoch e;
    e.seed = options_.seed;
    e.number = number;
    e.shuffled = true;
    return e;
  }

  std::unique_ptr<hand_source> started(const hand_source& described, std::uint32_t number) const;

  std::vector<source_step> read_epoch(hand_source& source) const;

  std::string text(const source_step& s) const;

  // Empty, or the first difference.
  std::string difference(const std::vector<source_step>& expected, std::size_t first,
                         const std::vector<source_step>& got) const;

  bool complain(const std::string& promise, const std::string& what, const std::string& advice);

  void same_again();

  void indices();

  void states();

  void skips();

  void seeks();

  void positions();

  void descriptions();

  feedline::detail::function_ref<std::unique_ptr<hand_source>()> make_;
  const item_texts& texts_;
  observed& seen_;
  const check_options& options_;
  std::unique_ptr<hand_source> described_;
  std::map<std::uint32_t, std::vector<source_step>> epochs_;
};

/// The map downstream of a source.
struct look_at_source {
  template <class T>
  seen<T> operator()(T item, context& c) const {
    if (fails && fails->index == c.index && fails->epoch == c.epoch) throw planned_failure();
    return {std::move(item), c.id()};
  }

  std::optional<occasion> fails;
};

/// Whether the pipeline yields what its source yields. Workers finish the items of mix(a | map(f, workers{2}), b).
template <class Pipeline>
inline constexpr bool is_only_source =
    std::is_same_v<source_item_t<std::remove_cvref_t<decltype(std::declval<Pipeline&>().source())>>,
                   typename Pipeline::item>;

/// source | map | shuffle. A shuffle with room for one item changes nothing.
template <class Make>
struct downstream_of_source {
  auto operator()(const run_order& o) {
    auto described = feedline::detail::as_pipeline(make());
    using item = typename decltype(described)::item;
    feedline::max_item_bytes largest;
    if constexpr (is_only_source<decltype(described)> && requires { described.source().max_item_bytes(); })
      if (const std::optional<std::size_t> bytes = described.source().max_item_bytes())
        largest.bytes = *bytes + inside_short_text + sizeof(seen<item>) - sizeof(item);
    return std::move(described) | map(look_at_source{o.fails}, feedline::workers{o.upstream}, largest) |
           shuffle({.capacity = o.buffer});
  }

  Make make;
};

/// The promises that only a source makes for its runs.
class source_run_checks {
 public:
  source_run_checks(any_runs& runs, observed& seen, const check_options& options);

  void all() {
    checks_.all();
    checks_.resumes(true, 4);
    checks_.resumes(false, 4);
    failures();
    ranks();
  }

  /// Some samples may fail, if next() isn't called to find out.
  void may_fail() { checks_.expect_failures(); }

  /// A finite run yields what next() returns, epoch by epoch.
  void given(const std::vector<std::vector<source_step>>& epochs);

 private:
  void failures();

  void ranks();

  any_runs& runs_;
  observed& seen_;
  const check_options& options_;
  run_checks checks_;
};

} // namespace detail

/// Checks that a source keeps the promises that the library makes to its users: the same samples with any
/// number of workers, exact checkpoints, whole epochs, an end at any moment, failures in their position.
/// Returns if it does.
///
/// It first calls the source itself (copies, index(), state(), skip(), seek(), at(), find(), origin()). If
/// that succeeds, it runs pipelines that begin with the source. What mix(), concat() and zip() make of parts with
/// workers is only run. Use a small data set, of 10 to 50 samples: each position in it is tried.
///
/// Takes:   a function that makes the source as another process would, the same each time: a class with
///          next(), one with size() and at(), or what from(), mix() and the like return; check_options; and a
///          projection, if samples have no operator==. All three are copied, and called from a separate
///          thread
/// Throws:  broken_promise, whose what() has a sentence for each broken promise; std::invalid_argument for a
///          source that yields more samples than options.most_items
/// Example: `fl::testing::check_source([] { return read_files("small.blk", checked_blocks{}); })`
template <class Make, class Project = as_it_is>
void check_source(Make make, const check_options& options = {}, Project project = {}) {
  using pipeline_type = decltype(feedline::detail::as_pipeline(make()));
  using table_type = detail::item_table<typename pipeline_type::item, Project>;
  detail::run_observed(options.patience, [make = std::move(make), options,
                                          project = std::move(project)](detail::observed& seen) {
    const auto table = std::make_shared<table_type>(project);
    detail::typed_runs<detail::downstream_of_source<Make>, table_type> runs(
        detail::downstream_of_source<Make>{make}, table);
    detail::source_run_checks by_runs(runs, seen, options);
    if constexpr (detail::is_only_source<pipeline_type>) {
      Make make_by_hand = make;
      const auto make_one = [&]() -> std::unique_ptr<detail::hand_source> {
        auto source = feedline::detail::as_pipeline(make_by_hand()).source();
        return std::make_unique<detail::typed_hand_source<decltype(source), table_type>>(std::move(source),
                                                                                         table);
      };
      detail::hand_source_checks by_hand(make_one, *table, seen, options);
      by_hand.all();
      if (!seen.is_whole()) return;
      std::vector<std::vector<detail::source_step>> epochs;
      for (std::uint32_t number = 0; number < options.epochs; ++number)
        epochs.push_back(by_hand.epoch_steps(number));
      by_runs.given(epochs);
    } else {
      by_runs.may_fail();
    }
    by_runs.all();
  });
}

} // namespace feedline::inline FEEDLINE_ABI::testing

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TESTING)
namespace feedline::inline FEEDLINE_ABI::testing::detail {

FEEDLINE_INLINE const std::vector<source_step>& hand_source_checks::epoch_steps(std::uint32_t number) {
  std::vector<source_step>& steps = epochs_[number];
  if (steps.empty()) {
    seen_.doing("read epoch " + std::to_string(number) + " of the source");
    const auto described = make_();
    steps = read_epoch(*started(*described, number));
  }
  return steps;
}

FEEDLINE_INLINE void hand_source_checks::all() {
  described_ = make_();
  same_again();
  if (!seen_.is_whole()) return; // further findings would mislead
  indices();
  states();
  skips();
  seeks();
  positions();
  descriptions();
}

FEEDLINE_INLINE std::unique_ptr<hand_source> hand_source_checks::started(const hand_source& described,
                                                                         std::uint32_t number) const {
  auto source = described.copy();
  source->start(make_epoch(number));
  return source;
}

FEEDLINE_INLINE std::vector<source_step> hand_source_checks::read_epoch(hand_source& source) const {
  std::vector<source_step> all;
  while (all.empty() || !all.back().has_ended) {
    if (all.size() > options_.most_items)
      throw std::invalid_argument(
          "feedline::testing: the source yields more than " + std::to_string(options_.most_items) +
          " samples in an epoch: use a smaller one for the check, or raise most_items");
    all.push_back(source.next());
  }
  return all;
}

FEEDLINE_INLINE std::string hand_source_checks::text(const source_step& s) const {
  if (s.has_ended) return "the end";
  if (!s.error.empty()) return s.error;
  return texts_.text(s.item) + " with the index " + std::to_string(s.index);
}

FEEDLINE_INLINE std::string hand_source_checks::difference(const std::vector<source_step>& expected,
                                                           std::size_t first,
                                                           const std::vector<source_step>& got) const {
  for (std::size_t i = 0; i < std::max(expected.size() - first, got.size()); ++i) {
    const bool is_missing = i >= got.size(), is_extra = first + i >= expected.size();
    if (!is_missing && !is_extra && expected[first + i] == got[i]) continue;
    return "sample " + std::to_string(first + i) + " of the epoch (counted from 0) is " +
           (is_missing ? "missing" : text(got[i])) + ", not " +
           (is_extra ? "after the end" : text(expected[first + i]));
  }
  return {};
}

FEEDLINE_INLINE bool hand_source_checks::complain(const std::string& promise, const std::string& what,
                                                  const std::string& advice) {
  if (!what.empty()) seen_.broken(promise + ": " + what + ". " + advice + ".");
  return !what.empty();
}

FEEDLINE_INLINE void hand_source_checks::same_again() {
  for (std::uint32_t number = 0; number < options_.epochs; ++number) {
    const std::vector<source_step>& expected = epoch_steps(number);
    const std::string where = ", read in epoch " + std::to_string(number) + ", yields other samples";
    seen_.doing("read an epoch of the source again");
    const auto again = make_();
    if (complain("The same seed yields the same samples: a second source" + where,
                 difference(expected, 0, read_epoch(*started(*again, number))),
                 "Key the order by the epoch's seed and number. Nothing may depend on time or on addresses"))
      return;
    if (complain("Copies are independent: another copy of the same source" + where,
                 difference(expected, 0, read_epoch(*started(*again, number))),
                 "Each epoch works on a copy of the described source: store everything that next() changes "
                 "in members, not behind a pointer that copies share"))
      return;
    // Two copies, read alternately.
    const auto a = started(*described_, number), b = started(*described_, number);
    std::vector<source_step> got[2];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      got[0].push_back(a->next());
      got[1].push_back(b->next());
    }
    for (const auto& steps : got)
      if (complain("Copies are independent: one of two copies, read alternately in epoch " +
                       std::to_string(number) + ", yields other samples",
                   difference(expected, 0, steps),
                   "Store everything that next() changes in members, not behind a pointer that copies share"))
        return;
    if (!a->next().has_ended)
      seen_.broken("An epoch ends once: after the end of epoch " + std::to_string(number) +
                   " next() returns another sample. Return nothing from then on.");
  }
}

FEEDLINE_INLINE void hand_source_checks::indices() {
  std::map<std::uint64_t, std::size_t> items;
  for (std::uint32_t number = 0; number < options_.epochs; ++number) {
    std::map<std::uint64_t, std::size_t> of_epoch;
    const std::vector<source_step>& steps = epoch_steps(number);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const source_step& s = steps[i];
      if (s.has_ended || !s.error.empty()) continue;
      if (s.index == sample_id::no_index)
        return seen_.broken("An index identifies a sample: index() returns the largest number, which means "
                            "that there is none.");
      const bool is_new = of_epoch.emplace(s.index, s.item).second;
      if (!is_new && !options_.may_repeat)
        return seen_.broken("An index is unique in its epoch: sample " + std::to_string(i) + " of epoch " +
                            std::to_string(number) + ", " + texts_.text(s.item) + ", has the index " +
                            std::to_string(s.index) +
                            " of an earlier one. Return a different index for each sample of all files, or "
                            "set may_repeat.");
      const auto [known, is_first] = items.emplace(s.index, s.item);
      if (known->second != s.item)
        return seen_.broken("An index identifies the same sample in every epoch: " + std::to_string(s.index) +
                            " is " + texts_.text(known->second) + " at first and " + texts_.text(s.item) +
                            " in epoch " + std::to_string(number) +
                            ". Derive index() from the sample, not from its position in the epoch's order.");
    }
    if (number > 0 && !options_.epochs_differ && !options_.may_repeat && of_epoch.size() != items.size())
      return seen_.broken("Every epoch yields every sample once: epoch " + std::to_string(number) +
                          " lacks " + std::to_string(items.size() - of_epoch.size()) +
                          " samples of earlier ones. If that is intended, set epochs_differ.");
    if (number > 0 && !options_.epochs_differ && !options_.may_repeat && of_epoch.size() > 0 &&
        steps.size() != epoch_steps(0).size())
      return seen_.broken("Every epoch yields every sample once: epoch " + std::to_string(number) + " has " +
                          std::to_string(steps.size() - 1) + " samples, the first one has " +
                          std::to_string(epoch_steps(0).size() - 1) +
                          ". If that is intended, set epochs_differ.");
  }
}

FEEDLINE_INLINE void hand_source_checks::states() {
  if (!described_->has_state()) return;
  const std::uint32_t number = options_.epochs - 1;
  const std::vector<source_step>& expected = epoch_steps(number);
  for (const std::size_t at : spread(expected.size(), options_.places)) {
    seen_.doing("read the source's state before sample " + std::to_string(at));
    const std::string promise = "A source continues from its state: with the state after " +
                                std::to_string(at) + " samples, another source yields other samples";
    const auto first = started(*described_, number);
    for (std::size_t i = 0; i < at; ++i) first->next();
    const std::vector<std::uint64_t> words = first->write_state();
    const auto second = started(*make_(), number);
    std::ptrdiff_t left = 0;
    try {
      left = second->read_state(words);
    } catch (const std::exception& error) {
      return seen_.broken(promise + ": reading the state throws: " + error.what() +
                          ". Name the same members in the same order for writing and for reading.");
    }
    if (left != 0)
      return seen_.broken("A state is read as it was written: state() wrote " + std::to_string(words.size()) +
                          " words before sample " + std::to_string(at) + " and read " +
                          std::to_string(static_cast<std::ptrdiff_t>(words.size()) - left) +
                          ". Name the same members in the same order for writing and for reading.");
    if (complain(promise, difference(expected, at, read_epoch(*second)),
                 "Name everything that next() changes in state(archive); derive the rest in resumed()"))
      return;
    if (complain("Writing a state changes nothing: a source whose state was written before sample " +
                     std::to_string(at) + " yields other samples afterwards",
                 difference(expected, at, read_epoch(*first)),
                 "state() must change nothing when it is called with a state_writer"))
      return;
  }
}

FEEDLINE_INLINE void hand_source_checks::skips() {
  if (!described_->has_skip()) return;
  const std::uint32_t number = options_.epochs - 1;
  const std::vector<source_step>& expected = epoch_steps(number);
  for (const std::size_t at : spread(expected.size(), options_.places)) {
    seen_.doing("skipped " + std::to_string(at) + " samples of the source");
    const auto source = started(*described_, number);
    try {
      source->skip(at);
    } catch (const std::exception& error) {
      return seen_.broken("skip(n) acts like n calls of next(): skip(" + std::to_string(at) +
                          ") throws: " + error.what() + ".");
    }
    if (complain("skip(n) acts like n calls of next(): after skip(" + std::to_string(at) +
                     ") the source yields other samples",
                 difference(expected, at, read_epoch(*source)),
                 "skip() and next() must count the same calls"))
      return;
  }
}

FEEDLINE_INLINE void hand_source_checks::seeks() {
  if (!described_->has_seek()) return;
  const std::uint32_t number = options_.epochs - 1;
  std::map<std::uint64_t, std::size_t> wanted;
  for (const source_step& s : epoch_steps(number))
    if (!s.has_ended && s.error.empty()) wanted.emplace(s.index, s.item);
  std::vector<std::uint64_t> all;
  for (const auto& [index, item] : wanted) all.push_back(index);
  std::vector<std::vector<std::uint64_t>> walks;
  for (const std::size_t i : spread(all.size(), options_.places)) walks.push_back({all[i]});
  for (const std::size_t step : {1u, 2u, 5u}) {
    walks.emplace_back();
    for (std::size_t i = 0; i < all.size(); i += step) walks.back().push_back(all[i]);
  }
  for (const std::vector<std::uint64_t>& walk : walks) {
    const auto source = started(*described_, number);
    for (const std::uint64_t index : walk) {
      seen_.doing("called seek(" + std::to_string(index) + ")");
      const std::string promise = "After seek(index) next() soon returns that sample: seek(" +
                                  std::to_string(index) + ")" +
                                  (walk.size() == 1 ? "" : ", called after smaller indices,");
      source_step s;
      try {
        source->seek(index);
        for (std::size_t calls = 0; calls <= options_.most_items + 1; ++calls) {
          s = source->next();
          if (s.has_ended || (s.error.empty() && s.index == index)) break;
        }
      } catch (const std::exception& error) {
        return seen_.broken(promise + " throws: " + error.what() + ".");
      }
      if (s.has_ended || s.index != index)
        return seen_.broken(promise +
                            " doesn't lead to it. Go to that sample, or to one before it in its file; "
                            "seek() is called with rising indices.");
      if (s.item != wanted[index])
        return seen_.broken(promise + " leads to " + texts_.text(s.item) + " with that index, not " +
                            texts_.text(wanted[index]) + ". Go to the same sample as next() does.");
    }
  }
}

FEEDLINE_INLINE void hand_source_checks::positions() {
  if (!described_->is_indexed()) return;
  seen_.doing("read samples by their position");
  const std::vector<source_step> all = described_->at_positions(options_.most_items);
  std::map<std::uint64_t, std::size_t> items;
  for (const source_step& s : epoch_steps(0))
    if (!s.has_ended && s.error.empty()) items.emplace(s.index, s.item);
  std::uint64_t unknown = 0;
  std::size_t good = 0;
  for (std::size_t position = 0; position < all.size(); ++position) {
    const source_step& s = all[position];
    unknown = std::max(unknown, s.index + 1);
    const std::string what =
        "at(position) and next() return the same samples: position " + std::to_string(position);
    const auto known = items.find(s.index);
    if (!s.error.empty() && known != items.end())
      return seen_.broken(what + ", with the index " + std::to_string(s.index) + ", is " + s.error +
                          ", but next() returned " + texts_.text(known->second) +
                          " with that index. Make both agree.");
    if (s.error.empty() && known == items.end())
      return seen_.broken(what + " has the index " + std::to_string(s.index) +
                          ", which next() never returned. Make index_at() and index() agree.");
    if (s.error.empty() && known->second != s.item)
      return seen_.broken(what + ", with the index " + std::to_string(s.index) + ", is " +
                          texts_.text(s.item) + ", but next() returned " + texts_.text(known->second) +
                          " with that index. Make both agree.");
    good += s.error.empty();
    const auto found = described_->find(s.index);
    if (found != position)
      return seen_.broken("find(index) returns the position of that index: find(" + std::to_string(s.index) +
                          ") is " + (found ? std::to_string(*found) : "nothing") + ", not " +
                          std::to_string(position) + ". find() must be the inverse of index_at().");
  }
  if (!options_.may_repeat && good != items.size())
    return seen_.broken("at(position) and next() return the same samples: " + std::to_string(good) +
                        " positions can be read, but next() returned " + std::to_string(items.size()) +
                        " samples. size() must count the samples of an epoch.");
  if (described_->find(unknown))
    return seen_.broken("find(index) returns the position of that index: find(" + std::to_string(unknown) +
                        ") is a position, though no sample has that index. Return nothing for it.");
  const std::vector<source_step> again = described_->at_positions(options_.most_items);
  for (std::size_t position = 0; position < std::min(all.size(), again.size()); ++position)
    if (!(all[position] == again[position]))
      return seen_.broken("at(position) returns the same sample each time: at position " +
                          std::to_string(position) + " it returned " + text(all[position]) + ", then " +
                          text(again[position]) + ".");
}

FEEDLINE_INLINE void hand_source_checks::descriptions() {
  seen_.doing("asked for origins, the extent and the fingerprint");
  for (const source_step& s : epoch_steps(0)) {
    if (s.has_ended || !s.error.empty()) continue;
    try {
      described_->origin(s.index);
    } catch (const std::exception& error) {
      return seen_.broken("origin(index) names every sample: for index " + std::to_string(s.index) +
                          " it throws: " + error.what() +
                          ". It is called on the described source, whose start_epoch() was not called.");
    }
  }
  const auto read = started(*described_, 0);
  read_epoch(*read);
  if (const auto largest = described_->max_item_bytes();
      largest && read->largest_given() > *largest + inside_short_text)
    return seen_.broken("max_item_bytes() is the most bytes that a sample takes: it is " +
                        std::to_string(*largest) + ", but one takes " +
                        std::to_string(read->largest_given()) +
                        " in all. Return more, or nothing if the size isn't known.");
  const auto other = make_();
  if (described_->extent() != other->extent() || described_->fingerprint() != other->fingerprint())
    return seen_.broken(
        "A fingerprint is the same in another process: two sources of the same data have different "
        "extents or fingerprints. Derive them from the data, not from addresses or time.");
}

FEEDLINE_INLINE source_run_checks::source_run_checks(any_runs& runs, observed& seen,
                                                     const check_options& options)
    : runs_(runs), seen_(seen), options_(options), checks_(runs, seen, options, "source") {}

FEEDLINE_INLINE void source_run_checks::given(const std::vector<std::vector<source_step>>& epochs) {
  std::vector<std::pair<std::uint64_t, std::size_t>> expected, got;
  std::size_t failures = 0, skipped = 0;
  for (const auto& steps : epochs)
    for (const source_step& s : steps)
      if (!s.error.empty()) ++failures;
      else if (!s.has_ended) expected.emplace_back(s.index, s.item);
  if (failures > 0) checks_.expect_failures();
  for (const step& s : checks_.reference()) {
    if (s.is == step::kind::item) got.emplace_back(s.id.index, s.item);
    skipped += s.skipped.size();
    if (s.is != step::kind::error) continue;
    return seen_.broken("A run yields what its source yields: a finite run ends with the error \"" +
                        s.message + "\", but next() throws no such error when it is called directly.");
  }
  if (skipped != failures)
    return seen_.broken("A run yields what its source yields: next() throws " + std::to_string(failures) +
                        " times when it is called for one epoch after another, but a finite run reports " +
                        std::to_string(skipped) + " failures. Failures may depend on the sample alone.");
  if (expected != got)
    seen_.broken(
        "A run yields what its source yields: a finite run of " + std::to_string(options_.epochs) +
        " epochs yields other samples than start_epoch() and next() do when they are called for one "
        "epoch after another. Nothing may depend on time, on the calling thread or on earlier epochs.");
}

FEEDLINE_INLINE void source_run_checks::failures() {
  const std::vector<step>& all = checks_.reference();
  run_order skipping = checks_.order();
  skipping.on_error = on_error::skip;
  const std::vector<step> all_skipping = checks_.run(skipping);
  for (const std::size_t at : spread(all.size() - 1, options_.places)) {
    if (all[at].is != step::kind::item) continue;
    const occasion fails{all[at].id.index, all[at].id.epoch};
    if (!checks_.continues_once_mended(fails, "downstream of the source")) return;
    const std::string what = text_of_occasion(fails) + " fails downstream of the source and is skipped";
    seen_.doing("let " + what);
    run_order o = skipping;
    o.upstream = 2;
    o.fails = fails;
    std::vector<step> expected, got = checks_.run(o);
    for (const step& s : all_skipping)
      if (s.is != step::kind::item || !(occasion{s.id.index, s.id.epoch} == fails)) expected.push_back(s);
    const std::vector<occasion> skipped = take_skipped(got);
    take_skipped(expected);
    if (checks_.complain(expected, got, "A failure affects no other item: if " + what + ", the rest differs",
                         "index() must be that of the sample that next() returned last"))
      return;
    if (std::count(skipped.begin(), skipped.end(), fails) == 0 && all.back().is == step::kind::end)
      return seen_.broken("A failure is named: if " + what + ", the run reports " +
                          std::to_string(skipped.size()) + " skipped samples.");
  }
}

FEEDLINE_INLINE void source_run_checks::ranks() {
  if (options_.may_repeat || options_.epochs_differ || checks_.reference().back().is != step::kind::end)
    return;
  std::map<std::pair<std::uint64_t, std::uint32_t>, int> expected;
  for (const step& s : checks_.reference())
    if (s.is == step::kind::item) ++expected[{s.id.index, s.id.epoch}];
  for (const bool by_sample : {false, true})
    for (const std::uint32_t count : {2u, 3u}) {
      const std::string ranks = std::to_string(count) + (by_sample ? " with by_sample" : "");
      const std::string advice = by_sample
                                     ? "If epoch::rank has by_sample, a source must yield all its samples."
                                     : "Every rank must compute the same order of an epoch.";
      auto left = expected;
      for (std::uint32_t number = 0; number < count; ++number) {
        const std::string where = "rank " + std::to_string(number) + " of " + ranks;
        seen_.doing("ran " + where);
        run_order o = checks_.order();
        o.rank = {
            .number = number, .world_size = count, .remainder = remainder::keep, .by_sample = by_sample};
        for (const step& s : checks_.run(o)) {
          if (s.is == step::kind::error)
            return seen_.broken("Ranks divide each epoch: " + where + " fails with " + s.message + ".");
          if (s.is == step::kind::item && --left[{s.id.index, s.id.epoch}] < 0)
            return seen_.broken("Ranks divide each epoch: " + where + " yields " +
                                text_of_step(s, runs_.texts()) + ", which another rank yields too. " +
                                advice);
        }
      }
      for (const auto& [id, times] : left)
        if (times > 0)
          return seen_.broken("Ranks divide each epoch: no rank of " + ranks + " yields " +
                              text_of_occasion({id.first, id.second}) + ". " + advice);
    }
}

} // namespace feedline::inline FEEDLINE_ABI::testing::detail
#endif
