// SPDX-License-Identifier: MIT
#pragma once
// check_source: checks that a source keeps the promises of pipelines that begin with it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>
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
/// Example: `fl::testing::check_source([] { return matrix_rows("small.matrix"); })`
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

#ifndef FEEDLINE_COMPILED
#include <feedline/testing/check_source.ipp>
#endif
