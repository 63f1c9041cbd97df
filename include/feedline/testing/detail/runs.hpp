// SPDX-License-Identifier: MIT
#pragma once
// Runs of one pipeline whose type is hidden, and the promises of sources and stages alike.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/sample.hpp>
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

#ifndef FEEDLINE_COMPILED
#include <feedline/testing/detail/runs.ipp>
#endif
