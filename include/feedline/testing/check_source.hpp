// SPDX-License-Identifier: MIT
#pragma once
// check_source: runs a source through what the library promises of pipelines that begin with it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing/check_options.hpp>
#include <feedline/testing/detail/items.hpp>
#include <feedline/testing/detail/observed.hpp>
#include <feedline/testing/detail/runs.hpp>

namespace feedline::inline v0::testing {

namespace detail {

/// What a call of a source's next() gives.
struct source_step {
  bool has_ended = false;
  std::string error; // empty: there is an item
  std::size_t item = 0;
  std::uint64_t index = 0;

  friend bool operator==(const source_step&, const source_step&) = default;
};

/// A source that is called without a run, whose type nobody here knows.
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
  /// How many words it did not read; negative: it read more than there were.
  virtual std::ptrdiff_t read_state(std::vector<std::uint64_t> words) = 0;
  virtual bool has_go_near() const = 0;
  virtual void go_near(std::uint64_t index) = 0;

  virtual std::string origin(std::uint64_t index) const = 0;
  virtual std::uint64_t extent() const = 0;
  virtual std::uint64_t fingerprint() const = 0;
  virtual std::optional<std::size_t> largest_item() const = 0;
  /// Of the samples that it has given, what the largest one takes.
  virtual std::size_t largest_given() const = 0;

  virtual bool is_indexed() const = 0;
  /// The samples by place: (index, item).
  virtual std::vector<source_step> at_places(std::size_t most) const = 0;
  virtual std::optional<std::uint64_t> find(std::uint64_t index) const = 0;
};

/// The characters of a short string lie in it, but are counted as if beside it.
inline constexpr std::size_t inside_short_text = 16;

/// Reads a state; words that are asked for beyond the end count as negative.
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

  bool has_go_near() const override { return goes_near; }

