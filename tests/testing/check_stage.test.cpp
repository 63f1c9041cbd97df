// SPDX-License-Identifier: MIT
// Every kind of mistake in a stage is found, with a sentence that names it.
#include <feedline/testing/check_stage.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/broken_promises.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"

namespace fl = feedline;
using namespace feedline::test;
using fl::testing::check_stage;

namespace {

enum class slip {
  none,
  forgets_held,
  forgets_count,
  forgets_what_finish_resets,
  reads_less,
  changes_when_saved,
  shares_between_copies,
  depends_on_time,
  depends_on_address,
  emits_again_after_finish,
  loses_at_finish,
  emits_twice,
  makes_up_identity,
  holds_more_than_it_says,
  emits_after_its_call,
  emits_endlessly,
  waits_endlessly,
  fails_without_items,
  differs_in_a_run,
};

int total_calls = 0;
gate way_out;

/// Holds back three items and emits the oldest, unchanged.
struct hold_back {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "hold_back"};

  void operator()(fl::sample<int>&& s, auto& emit, fl::context& c) {
    if (what == slip::depends_on_time && ++total_calls % 7 == 3) return;
    if (what == slip::waits_endlessly && c.stop.stop_possible() && s.id.index == 5) way_out.pass();
    if (what == slip::differs_in_a_run && c.stop.stop_possible() && s.id.index == 5) s.value = 77;
    if (what == slip::makes_up_identity && s.id.index == 4) s.id = {};
    if (what == slip::emits_after_its_call) later = [&emit](int n) { emit(n); };
    if (what == slip::emits_endlessly && s.id.index == 6)
      for (int i = 0; i < 3000; ++i) emit(s.value);
    if (what == slip::emits_twice && s.id.index == 3) emit(fl::sample<int>(s));
    if (what == slip::shares_between_copies) ++*shared;
    ++count;
    ++since_finish;
    held.push_back(std::move(s));
    const std::size_t most = what == slip::shares_between_copies && *shared % 40 > 20 ? 2 : 3;
    if (what == slip::forgets_count && count % 5 == 0) return;
    if (what == slip::forgets_what_finish_resets && since_finish % 25 == 20) return;
    while (held.size() > most) emit_oldest(emit);
  }

  void finish(auto& emit) {
    if (what == slip::fails_without_items) static_cast<void>(held.at(0));
    if (what == slip::loses_at_finish && !held.empty()) held.erase(held.begin());
    if (what == slip::emits_again_after_finish) {
      for (const auto& s : held) emit(fl::sample<int>(s));
      return;
    }
    while (!held.empty()) emit_oldest(emit);
    since_finish = 0;
  }

  void end_epoch() {
    if (later) later(1);
  }

  void state(auto& archive) {
    if (what == slip::changes_when_saved && !held.empty()) held.back().value += 100;
    if (what == slip::forgets_held) return archive(count);
    constexpr bool is_reading = requires { archive.left(); };
    if (is_reading && what == slip::reads_less) return archive(count, held);
    archive(count, held);
    if (what != slip::forgets_what_finish_resets) archive(since_finish);
    if (what == slip::forgets_count && is_reading) count = 0;
  }

  std::size_t items_held() const { return what == slip::holds_more_than_it_says ? 2 : 3; }

  std::uint64_t fingerprint() const {
    return what == slip::depends_on_address ? reinterpret_cast<std::uintptr_t>(shared.get()) : 0;
  }

  void emit_oldest(auto& emit) {
    emit(std::move(held.front()));
    held.erase(held.begin());
  }

  slip what = slip::none;
  std::vector<fl::sample<int>> held{};
  int count = 0;
  int since_finish = 0;
  std::shared_ptr<int> shared = std::make_shared<int>(0);
  std::function<void(int)> later{};
};

std::string found(slip what) {
  std::string text = broken_promises([&] {
    check_stage([what] { return hold_back{.what = what}; }, count_to(13),
                {.places = rounds(std::size_t{30}, 8),
                 .keeps_all = what == slip::none || what == slip::loses_at_finish,
                 .patience = std::chrono::minutes(2)});
  });
  UNSCOPED_INFO(text);
  return text;
}

} // namespace

