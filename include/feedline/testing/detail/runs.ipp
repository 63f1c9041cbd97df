// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/testing/detail/runs.hpp>

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
