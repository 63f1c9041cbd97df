// SPDX-License-Identifier: MIT
#pragma once
// Runs of one pipeline whose type is hidden, and the promises of sources and stages alike.
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/testing/check_options.hpp>
#include <feedline/testing/detail/items.hpp>
#include <feedline/testing/detail/observed.hpp>

namespace feedline::inline FEEDLINE_ABI::testing::detail {

/// A sample in an epoch.
struct occasion {
  std::uint64_t index = sample_id::no_index;
  std::uint32_t epoch = 0;

  friend bool operator==(const occasion&, const occasion&) = default;
};

std::string text_of_occasion(const occasion& o);

/// The result of a call of next().
struct step {
  enum class kind { item, end, error };

  kind is = kind::item;
  std::size_t item = 0;          // its number in the table
  sample_id id;                  // of the item
  occasion failed;               // of an error
  std::string message;           // of an error
  std::vector<occasion> skipped; // before the item

  friend bool operator==(const step&, const step&) = default;
};

/// The options of a run.
struct run_order {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  bool finite = true;
  std::uint32_t epochs = 2;
  std::uint64_t seed = 1;
  std::size_t upstream = 1; // workers
  std::size_t downstream = 1;
  std::size_t buffer = 1; // of a shuffle
  std::size_t queue = 0;
  std::size_t budget = 0;
  feedline::on_error on_error = feedline::on_error::fail;
  feedline::rank rank{};
  std::optional<occasion> fails;    // in a map upstream
  std::optional<occasion> left_out; // of the inputs
  std::uint32_t last_epoch = none;  // in which the inputs fail
  bool without_inputs = false;
  const std::vector<std::byte>* resume = nullptr;
};

class any_run {
 public:
  virtual ~any_run() = default;
  virtual step next() = 0;
  virtual void stop() = 0;
  virtual std::vector<std::byte> checkpoint() const = 0;
};

/// Starts runs, each with newly made parts, as another process would.
class any_runs {
 public:
  virtual ~any_runs() = default;
  virtual std::unique_ptr<any_run> start(const run_order& order) = 0;
  /// Two runs of one pipeline, which share whatever its copies share.
  virtual std::pair<std::unique_ptr<any_run>, std::unique_ptr<any_run>> start_two(const run_order& order) = 0;
  virtual memory_plan memory(const run_order& order) = 0;
  virtual const item_texts& texts() const = 0;
};

/// Thrown by the map upstream of a stage, or downstream of a source, where the check needs a failure.
struct planned_failure : std::runtime_error {
  planned_failure();
};

/// An item with its identity.
template <class T>
struct seen {
  T value;
  sample_id id;
};

template <class Loader, class Table>
class typed_run final : public any_run {
 public:
  typed_run(Loader loader, std::shared_ptr<Table> table)
      : table_(std::move(table)), loader_(std::move(loader)) {}

  step next() override {
    step s;
    const std::size_t before = loader_.failures().size();
    try {
      if (const auto got = loader_.next()) {
        s.item = table_->number_of(got->value);
        s.id = got->id;
      } else {
        s.is = step::kind::end;
      }
    } catch (const pipeline_error& error) {
      s.is = step::kind::error;
      s.failed = {error.failure().index, error.failure().epoch};
      s.message = error.what();
    } catch (const std::exception& error) {
      s.is = step::kind::error;
      s.message = error.what();
    }
    for (std::size_t i = before; i < loader_.failures().size(); ++i)
      s.skipped.push_back({loader_.failures()[i].index, loader_.failures()[i].epoch});
    return s;
  }

  void stop() override { loader_.stop(); }

  std::vector<std::byte> checkpoint() const override { return loader_.checkpoint().to_bytes(); }

 private:
  std::shared_ptr<Table> table_;
  Loader loader_;
};

/// `Assemble`: makes the pipeline for an order.
template <class Assemble, class Table>
class typed_runs final : public any_runs {
 public:
  typed_runs(Assemble assemble, std::shared_ptr<Table> table)
      : assemble_(std::move(assemble)), table_(std::move(table)) {}

  std::unique_ptr<any_run> start(const run_order& order) override {
    return start_one(assemble_(order), order);
  }

  std::pair<std::unique_ptr<any_run>, std::unique_ptr<any_run>> start_two(const run_order& order) override {
    const auto pipeline = assemble_(order);
    const callback<std::string> same_order([](const std::string&) {}); // the second one is meant to repeat it
    auto first = start_one(pipeline, order, same_order);
    return {std::move(first), start_one(pipeline, order, same_order)};
  }