TEST_CASE("A stage that keeps all promises passes") { CHECK(found(slip::none).empty()); }

TEST_CASE("An incomplete state is found") {
  CHECK(says(found(slip::forgets_held),
             "A stage continues from its state: with the state before input 1 (counted from 0) of "
             "epoch 0, another stage emits other items: for input 3"));
  CHECK(says(found(slip::forgets_held),
             "Name everything that a call, finish() and end_epoch() change in state(archive)"));
  CHECK(says(found(slip::forgets_count), "A stage continues from its state"));
  CHECK(says(found(slip::forgets_what_finish_resets), "of an infinite run, another stage emits other items"));
  CHECK(says(found(slip::reads_less), "A state is read as it was written: state() wrote"));
  CHECK(says(found(slip::changes_when_saved), "Writing a state changes nothing"));
}

TEST_CASE("A stage that depends on more than its input is found") {
  CHECK(says(found(slip::shares_between_copies), "Copies are independent"));
  CHECK(says(found(slip::depends_on_time), "nothing may depend on time"));
  CHECK(says(found(slip::depends_on_address), "A fingerprint is the same in another process"));
}

TEST_CASE("Samples that are emitted twice, never or under another identity are found") {
  CHECK(says(found(slip::emits_again_after_finish),
             "A sample is emitted once: for input 0 (counted from 0) of "
             "epoch 1 the stage emits sample 10 of epoch 0 once more"));
  CHECK(says(found(slip::emits_twice),
             "A sample is emitted once: for input 6 (counted from 0) of epoch 0 the "
             "stage emits sample 3 of epoch 0 once more"));
  CHECK(says(found(slip::loses_at_finish),
             "Each sample appears once: in epoch 0 of a finite run 10 is missing"));
  CHECK(says(found(slip::makes_up_identity), "A sample keeps its identity: for input 7"));
}

TEST_CASE("A stage that holds more than its items_held() is found") {
  CHECK(says(found(slip::holds_more_than_it_says), "the stage holds 3 items, but its items_held() is 2"));
}

TEST_CASE("Items that are emitted at the wrong time are found") {
  CHECK(says(found(slip::emits_after_its_call), "it used emit after the call that received it had returned"));
  CHECK(says(found(slip::emits_endlessly), "the stage continues after emit() has returned false"));
}

TEST_CASE("A stage that fails without inputs is found") {
  CHECK(says(found(slip::fails_without_items), "A run without samples ends"));
}

TEST_CASE("A hang of a stage is reported with the step in which it happened") {
  // The stage waits wherever a stop could be requested, and ignores the request.
  const std::string text = broken_promises([] {
    check_stage([all = way_out.membership()] { return hold_back{.what = slip::waits_endlessly}; },
                count_to(13), {.patience = std::chrono::seconds(3)});
  });
  INFO(text);
  CHECK(says(text, "A run never hangs: nothing happened for 3 s while the check ran a finite pipeline"));
  way_out.open();
}

namespace {

struct first_five {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    if (++count >= 5) emit.enough();
  }

  void end_epoch() { count = 0; }

  void state(auto& archive) { archive(count); }

  int count = 0;
};

struct first_five_said : first_five {
  static constexpr fl::stage_traits traits{.ends_epochs = true};

  bool has_enough() const { return count > 5; }
};

/// Emits five items of each epoch, and has_enough() stays true from the end of one epoch to the start of the
/// next.
struct five_of_each {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "five_of_each", .ends_epochs = true};

  void operator()(int n, auto& emit) {
    emit(n);
    if (++count % 5 == 0) emit.enough();
  }

  bool has_enough() const { return count % 5 == 0; }

  void state(auto& archive) { archive(count); }

  int count = 0;
};

/// Needs no items, and correctly says so from the start.
struct nothing_at_all {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "nothing_at_all", .ends_epochs = true};

  void operator()(int, auto& emit) { emit.enough(); }

  bool has_enough() const { return true; }

  void state(auto& archive) { archive(count); }

  int count = 0;
};

struct odd_numbers {
  using output = int;
  static constexpr fl::stage_traits traits{.data_independent_count = true};

  void operator()(int n, auto& emit) {
    if (n % 2 == 1) emit(n);
  }
};

} // namespace