  void go_near(std::uint64_t index) override {
    if constexpr (goes_near) source_.go_near(index);
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

  std::optional<std::size_t> largest_item() const override {
    if constexpr (requires { source_.largest_item(); })
      return feedline::detail::announced_bytes<source_item_t<Source>>(source_.largest_item());
    else return std::nullopt;
  }

  std::size_t largest_given() const override { return largest_given_; }

  bool is_indexed() const override { return indexed_source<Source>; }

  std::vector<source_step> at_places(std::size_t most) const override {
    std::vector<source_step> all;
    if constexpr (indexed_source<Source>) {
      const auto samples = feedline::detail::indexed(source_);
      for (std::uint64_t place = 0; place < samples.size() && all.size() < most; ++place) {
        source_step& s = all.emplace_back();
        try {
          s.index = feedline::detail::index_at(samples, place);
          s.item = table_->number_of(samples.at(place));
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
  static constexpr bool goes_near = requires(Source& s) { s.go_near(0u); };

  Source source_;
  std::shared_ptr<Table> table_;
  std::uint64_t given_ = 0;
  std::size_t largest_given_ = 0;
};

/// Makes a source as it was described.
class hand_sources {
 public:
  virtual ~hand_sources() = default;
  virtual std::unique_ptr<hand_source> make() = 0;
};

template <class Make, class Table>
class typed_hand_sources final : public hand_sources {
 public:
  typed_hand_sources(Make make, std::shared_ptr<Table> table)
      : make_(std::move(make)), table_(std::move(table)) {}

  std::unique_ptr<hand_source> make() override {
    auto source = feedline::detail::as_pipeline(make_()).source();
    return std::make_unique<typed_hand_source<decltype(source), Table>>(std::move(source), table_);
  }

 private:
  Make make_;
  std::shared_ptr<Table> table_;
};

/// The promises that can be seen without a run.
class hand_source_checks {
 public:
  hand_source_checks(hand_sources& sources, const item_texts& texts, observed& seen,
                     const check_options& options)
      : sources_(sources), texts_(texts), seen_(seen), options_(options) {}

  /// What an epoch gives.
  const std::vector<source_step>& epoch_steps(std::uint32_t number) {
    std::vector<source_step>& steps = epochs_[number];
    if (steps.empty()) {
      seen_.doing("read epoch " + std::to_string(number) + " of the source");
      const auto described = sources_.make();
      steps = read_epoch(*started(*described, number));
    }
    return steps;
  }

  void all() {
    described_ = sources_.make();
    same_again();
    if (!seen_.is_whole()) return; // nothing else would be as it seems
    indices();
    states();
    skips();
    nears();
    places();
    descriptions();
  }

 private:
  // As a run with several epochs starts it.
  epoch make_epoch(std::uint32_t number) const {
    epoch e;
    e.seed = options_.seed;
    e.number = number;
    e.shuffled = true;
    return e;
  }

  std::unique_ptr<hand_source> started(const hand_source& described, std::uint32_t number) const {
    auto source = described.copy();
    source->start(make_epoch(number));
    return source;
  }

  std::vector<source_step> read_epoch(hand_source& source) const {
    std::vector<source_step> all;
    while (all.empty() || !all.back().has_ended) {
      if (all.size() > options_.most_items)
        throw std::invalid_argument(
            "feedline::testing: the source gives more than " + std::to_string(options_.most_items) +
            " samples in an epoch: make a smaller one for the check, or raise most_items");
      all.push_back(source.next());
    }
    return all;
  }

  std::string text(const source_step& s) const {
    if (s.has_ended) return "the end";
    if (!s.error.empty()) return s.error;
    return texts_.text(s.item) + " with the index " + std::to_string(s.index);
  }

  // Empty, or where they differ.
  std::string difference(const std::vector<source_step>& expected, std::size_t first,
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

  bool complain(const std::string& promise, const std::string& what, const std::string& advice) {
    if (!what.empty()) seen_.broken(promise + ": " + what + ". " + advice + ".");
    return !what.empty();
  }

  void same_again() {
    for (std::uint32_t number = 0; number < options_.epochs; ++number) {
      const std::vector<source_step>& expected = epoch_steps(number);
      const std::string where = ", read in epoch " + std::to_string(number) + ", gives others";
      seen_.doing("read an epoch of the source again");
      const auto again = sources_.make();
      if (complain(
              "The same seed gives the same items: a second source" + where,
              difference(expected, 0, read_epoch(*started(*again, number))),
              "Key the order by the epoch's seed and number, and let nothing depend on time or on addresses"))
        return;
      if (complain("Copies are independent: the same source, copied once more" + where,
                   difference(expected, 0, read_epoch(*started(*again, number))),
                   "Each epoch works on a copy of the described source: what next() changes must be a "
                   "member, not behind a "
                   "pointer that copies share"))
        return;
      // Two copies in turn.
      const auto a = started(*described_, number), b = started(*described_, number);
      std::vector<source_step> got[2];
      for (std::size_t i = 0; i < expected.size(); ++i) {
        got[0].push_back(a->next());
        got[1].push_back(b->next());
      }
      for (const auto& steps : got)
        if (complain("Copies are independent: one of two copies, read in turn in epoch " +
                         std::to_string(number) + ", gives others",
                     difference(expected, 0, steps),
                     "What next() changes must be a member, not behind a pointer that copies share"))
          return;
      if (!a->next().has_ended)
        seen_.broken("An epoch ends once: after the end of epoch " + std::to_string(number) +
                     " next() gives " + "another sample. Let it give nothing from then on.");
    }
  }

  void indices() {
    std::map<std::uint64_t, std::size_t> items;
    for (std::uint32_t number = 0; number < options_.epochs; ++number) {
      std::map<std::uint64_t, std::size_t> of_epoch;
      const std::vector<source_step>& steps = epoch_steps(number);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const source_step& s = steps[i];
        if (s.has_ended || !s.error.empty()) continue;
        if (s.index == sample_id::no_index)
          return seen_.broken(
              "An index names a sample: index() is the largest number there is, which means none.");
        const bool is_new = of_epoch.emplace(s.index, s.item).second;
        if (!is_new && !options_.may_repeat)
          return seen_.broken(
              "An index is unique in its epoch: sample " + std::to_string(i) + " of epoch " +
              std::to_string(number) + ", " + texts_.text(s.item) + ", has the index " +
              std::to_string(s.index) +
              " of an earlier one. Let index() tell samples apart over all files, or set may_repeat.");
        const auto [known, is_first] = items.emplace(s.index, s.item);
        if (known->second != s.item)
          return seen_.broken(
              "An index is the same sample in every epoch: " + std::to_string(s.index) + " is " +
              texts_.text(known->second) + " first and " + texts_.text(s.item) + " in epoch " +
              std::to_string(number) +
              ". Let index() follow from the sample, not from its place in the epoch's order.");
      }
      if (number > 0 && !options_.epochs_differ && !options_.may_repeat && of_epoch.size() != items.size())
        return seen_.broken("Every epoch gives every sample once: epoch " + std::to_string(number) +
                            " lacks " + std::to_string(items.size() - of_epoch.size()) +
                            " samples of earlier ones. Set epochs_differ if that is meant.");
      if (number > 0 && !options_.epochs_differ && !options_.may_repeat && of_epoch.size() > 0 &&
          steps.size() != epoch_steps(0).size())
        return seen_.broken("Every epoch gives every sample once: epoch " + std::to_string(number) + " has " +
                            std::to_string(steps.size() - 1) + " samples, the first one has " +
                            std::to_string(epoch_steps(0).size() - 1) +
                            ". Set epochs_differ if that is meant.");
    }
  }

  void states() {
    if (!described_->has_state()) return;
    const std::uint32_t number = options_.epochs - 1;
    const std::vector<source_step>& expected = epoch_steps(number);
    for (const std::size_t at : spread(expected.size(), options_.places)) {
      seen_.doing("read the source's state before sample " + std::to_string(at));
      const std::string promise = "A source goes on where its state says: with that of a source that gave " +
                                  std::to_string(at) + " samples, another one gives others";
      const auto first = started(*described_, number);
      for (std::size_t i = 0; i < at; ++i) first->next();
      const std::vector<std::uint64_t> words = first->write_state();
      const auto second = started(*sources_.make(), number);
      std::ptrdiff_t left = 0;
      try {
        left = second->read_state(words);
      } catch (const std::exception& error) {
        return seen_.broken(promise + ": reading it throws: " + error.what() +
                            ". Name the same members in the same order in both directions.");
      }
      if (left != 0)
        return seen_.broken("A state is read as it was written: state() wrote " +
                            std::to_string(words.size()) + " words before sample " + std::to_string(at) +
                            " and read " + std::to_string(static_cast<std::ptrdiff_t>(words.size()) - left) +
                            ". Name the same members in the same order in both directions.");
      if (complain(promise, difference(expected, at, read_epoch(*second)),
                   "Name all that next() changes in state(archive); resumed() restores what follows from it"))
        return;
      if (complain("A state is only looked at: a source whose state was taken down before sample " +
                       std::to_string(at) + " gives others afterwards",
                   difference(expected, at, read_epoch(*first)),
                   "Let state() change nothing when it is called with a state_writer"))
        return;
    }
  }

  void skips() {
    if (!described_->has_skip()) return;
    const std::uint32_t number = options_.epochs - 1;
    const std::vector<source_step>& expected = epoch_steps(number);
    for (const std::size_t at : spread(expected.size(), options_.places)) {
      seen_.doing("skipped " + std::to_string(at) + " samples of the source");
      const auto source = started(*described_, number);
      try {
        source->skip(at);
      } catch (const std::exception& error) {
        return seen_.broken("skip(n) goes on as n calls of next() would: skip(" + std::to_string(at) +
                            ") throws: " + error.what() + ".");
      }
      if (complain("skip(n) goes on as n calls of next() would: after skip(" + std::to_string(at) +
                       ") come others",
                   difference(expected, at, read_epoch(*source)),
                   "Let skip() and next() count the same calls"))
        return;
    }
  }

  void nears() {
    if (!described_->has_go_near()) return;
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
        seen_.doing("went near sample " + std::to_string(index));
        const std::string promise = "go_near(index) makes next() give that sample before long: go_near(" +
                                    std::to_string(index) + ")" +
                                    (walk.size() == 1 ? "" : ", after others by rising index,");
        source_step s;
        try {
          source->go_near(index);
          for (std::size_t calls = 0; calls <= options_.most_items + 1; ++calls) {
            s = source->next();
            if (s.has_ended || (s.error.empty() && s.index == index)) break;
          }
        } catch (const std::exception& error) {
          return seen_.broken(promise + " throws: " + error.what() + ".");
        }
        if (s.has_ended || s.index != index)
          return seen_.broken(promise + " is not followed by it. Go to that sample, or before it in its "
                                        "file; indices come in rising order.");
        if (s.item != wanted[index])
          return seen_.broken(promise + " is followed by " + texts_.text(s.item) + " with that index, not " +
                              texts_.text(wanted[index]) + ". Let it go to the same sample as next() does.");
      }
    }
  }

  void places() {
    if (!described_->is_indexed()) return;
    seen_.doing("asked for samples by their place");
    const std::vector<source_step> all = described_->at_places(options_.most_items);
    std::map<std::uint64_t, std::size_t> items;
    for (const source_step& s : epoch_steps(0))
      if (!s.has_ended && s.error.empty()) items.emplace(s.index, s.item);
    std::uint64_t unknown = 0;
    std::size_t good = 0;
    for (std::size_t place = 0; place < all.size(); ++place) {
      const source_step& s = all[place];
      unknown = std::max(unknown, s.index + 1);
      const std::string where = "place " + std::to_string(place);
      const auto known = items.find(s.index);
      if (!s.error.empty() && known != items.end())
        return seen_.broken("at(place) gives the samples that next() gives: that of " + where + ", " +
                            texts_.text(known->second) + " with the index " + std::to_string(s.index) +
                            ", is " + s.error + ". Let both agree.");
      if (s.error.empty() && known == items.end())
        return seen_.broken("at(place) gives the samples that next() gives: that of " + where +
                            " has the index " + std::to_string(s.index) +
                            ", which next() never gave. Let index_at() and index() agree.");
      if (s.error.empty() && known->second != s.item)
        return seen_.broken("at(place) gives the samples that next() gives: at " + where +
                            ", with the index " + std::to_string(s.index) + ", is " + texts_.text(s.item) +
                            ", while next() gave " + texts_.text(known->second) +
                            " with that index. Let both agree.");
      good += s.error.empty();
      const auto found = described_->find(s.index);
      if (found != place)
        return seen_.broken("find(index) is the place with that index: find(" + std::to_string(s.index) +
                            ") is " + (found ? std::to_string(*found) : "nothing") + ", not " +
                            std::to_string(place) + ". Let find() undo index_at().");
    }
    if (!options_.may_repeat && good != items.size())
      return seen_.broken("at(place) gives the samples that next() gives: " + std::to_string(good) +
                          " places can be read, " + std::to_string(items.size()) +
                          " samples come of next(). Let size() count what an epoch gives.");
    if (described_->find(unknown))
      return seen_.broken("find(index) is the place with that index: find(" + std::to_string(unknown) +
                          ") is a place, though no sample has that index. Let it give nothing there.");
    const std::vector<source_step> again = described_->at_places(options_.most_items);
    for (std::size_t place = 0; place < std::min(all.size(), again.size()); ++place)
      if (!(all[place] == again[place]))
        return seen_.broken("at(place) gives the same each time: at place " + std::to_string(place) +
                            " it gave " + text(all[place]) + ", then " + text(again[place]) + ".");
  }

  void descriptions() {
    seen_.doing("asked for origins, the extent and the fingerprint");
    for (const source_step& s : epoch_steps(0)) {
      if (s.has_ended || !s.error.empty()) continue;
      try {
        described_->origin(s.index);
      } catch (const std::exception& error) {
        return seen_.broken("origin(index) names every sample: for index " + std::to_string(s.index) +
                            " it throws: " + error.what() +
                            ". It is called on the described source, on which start_epoch() was not called.");
      }
    }
    const auto read = started(*described_, 0);
    read_epoch(*read);
    if (const auto largest = described_->largest_item();
        largest && read->largest_given() > *largest + inside_short_text)
      return seen_.broken(
          "largest_item() is the most bytes that a sample takes: it is " + std::to_string(*largest) +
          ", but one takes " + std::to_string(read->largest_given()) +
          ", with all that belongs to it. Let it be more, or give nothing where it isn't known.");
    const auto other = sources_.make();
    if (described_->extent() != other->extent() || described_->fingerprint() != other->fingerprint())
      return seen_.broken(
          "A fingerprint is the same in another process: two sources of the same data have other extents or "
          "fingerprints. Let them follow from the data, not from addresses or time.");
  }

  hand_sources& sources_;
  const item_texts& texts_;
  observed& seen_;
  const check_options& options_;
  std::unique_ptr<hand_source> described_;
  std::map<std::uint32_t, std::vector<source_step>> epochs_;
};

/// The map that stands downstream of a source.
struct look_at_source {
  template <class T>
  seen<T> operator()(T item, context& c) const {
    if (fails && fails->index == c.index && fails->epoch == c.epoch) throw planned_failure();
    return {std::move(item), {c.index, c.part, c.epoch}};
  }

  std::optional<occasion> fails;
};

/// source | map | shuffle, of which one with room for one item changes nothing.
template <class Make>
struct downstream_of_source {
  auto operator()(const run_order& o) {
    auto described = feedline::detail::as_pipeline(make());
    using item = source_item_t<std::remove_cvref_t<decltype(described.source())>>;
    feedline::largest_item largest;
    if constexpr (requires { described.source().largest_item(); })
      if (const std::optional<std::size_t> bytes = described.source().largest_item())
        largest.bytes = *bytes + inside_short_text + sizeof(seen<item>) - sizeof(item);
    return std::move(described) | map(look_at_source{o.fails}, feedline::workers{o.upstream}, largest) |
           shuffle({.capacity = o.buffer});
  }

  Make make;
};

/// What only a source promises of its runs.
class source_run_checks {
 public:
  source_run_checks(any_runs& runs, observed& seen, const check_options& options)
      : runs_(runs), seen_(seen), options_(options), checks_(runs, seen, options, "source") {}

  void all() {
    checks_.all();
    checks_.resumes(true, 4);
    checks_.resumes(false, 4);
    failures();
    ranks();
  }

  /// A finite run gives what next() gives, epoch by epoch.
  void given(const std::vector<std::vector<source_step>>& epochs) {
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
      return seen_.broken("A run gives what its source gives: a finite run ends with the error \"" +
                          s.message + "\", though next() throws nothing like it when it is called directly.");
    }
    if (skipped != failures)
      return seen_.broken(
          "A run gives what its source gives: next() throws " + std::to_string(failures) +
          " times when it is called for one epoch after another, while a finite run tells of " +
          std::to_string(skipped) + " failures. Let what fails depend on nothing but the sample.");
    if (expected != got)
      seen_.broken("A run gives what its source gives: a finite run of " + std::to_string(options_.epochs) +
                   " epochs gives other samples than start_epoch() and next() do when they are called for "
                   "one epoch after "
                   "another. Let nothing depend on time, on the thread that calls or on earlier epochs.");
  }

 private:
  void failures() {
    const std::vector<step>& all = checks_.reference();
    run_order skipping = checks_.order();
    skipping.on_error = on_error::skip;
    const std::vector<step> all_skipping = checks_.run(skipping);
    for (const std::size_t at : spread(all.size() - 1, options_.places)) {
      if (all[at].is != step::kind::item) continue;
      const occasion fails{all[at].id.index, all[at].id.epoch};
      const auto matches = [&](const step& s) {
        return s.is == step::kind::item && occasion{s.id.index, s.id.epoch} == fails;
      };
      for (const on_error how : {on_error::skip, on_error::fail}) {
        const bool skips = how == on_error::skip;
        const std::string what = text_of_occasion(fails) + " fails downstream of the source";
        seen_.doing("let " + text_of_occasion(fails) + " fail");
        run_order o = checks_.order();
        o.upstream = 2;
        o.on_error = how;
        o.fails = fails;
        std::vector<step> expected, got = checks_.run(o);
        bool is_reached = skips; // rather than a sample before it that the source itself fails for
        for (const step& s : skips ? all_skipping : all) {
          if (!skips && !s.skipped.empty()) break;
          if (!matches(s)) {
            expected.push_back(s);
          } else if (!skips) {
            is_reached = true;
            break;
          }
        }
        std::vector<occasion> skipped;
        for (step& s : got) {
          skipped.insert(skipped.end(), s.skipped.begin(), s.skipped.end());
          s.skipped.clear();
        }
        for (step& s : expected) s.skipped.clear();
        step error;
        if (!skips && !got.empty() && got.back().is == step::kind::error) {
          error = got.back();
          got.pop_back();
        }
        if (checks_.complain(
                expected, got,
                std::string("A failure takes nothing else with it: where ") + what +
                    (skips ? " and is skipped, the rest is not the same" : ", other items come before it"),
                "Let index() be that of the sample that next() gave last"))
          return;
        const bool is_named =
            skips ? std::count(skipped.begin(), skipped.end(), fails) > 0 : error.failed == fails;
        if (!is_named && is_reached && all.back().is == step::kind::end)
          return seen_.broken(
              "A failure is named: where " + what + ", the run tells of " +
              (skips ? std::to_string(skipped.size()) + " skipped samples" : "\"" + error.message + "\"") +
              ".");
      }
    }
  }

  void ranks() {
    if (options_.may_repeat || options_.epochs_differ || checks_.reference().back().is != step::kind::end)
      return;
    std::map<std::pair<std::uint64_t, std::uint32_t>, int> expected;
    for (const step& s : checks_.reference())
      if (s.is == step::kind::item) ++expected[{s.id.index, s.id.epoch}];
    for (const std::uint32_t count : {2u, 3u}) {
      auto left = expected;
      for (std::uint32_t number = 0; number < count; ++number) {
        seen_.doing("ran rank " + std::to_string(number) + " of " + std::to_string(count));
        run_order o = checks_.order();
        o.rank = {number, count, uneven::keep};
        for (const step& s : checks_.run(o)) {
          const std::string where = "rank " + std::to_string(number) + " of " + std::to_string(count);
          if (s.is == step::kind::error)
            return seen_.broken("Ranks share out each epoch: " + where + " fails with " + s.message + ".");
          if (s.is == step::kind::item && --left[{s.id.index, s.id.epoch}] < 0)
            return seen_.broken(
                "Ranks share out each epoch: " + where + " gives " + text_of_step(s, runs_.texts()) +
                ", which another rank gave, too. Let every rank work out the same order of an epoch.");
        }
      }
      for (const auto& [id, times] : left)
        if (times > 0)
          return seen_.broken("Ranks share out each epoch: none of " + std::to_string(count) + " gives " +
                              text_of_occasion({id.first, id.second}) +
                              ". Let every rank work out the same order of an epoch.");
    }
  }

  any_runs& runs_;
  observed& seen_;
  const check_options& options_;
  run_checks checks_;
};

} // namespace detail

/// Runs a source of your own through what the library promises to those who use it: the same samples with any number of
/// workers, exact checkpoints, whole epochs, ends at any moment, failures in their place. Returns if they hold.
///
/// It calls the source itself first (copies, index(), state(), skip(), go_near(), at(), find(), origin()), and, if that is
/// as it must be, runs pipelines that begin with it. Take a small data set, of 10 to 50 samples: every place of it is
/// tried.
///
/// Takes:   a function that makes the source as another process would, the same each time it is called: a class with
///          next(), one with size() and at(), or what from(), mix() and the like give; check_options; and a projection,
///          where samples have no operator==. All three are copied, and called from a thread of the check's own
/// Throws:  broken_promise, whose what() has a sentence for each promise that is broken; std::invalid_argument for a
///          source that gives more samples than options.most_items
/// Example: `fl::testing::check_source([] { return matrix_rows("small.matrix"); })`
template <class Make, class Project = as_it_is>
void check_source(Make make, const check_options& options = {}, Project project = {}) {
  using pipeline_type = decltype(feedline::detail::as_pipeline(make()));
  using table_type = detail::item_table<typename pipeline_type::item, Project>;
  detail::run_observed(options.patience, [make = std::move(make), options,
                                          project = std::move(project)](detail::observed& seen) {
    const auto table = std::make_shared<table_type>(project);
    detail::typed_hand_sources<Make, table_type> sources(make, table);
    detail::hand_source_checks by_hand(sources, *table, seen, options);
    by_hand.all();
    if (!seen.is_whole()) return;
    std::vector<std::vector<detail::source_step>> epochs;
    for (std::uint32_t number = 0; number < options.epochs; ++number)
      epochs.push_back(by_hand.epoch_steps(number));
    detail::typed_runs<detail::downstream_of_source<Make>, table_type> runs(
        detail::downstream_of_source<Make>{make}, table);
    detail::source_run_checks by_runs(runs, seen, options);
    by_runs.given(epochs);
    by_runs.all();
  });
}

} // namespace feedline::inline v0::testing