  memory_plan memory(const run_order& order) override { return assemble_(order).memory(infinite_of(order)); }

  const item_texts& texts() const override { return *table_; }

 private:
  using pipeline_type = decltype(std::declval<Assemble&>()(std::declval<const run_order&>()));
  using run_type = typed_run<loader_of<pipeline_type>, Table>;

  std::unique_ptr<any_run> start_one(const pipeline_type& pipeline, const run_order& o,
                                     const callback<std::string>& on_notice = {}) {
    if (!o.finite) return std::make_unique<run_type>(pipeline.infinite(infinite_of(o)), table_);
    const infinite_options i = infinite_of(o);
    return std::make_unique<run_type>(pipeline.finite({.seed = i.seed,
                                                       .epochs = o.epochs,
                                                       .on_error = i.on_error,
                                                       .queue_capacity = i.queue_capacity,
                                                       .memory_budget = i.memory_budget,
                                                       .rank = i.rank,
                                                       .resume = i.resume,
                                                       .on_notice = on_notice}),
                                      table_);
  }

  static infinite_options infinite_of(const run_order& o) {
    infinite_options options{.seed = o.seed,
                             .on_error = o.on_error,
                             .queue_capacity = o.queue,
                             .memory_budget = o.budget,
                             .rank = o.rank};
    if (o.resume) options.resume = checkpoint::from_bytes(*o.resume);
    return options;
  }

  Assemble assemble_;
  std::shared_ptr<Table> table_;
};

/// At most `limit` numbers below `count`, evenly spread, including the first and the last.
std::vector<std::size_t> spread(std::size_t count, std::size_t limit);

/// Takes items until the run ends or fails, at most `limit`.
std::vector<step> read(any_run& run, std::size_t limit);

/// Moves the skipped samples out of all steps.
std::vector<occasion> take_skipped(std::vector<step>& steps);

std::string text_of_step(const step& s, const item_texts& texts);

/// Empty, or the first difference: "item 4 is 17 (sample 3 of epoch 1), not 16 (sample 2 of epoch 1)".
std::string difference(const std::vector<step>& expected, const std::vector<step>& got,
                       const item_texts& texts, std::size_t first = 0);

/// The promises that are the same for sources and stages.
class run_checks {
 public:
  /// `part`: "source" or "stage".
  run_checks(any_runs& runs, observed& seen, const check_options& options, std::string part);

  /// Expects the part to fail for some samples. They are skipped, so that the run continues after them.
  void expect_failures() noexcept { on_error_ = on_error::skip; }

  bool expects_failures() const noexcept { return on_error_ == on_error::skip; }

  /// The options of a run, with those that the user set.
  run_order order(bool finite = true) const {
    run_order o;
    o.finite = finite;
    o.epochs = options_.epochs;
    o.seed = options_.seed;
    o.on_error = on_error_;
    if (!finite)
      o.last_epoch = 300; // ends a run whose stage emits only at the end of an epoch of finite mode
    return o;
  }

  std::vector<step> run(const run_order& o);

  /// Everything that a run with one worker yields.
  const std::vector<step>& reference();

  /// Whether an infinite run yields items endlessly. It doesn't if a stage emits only at the end of an epoch
  /// of finite mode.
  bool is_endless();

  void all() {
    same_again();
    workers();
    stops();
    resumes(true, 1);
    resumes(false, 1);
    memory();
  }

  void same_again();

  void workers();

  void stops();

  /// Takes a checkpoint after each item of a run, and compares the rest of the run with a resumed one.
  void resumes(bool finite, std::size_t buffer);

  void memory();

  /// Lets a sample fail, and resumes the run when it no longer does: nothing may be lost or come twice. `where`: of the
  /// part it fails. Returns false after a complaint.
  bool continues_once_mended(const occasion& fails, const std::string& where);

  /// Whether a run resumed as ordered yields the rest, which begins with item `first`. False after a complaint.
  bool yields_rest(const run_order& o, const std::vector<step>& rest, const std::string& promise,
                   const std::string& advice, std::size_t first);

  /// Compares a run with the reference. Returns false, after a complaint, if they differ.
  bool compare(const run_order& o, const std::string& promise, const std::string& advice);