TEST_CASE("A stage's descriptions of itself are checked against its behaviour") {
  CHECK(says(broken_promises([] { check_stage([] { return first_five(); }, count_to(9)); }),
             "A stage that can end an epoch declares it: for input 4 (counted from 0) of epoch 0"));
  CHECK(says(broken_promises([] { check_stage([] { return first_five_said(); }, count_to(9)); }),
             "has_enough() returns whether a stage has called emit.enough() in this epoch"));
  const std::string too_early =
      broken_promises([] { check_stage([] { return five_of_each(); }, count_to(9)); });
  INFO(too_early);
  CHECK(says(too_early,
             "before input 0 (counted from 0) of epoch 0 it returns true, but then the stage emits 0"));
  check_stage([] { return nothing_at_all(); }, count_to(9));
  CHECK(says(broken_promises([] { check_stage([] { return odd_numbers(); }, count_to(10)); }),
             "A stage with data_independent_count emits the same number of items for any inputs"));
}

namespace {

/// Uses random numbers from context.random.
struct noisy {
  using output = double;

  void operator()(int n, auto& emit, fl::context& c) {
    sum += n + c.random.uniform();
    emit(sum);
  }

  void state(auto& archive) { archive(sum); }

  double sum = 0;
};

/// Throws for some items and loses no others.
struct picky {
  using output = std::string;

  void operator()(int n, auto& emit) {
    if (n % 4 == 3) throw std::runtime_error("three");
    text += std::to_string(n);
    emit(text);
  }

  std::string text;
};

} // namespace

namespace {

/// Fails at the end of its second epoch.
struct short_lived {
  using output = int;

  void operator()(int n, auto& emit) { emit(n); }

  void finish(auto& emit) {
    if (epoch == 1) throw std::runtime_error("no more");
    emit(-1);
  }

  void end_epoch() { ++epoch; }

  void state(auto& archive) { archive(epoch); }

  int epoch = 0;
};

/// Doesn't report the memory that it takes.
struct silent_window {
  using output = int;

  void operator()(int n, auto& emit) {
    last.push_back(n);
    if (last.size() > 3) last.erase(last.begin());
    emit(last.front());
  }

  void state(auto& archive) { archive(last); }

  std::vector<int> last;
};

} // namespace

TEST_CASE("A stage that doesn't report its memory passes, unless a run needs a memory_budget") {
  check_stage([] { return silent_window(); }, count_to(9));
  const std::string text =
      broken_promises([] { check_stage([] { return silent_window(); }, count_to(9), {.has_budget = true}); });
  INFO(text);
  CHECK(says(text, "A run stays within a memory_budget: the memory that it needs isn't known"));
  CHECK(says(text, "items_held"));
}

namespace {

struct repeats {
  using output = std::string;

  void operator()(int n, auto& emit) { emit(std::string(static_cast<std::size_t>(n) * 20, 'x')); }

  std::size_t items_held() const { return 0; }

  std::size_t max_item_bytes() const { return sizeof(std::string) + most; }

  std::size_t most = 0;
};

} // namespace

TEST_CASE("An item that is larger than max_item_bytes() is found") {
  check_stage([] { return repeats{200}; }, count_to(9), {.has_budget = true});
  const std::string text = broken_promises([] { check_stage([] { return repeats{100}; }, count_to(9)); });
  INFO(text);
  CHECK(says(text, "more than the max_item_bytes"));
}

TEST_CASE("A stage that emits other items in a run than when it is called directly is found") {
  CHECK(says(found(slip::differs_in_a_run),
             "A run yields what its stages emit one item at a time: item 5 (counted from 0)"));
}

TEST_CASE("Stages with random numbers, with failures and without a state pass") {
  check_stage([] { return noisy(); }, count_to(9), {.has_budget = true});
  check_stage([] { return picky(); }, count_to(9));
  check_stage([] { return short_lived(); }, count_to(5));
}

TEST_CASE("A check refuses empty inputs and too many items") {
  const auto make = [] { return hold_back{}; };
  CHECK_THROWS_AS(check_stage(make, std::vector<int>()), std::invalid_argument);
  CHECK_THROWS_AS(check_stage(make, count_to(12), {.most_items = 5}), std::invalid_argument);
}