  /// Returns true, after a complaint, if they differ.
  bool complain(const std::vector<step>& expected, const std::vector<step>& got, const std::string& promise,
                const std::string& advice, std::size_t first = 0);

 private:
  // The number of items of an infinite run that are compared.
  std::size_t infinite_items();

  any_runs& runs_;
  observed& seen_;
  const check_options& options_;
  std::string part_;
  on_error on_error_ = on_error::fail;
  std::optional<bool> is_endless_;
  std::vector<step> reference_;
};

} // namespace feedline::inline FEEDLINE_ABI::testing::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TESTING)
namespace feedline::inline FEEDLINE_ABI::testing::detail {

FEEDLINE_INLINE std::string text_of_occasion(const occasion& o) {
  return "sample " + (o.index == sample_id::no_index ? "without an index" : std::to_string(o.index)) +
         " of epoch " + std::to_string(o.epoch);
}

FEEDLINE_INLINE planned_failure::planned_failure() : std::runtime_error("a failure that the check planned") {}

FEEDLINE_INLINE std::vector<std::size_t> spread(std::size_t count, std::size_t limit) {
  std::vector<std::size_t> all;
  if (count <= limit || limit < 2) {
    for (std::size_t i = 0; i < std::min(count, limit); ++i) all.push_back(i);
    return all;
  }
  for (std::size_t i = 0; i < limit; ++i) all.push_back(i * (count - 1) / (limit - 1));
  return all;
}

FEEDLINE_INLINE std::vector<step> read(any_run& run, std::size_t limit) {
  std::vector<step> all;
  while (all.size() < limit) {
    all.push_back(run.next());
    if (all.back().is != step::kind::item) break;
  }
  return all;
}

FEEDLINE_INLINE std::vector<occasion> take_skipped(std::vector<step>& steps) {
  std::vector<occasion> all;
  for (step& s : steps) {
    all.insert(all.end(), s.skipped.begin(), s.skipped.end());
    s.skipped.clear();
  }
  return all;
}

FEEDLINE_INLINE std::string text_of_step(const step& s, const item_texts& texts) {
  std::string text;
  for (const occasion& o : s.skipped) text.append("(").append(text_of_occasion(o)).append(" skipped) ");
  if (s.is == step::kind::end) return text + "the end";
  if (s.is == step::kind::error) return text + "the error \"" + s.message + "\"";
  text += texts.text(s.item);
  if (s.id.index == sample_id::no_index) return text;
  text += " (" + text_of_occasion({s.id.index, s.id.epoch});
  return text + (s.id.sub_index == 0 ? ")" : ", part " + std::to_string(s.id.sub_index) + ")");
}

FEEDLINE_INLINE std::string difference(const std::vector<step>& expected, const std::vector<step>& got,
                                       const item_texts& texts, std::size_t first) {
  for (std::size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
    const bool is_missing = i >= got.size(), is_extra = i >= expected.size();
    if (!is_missing && !is_extra && expected[i] == got[i]) continue;
    return "item " + std::to_string(first + i) + " (counted from 0) is " +
           (is_missing ? "missing" : text_of_step(got[i], texts)) + ", not " +
           (is_extra ? "the end" : text_of_step(expected[i], texts));
  }
  return {};
}

FEEDLINE_INLINE run_checks::run_checks(any_runs& runs, observed& seen, const check_options& options,
                                       std::string part)
    : runs_(runs), seen_(seen), options_(options), part_(std::move(part)) {}

FEEDLINE_INLINE std::vector<step> run_checks::run(const run_order& o) {
  const auto run = runs_.start(o);
  return read(*run, options_.epochs * options_.most_items + 1);
}

FEEDLINE_INLINE const std::vector<step>& run_checks::reference() {
  if (reference_.empty()) {
    seen_.doing("ran a finite pipeline with one worker");
    reference_ = run(order());
    if (reference_.size() > options_.epochs * options_.most_items)
      throw std::invalid_argument("feedline::testing: a run with the " + part_ + " yields more than " +
                                  std::to_string(options_.most_items) +
                                  " items in an epoch: use fewer for the check, or raise most_items");
  }
  return reference_;
}

FEEDLINE_INLINE bool run_checks::is_endless() {
  if (!is_endless_) {
    seen_.doing("ran an infinite pipeline");
    const std::vector<step> steps = read(*runs_.start(order(false)), infinite_items());
    is_endless_ = !steps.empty() && steps.back().is == step::kind::item;
  }
  return *is_endless_;
}

FEEDLINE_INLINE void run_checks::same_again() {
  compare(order(), "The same seed yields the same items: a second run yields other items",
          "Key random decisions by the seed and the sample, as context.random is. Nothing may depend "
          "on time, on addresses or on other runs");
  seen_.doing("read two runs of one pipeline alternately");
  auto [first, second] = runs_.start_two(order());
  std::vector<step> got[2];
  any_run* const both[2] = {first.get(), second.get()};
  for (bool has_items = true; has_items;) {
    has_items = false;
    for (const int i : {0, 1}) {
      const bool has_ended = !got[i].empty() && got[i].back().is != step::kind::item;
      if (has_ended || got[i].size() > reference().size()) continue;
      got[i].push_back(both[i]->next());
      has_items = true;
    }
  }
  for (const auto& items : got)
    if (complain(reference(), items,
                 "Runs don't affect each other: of two runs of one pipeline, read alternately, one yields "
                 "other items",
                 "Copies of the " + part_ + " may share only data that never changes"))
      return;
}

FEEDLINE_INLINE void run_checks::workers() {
  const std::size_t counts[][2] = {{2, 1}, {64, 1}, {1, 2}, {1, 64}, {2, 2}};
  for (const auto& [upstream, downstream] : counts) {
    run_order o = order();
    o.upstream = upstream;
    o.downstream = downstream;
    const std::string where =
        part_ == "source" ? " downstream of the source"
                          : " upstream of the stage and " + std::to_string(downstream) + " downstream";
    if (part_ == "source" && downstream != 1) continue;
    if (!compare(o,
                 "Workers never change the items: with " + std::to_string(upstream) + " workers" + where +
                     ", the run yields other items",
                 "Nothing may depend on time or on the calling thread"))
      return;
  }
  run_order o = order();
  o.queue = 1;
  compare(o, "Queues never change the items: with a queue_capacity of 1, the run yields other items",
          "Nothing may depend on time or on the calling thread");
}

FEEDLINE_INLINE void run_checks::stops() {
  for (const bool finite : {true, false})
    for (const std::size_t at : spread(reference().size(), options_.places)) {
      for (const bool says_so : {true, false}) {
        seen_.doing(std::string(says_so ? "stopped" : "destroyed") + (finite ? " a finite" : " an infinite") +
                    " run after item " + std::to_string(at));
        run_order o = order(finite);
        o.upstream = 2;
        o.queue = at % 2;
        const auto run = runs_.start(o);
        if (finite || is_endless()) read(*run, at);
        if (!says_so) continue;
        run->stop();
        if (run->next().is == step::kind::item)
          return seen_.broken("A stop ends a run: after item " + std::to_string(at) +
                              " and stop() it yields one more");
      }
    }
}

FEEDLINE_INLINE void run_checks::resumes(bool finite, std::size_t buffer) {
  if (!finite && !is_endless()) return;
  run_order o = order(finite);
  o.queue = 1; // so that a position is saved with each item
  o.buffer = buffer;
  const std::string how =
      std::string(finite ? "finite" : "infinite") + (buffer > 1 ? " run with a shuffle buffer" : " run");
  seen_.doing("took checkpoints of a" + std::string(finite ? " " : "n ") + how);
  const std::size_t limit = finite ? options_.epochs * options_.most_items : infinite_items();
  std::vector<step> expected;
  std::vector<std::vector<std::byte>> checkpoints;
  {
    const auto whole = runs_.start(o);
    while (expected.size() < limit) {
      checkpoints.push_back(whole->checkpoint());
      expected.push_back(whole->next());
      if (expected.back().is != step::kind::item) break;
    }
  }
  for (const std::size_t at : spread(checkpoints.size(), options_.places)) {
    seen_.doing("resumed a" + std::string(finite ? " " : "n ") + how + " after item " + std::to_string(at));
    const std::string promise = "A resumed run continues exactly: a" + std::string(finite ? " " : "n ") +
                                how + " over " + std::to_string(options_.epochs) + " epochs, resumed after " +
                                std::to_string(at) + " items, yields other items";
    const std::string advice = part_ == "source"
                                   ? "Name everything that next() changes in state(archive), or leave "
                                     "state() out; skip(), seek() and fingerprint() must agree with it"
                                   : "Name everything that a call, finish() and end_epoch() change in "
                                     "state(archive), or leave state() out";
    o.resume = &checkpoints[at];
    if (!yields_rest(o, {expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end()}, promise, advice,
                     at))
      return;
  }
}

FEEDLINE_INLINE void run_checks::memory() {
  seen_.doing("computed the memory plan of a run");
  memory_plan plan;
  try {
    plan = runs_.memory(order(false));
  } catch (const std::exception& error) {
    return seen_.broken(
        "A memory plan covers everything that a run holds: memory() throws: " + std::string(error.what()) +
        ". Check items_held(), bytes_held() and max_item_bytes().");
  }
  if (!plan.bytes()) {
    if (!options_.has_budget) return;
    std::string unknown;
    for (const memory_plan::part& p : plan.parts)
      if (!p.bytes) unknown += (unknown.empty() ? "" : "; ") + p.name + ": " + p.unknown;
    return seen_.broken("A run stays within a memory_budget: the memory that it needs isn't known (" +
                        unknown + ").");
  }
  run_order o = order();
  o.budget = *plan.bytes();
  try {
    compare(o, "A memory_budget never changes the items: with one, the run yields other items",
            "max_item_bytes() must be the most bytes that an item takes");
  } catch (const std::exception& error) {
    seen_.broken("A run stays within a memory_budget: with the bytes that memory() returns it is refused: " +
                 std::string(error.what()));
  }
}

FEEDLINE_INLINE bool run_checks::continues_once_mended(const occasion& fails, const std::string& where) {
  const std::vector<step>& whole = reference();
  const std::string what = text_of_occasion(fails) + " fails " + where;
  seen_.doing("let " + what);
  run_order o = order();
  o.on_error = on_error::fail;
  o.upstream = 2;
  o.fails = fails;
  const auto failing = runs_.start(o);
  std::vector<step> got = read(*failing, whole.size() + 1);
  if (got == whole) return true; // a stage that called emit.enough() before never receives it
  const step error = got.back();
  got.pop_back();
  const std::size_t given = std::min(got.size(), whole.size());
  const auto behind = whole.begin() + static_cast<std::ptrdiff_t>(given);
  if (complain({whole.begin(), behind}, got,
               "A failure affects no item before it: if " + what + ", they differ",
               "Nothing may depend on time or on the calling thread"))
    return false;
  // The part may fail by itself before that.
  if (error.is != step::kind::error || !(error.failed == fails || expects_failures())) {
    seen_.broken("A failure is named: if " + what + ", the run ends with " +
                 text_of_step(error, runs_.texts()) + ".");
    return false;
  }
  const std::vector<std::byte> before = failing->checkpoint();
  o = order();
  o.upstream = 2;
  o.resume = &before;
  const std::string promise = "A failure that is mended leaves no trace: if " + what +
                              ", and no longer does when the run is resumed, that yields other items";
  const std::string advice =
      "What a call, finish() and end_epoch() change must be in state(archive), also if a call throws";
  return yields_rest(o, {behind, whole.end()}, promise, advice, given);
}

FEEDLINE_INLINE bool run_checks::yields_rest(const run_order& o, const std::vector<step>& rest,
                                             const std::string& promise, const std::string& advice,
                                             std::size_t first) {
  try {
    const auto resumed = runs_.start(o);
    return !complain(rest, read(*resumed, rest.size()), promise, advice, first);
  } catch (const std::exception& error) {
    seen_.broken(promise + ": it can't be started: " + error.what() + ". " + advice + ".");
    return false;
  }
}

FEEDLINE_INLINE bool run_checks::compare(const run_order& o, const std::string& promise,
                                         const std::string& advice) {
  reference();
  seen_.doing("compared two runs (" + promise.substr(0, promise.find(':')) + ")");
  return !complain(reference(), run(o), promise, advice);
}

FEEDLINE_INLINE bool run_checks::complain(const std::vector<step>& expected, const std::vector<step>& got,
                                          const std::string& promise, const std::string& advice,
                                          std::size_t first) {
  const std::string text = difference(expected, got, runs_.texts(), first);
  if (!text.empty()) seen_.broken(promise + ": " + text + ". " + advice + ".");
  return !text.empty();
}

FEEDLINE_INLINE std::size_t run_checks::infinite_items() {
  return std::clamp<std::size_t>(2 * reference().size(), 4, 100);
}

} // namespace feedline::inline FEEDLINE_ABI::testing::detail
#endif
