// SPDX-License-Identifier: MIT
// A resumed run continues exactly where the earlier one was left, whatever starts or stops failing in
// between, or it fails there and names the sample.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

template <class Item>
std::string text_of(const Item& item) {
  if constexpr (requires { item.values(); }) {
    std::string text;
    for (const int n : item.values()) text += std::to_string(n) + " ";
    return text;
  } else {
    return std::to_string(item);
  }
}

/// The next item, with the failures before it; or the error.
template <class Loader>
std::string next_text(Loader& loader) {
  std::string text;
  const std::size_t before = loader.failures().size();
  try {
    const auto item = loader.next();
    for (std::size_t i = before; i < loader.failures().size(); ++i)
      text += "[" + loader.failures()[i].message + "] ";
    return text + (item ? text_of(*item) : "end");
  } catch (const fl::pipeline_error& error) {
    return text + error.what();
  }
}

/// Leaves a run after each of its first items, and compares its remaining items with those of the resumed
/// run.
template <class Start>
void check_every_place(const Start& start, int items) {
  const watchdog guard("a run that is resumed at every place");
  std::vector<std::string> expected;
  std::vector<fl::checkpoint> places;
  auto whole = start(std::optional<fl::checkpoint>());
  places.push_back(whole.checkpoint());
  for (int i = 0; i < items && (expected.empty() || !expected.back().ends_with("end")); ++i) {
    expected.push_back(next_text(whole));
    places.push_back(whole.checkpoint());
  }
  const std::size_t stride = expected.size() > 20 ? std::size_t{place_step} : 1;
  for (std::size_t at = 0; at < expected.size(); at += stride) {
    INFO("left after item " << at);
    auto resumed = start(std::optional(fl::checkpoint::from_bytes(places[at].to_bytes())));
    for (std::size_t i = at; i < expected.size(); ++i) REQUIRE(next_text(resumed) == expected[i]);
  }
}

template <class Pipeline>
void check_both_modes(const Pipeline& pipeline, int items) {
  check_every_place([&](const auto& resume) { return pipeline.finite({.epochs = 3, .resume = resume}); },
                    items);
  check_every_place([&](const auto& resume) { return pipeline.infinite({.resume = resume}); }, items);
}

using mapping = std::function<int(int, fl::context&)>;
using selection = std::function<bool(int)>;

const mapping same = [](int n, fl::context&) { return n; };
const selection none = [](int) { return false; };

/// Fails on sample number `bad` while `is_broken` is set, or once.
mapping fragile(int bad, std::atomic<bool>& is_broken, bool once = false) {
  return [=, &is_broken](int n, fl::context&) {
    if (n == bad && (once ? is_broken.exchange(false) : is_broken.load()))
      throw std::runtime_error("broken " + std::to_string(n));
    return n;
  };
}

/// 0, 1, 2, …, without an end.
struct endless_numbers {
  std::optional<int> operator()() { return n++; }

  int n = 0;
};

/// Emits, then remembers.
struct difference {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n - last);
    last = n;
  }

  void state(auto& archive) { archive(last); }

  int last = 0;
};

/// Emits several items for one, each with a number.
struct several {
  using output = int;

  void operator()(int n, auto& emit) {
    for (int i = 0; i < n % 4; ++i) emit(++given * 100 + n);
  }

  void state(auto& archive) { archive(given); }

  int given = 0;
};

/// Sums of three, across the ends of epochs; emits two more at the end of each.
struct sums {
  using output = int;

  void operator()(int n, auto& emit) {
    sum += n;
    if (++count % 3 != 0) return;
    emit(sum);
    sum = 0;
  }

  void finish(auto& emit) {
    emit(-sum);
    emit(-count);
    sum = 0;
  }

  void state(auto& archive) { archive(sum, count); }

  int sum = 0, count = 0;
};

constexpr int samples = 203;

template <class Look>
void for_each_composition(const mapping& f, const Look& look) {
  const auto all = fl::from(count_to(samples));
  look("one thread", all | fl::map(f) | fl::batch(8));
  look("workers", all | fl::map(f, fl::workers{3}) | fl::batch(8));
  look("a buffer", all | fl::map(f) | fl::shuffle({.capacity = 20}) | fl::batch(8));
  look("workers and a buffer",
       all | fl::map(f, fl::workers{3}) | fl::shuffle({.capacity = 20}) | fl::batch(8));
  look("a shuffled set", all | fl::global_shuffle() | fl::map(f, fl::workers{3}) | fl::batch(8));
  look("a shuffled set and a buffer", all | fl::global_shuffle() | fl::map(f, fl::workers{3}) |
                                          fl::shuffle({.capacity = 20}) | fl::batch(8));
  look("queues",
       all | fl::map(f) | fl::prefetch(5) | fl::shuffle({.capacity = 20}) | fl::prefetch(5) | fl::batch(8));
}

} // namespace

TEST_CASE("A user's stage is saved between its calls, whatever it does in one") {
  const auto all = fl::from(count_to(17));
  check_both_modes(all | difference() | fl::batch(3), 40);
  check_both_modes(all | several() | fl::batch(3), 40);
  check_both_modes(all | several() | fl::prefetch(1), 60);
  check_both_modes(all | several() | difference() | fl::prefetch(2), 60);
  check_both_modes(all | fl::map(same, fl::workers{2}) | several() | fl::batch(4), 40);
  check_both_modes(all | difference() | fl::map(same, fl::workers{2}) | several() | fl::batch(2), 60);
  check_both_modes(all | sums() | fl::batch(2), 40);
  check_both_modes(all | sums() | several() | fl::shuffle({.capacity = 4}) | fl::batch(2), 60);
}

TEST_CASE("Several items that a user's stage makes from one sample are parts of it") {
  std::vector<fl::sample_id> ids;
  auto loader = (fl::from(count_to(4)) | several() | fl::batch(10)).finite();
  const auto batch = loader.next();
  ids.assign(batch->ids().begin(), batch->ids().end());
  CHECK(ids == std::vector<fl::sample_id>{{1, 0, 0}, {2, 0, 0}, {2, 1, 0}, {3, 0, 0}, {3, 1, 0}, {3, 2, 0}});
}

namespace {

/// Has no state(), so that everything that it saw is recomputed.
struct opaque {
  using output = int;

  void operator()(int n, auto& emit) { emit(n); }
};

} // namespace

TEST_CASE("A sample that fails while a run is being resumed ends the run and is named") {
  const watchdog guard("a hiccup");
  std::atomic<bool> is_broken = false;
  const auto check = [&](const auto& pipeline, int bad, bool is_read_again) {
    for (const auto how : {fl::on_error::fail, fl::on_error::skip}) {
      is_broken = false;
      std::string expected;
      const auto checkpoint = [&] { // of a run that no longer reads
        auto first = pipeline.infinite({.on_error = how});
        for (int i = 0; i < 25; ++i) first.next();
        auto place = first.checkpoint();
        expected = text_of(*first.next());
        return place;
      }();
      is_broken = true;
      auto again = pipeline.infinite({.on_error = how, .resume = checkpoint});
      const std::string got = next_text(again);
      INFO("sample " << bad << " gave " << got);
      CHECK(again.failures().empty());
      if (got == expected && !is_read_again) continue;
      CHECK(got.starts_with("map failed on sample " + std::to_string(bad) + ": broken " +
                            std::to_string(bad) + " (the earlier run had read this sample)"));
    }
  };
  const auto all = fl::from(count_to(1000));
  for (int bad = 0; bad < 96; bad += 3) { // the last batch in which it is recomputed is complete
    const mapping f = fragile(bad, is_broken, true);
    check(all | fl::map(f) | opaque() | fl::batch(4), bad, true);
    check(all | fl::map(f, fl::workers{2}) | opaque() | fl::batch(4), bad, true);
    check(all | fl::map(f, fl::workers{2}) | fl::batch(4), bad, false);
  }
}

TEST_CASE("No item comes twice before a sample that fails only in the resumed run") {
  const watchdog guard("a sample that fails later");
  std::atomic<bool> is_broken = false;
  constexpr std::uint64_t seeds = rounds(30U);
  std::uint64_t failed_at_once = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed)
    for (int bad = 0; bad < 40; ++bad) {
      const mapping f = fragile(bad, is_broken);
      const auto pipeline = fl::from(count_to(40)) | fl::map(f) | opaque() | fl::shuffle({.capacity = 3});
      is_broken = false;
      auto first = pipeline.finite({.seed = seed});
      std::set<int> given;
      for (int i = 0; i < 20; ++i) given.insert(*first.next());
      const fl::checkpoint place = first.checkpoint();
      is_broken = true;
      auto again = pipeline.finite({.seed = seed, .resume = place});
      INFO("seed " << seed << ", sample " << bad);
      try {
        while (const auto n = again.next()) REQUIRE(given.insert(*n).second);
        FAIL("it should have failed");
      } catch (const fl::pipeline_error& error) {
        CHECK(error.failure().index == static_cast<std::uint64_t>(bad));
        failed_at_once += given.size() == 20;
      }
    }
  CHECK(failed_at_once >= seeds * 17);
}

TEST_CASE("A run that is left before a failure fails there again") {
  std::atomic<bool> is_broken = true;
  for (const int bad : {5, 20, 33}) {
    const auto pipeline = fl::from(count_to(40)) | fl::map(fragile(bad, is_broken)) | opaque();
    const auto shuffle = fl::shuffle({.capacity = 6});
    const auto check = [&](const auto& whole) {
      check_every_place([&](const auto& resume) { return whole.finite({.seed = 1, .resume = resume}); },
                        bad + 3);
    };
    check(pipeline | shuffle);
    check(pipeline | shuffle | fl::prefetch(1) | fl::map(same, fl::workers{2}));
    check(pipeline | fl::prefetch(1) | opaque() | shuffle | fl::prefetch(2));
  }
}

namespace {

/// Emits twice; the second one may fail.
struct emits_around {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    if (n == 20 && *is_broken) throw std::runtime_error("broken");
    emit(-n);
  }

  std::atomic<bool>* is_broken;
};

/// A run that fails while `is_broken` is set, and is resumed from any of its checkpoints once it isn't, must yield
/// what a run without a failure yields.
template <class Pipeline>
void check_mended(const Pipeline& pipeline, std::atomic<bool>& is_broken, std::uint32_t epochs = 1) {
  const watchdog guard("a run whose samples are mended");
  for (std::uint64_t seed = 0; seed < rounds(8U); ++seed) {
    is_broken = false;
    std::vector<std::string> expected;
    auto whole = pipeline.finite({.seed = seed, .epochs = epochs});
    while (expected.empty() || expected.back() != "end") expected.push_back(next_text(whole));

    is_broken = true;
    auto failing = pipeline.finite({.seed = seed, .epochs = epochs});
    std::vector<fl::checkpoint> places{failing.checkpoint()};
    for (std::size_t i = 0;; ++i) {
      const std::string text = next_text(failing);
      places.push_back(failing.checkpoint());
      if (text.find("broken") != std::string::npos) break;
      REQUIRE(text == expected[i]);
    }

    is_broken = false;
    for (std::size_t at = 0; at < places.size(); ++at) {
      INFO("seed " << seed << ", checkpoint " << at << " of " << places.size());
      auto resumed =
          pipeline.finite({.epochs = epochs, .resume = fl::checkpoint::from_bytes(places[at].to_bytes())});
      for (std::size_t i = std::min(at, places.size() - 2); i < expected.size(); ++i)
        REQUIRE(next_text(resumed) == expected[i]);
    }
  }
}

} // namespace

TEST_CASE("A run whose failed samples are mended continues as if they hadn't failed") {
  std::atomic<bool> is_broken = true;
  const auto from = fl::from(count_to(60));
  const mapping first = fragile(31, is_broken), second = fragile(20, is_broken);
  const auto buffer = fl::shuffle({.capacity = 30, .min_fill = 30});
  const auto check = [&](const auto& pipeline) { check_mended(pipeline, is_broken); };
  check(from | fl::map(first) | buffer | fl::map(second) | fl::shuffle({.capacity = 7}) | fl::batch(3));
  check(from | fl::map(first) | fl::shuffle({.capacity = 12}) | fl::map(same, fl::workers{2}) | fl::batch(3));
  check(from | fl::map(first, fl::workers{2}) | buffer | fl::prefetch(1) | fl::map(second) | fl::batch(3));
  check(from | opaque() | fl::map(second) | fl::shuffle({.capacity = 9}) | fl::prefetch(2) | fl::map(first));
  check(from | fl::map(second) | several() | fl::batch(4) | fl::prefetch(1));
  check(from | opaque() | emits_around{&is_broken} | fl::shuffle({.capacity = 5}));
}

TEST_CASE("A failure that no checkpoint needed doesn't affect a resumed run") {
  std::atomic<bool> is_broken = true;
  const auto pipeline = fl::from(count_to(60)) | opaque() | fl::map(fragile(8, is_broken)) |
                        fl::prefetch(100) | fl::take(6) | fl::batch(3);
  for (int round = 0; round < rounds(20); ++round)
    check_every_place([&](const auto& resume) { return pipeline.finite({.epochs = 3, .resume = resume}); },
                      6);
}

TEST_CASE("A failure that no checkpoint needed ends with its epoch") {
  const mapping f = [](int n, fl::context& c) {
    if (n == 20 && c.epoch == 0) throw std::runtime_error("not needed");
    return n;
  };
  const auto pipeline = fl::from(count_to(60)) | fl::map(f) | fl::shuffle({.capacity = 5}) |
                        fl::prefetch(100) | fl::take(6) | fl::prefetch(100);
  for (int round = 0; round < rounds(20); ++round)
    check_every_place([&](const auto& resume) { return pipeline.finite({.epochs = 3, .resume = resume}); },
                      18);
}

TEST_CASE("A failure of one epoch that no checkpoint needed is forgotten in the next") {
  std::atomic<bool> is_broken = true;
  const mapping f = [&](int n, fl::context& c) {
    if (n == 50 && c.epoch == 0) throw std::runtime_error("not needed");
    if (n == 20 && c.epoch == 1 && is_broken) throw std::runtime_error("broken");
    return n;
  };
  check_mended(fl::from(count_to(60)) | fl::map(f) | fl::shuffle({.capacity = 5}) | fl::prefetch(8192) |
                   fl::take(30) | fl::batch(1),
               is_broken, 2);
}

TEST_CASE(
    "State that a stage keeps over epochs is recomputed exactly, also if the epoch's rest isn't needed") {
  const watchdog guard("an end of an epoch");
  const auto pipeline = [](std::atomic<bool>& is_broken) {
    return fl::from(count_to(2)) | fl::map(fragile(0, is_broken, true)) | sums() |
           fl::map(same, fl::workers{2}) | fl::batch(5);
  };
  std::atomic<bool> never = false, is_broken = true; // the first run may still read while the second one does
  auto first = pipeline(never).finite({.epochs = 3});
  next_text(first); // the items at the end of the first epoch
  auto again = pipeline(is_broken).finite({.epochs = 3, .resume = first.checkpoint()});
  const std::string got = next_text(again);
  INFO(got);
  if (is_broken) CHECK(got == next_text(first));
  else CHECK(got.starts_with("map (1 of 2) failed on sample 0: broken 0"));
}

TEST_CASE("A held sample that can't be read again is reported with the reason") {
  const watchdog guard("a sample that was held");
  std::atomic<bool> is_broken = false;
  const mapping f = [&](int n, fl::context&) {
    if (is_broken) throw std::runtime_error("broken " + std::to_string(n));
    return n;
  };
  const auto check = [&](const auto& source) {
    const auto pipeline = source | fl::map(f, fl::workers{2}) | fl::shuffle({.capacity = 500}) | fl::batch(4);
    is_broken = false;
    auto first = pipeline.infinite();
    first.next();
    const fl::checkpoint place = first.checkpoint();
    is_broken = true;
    auto again = pipeline.infinite({.resume = place});
    try {
      again.next();
      FAIL("samples arrived although none could be read");
    } catch (const std::exception& error) {
      const std::string text = error.what();
      INFO(text);
      CHECK(text.find("of epoch 0, which the run held") != std::string::npos);
      CHECK(text.find("map failed on sample") != std::string::npos);
      CHECK(text.find("broken") != std::string::npos);
    }
  };
  check(fl::from(count_to(1000)));
  check(fl::from(count_to(1000)) | fl::global_shuffle());
}

TEST_CASE("A skipped sample stays left out if it is readable when the run is resumed") {
  const watchdog guard("a sample that healed");
  std::atomic<bool> is_broken = true;
  int resumed = 0;
  for (int bad = 0; bad < 120; bad += 3 * place_step)
    for_each_composition(fragile(bad, is_broken), [&](const char* name, const auto& pipeline) {
      is_broken = true;
      fl::finite_options options{.seed = 1, .on_error = fl::on_error::skip};
      auto first = pipeline.finite(options);
      for (int i = 0; i < 14; ++i) first.next();
      if (first.failures().empty()) return; // it is still ahead
      ++resumed;
      options.resume = first.checkpoint();
      is_broken = false;
      auto again = pipeline.finite(options);
      INFO(name << ", sample " << bad);
      for (std::string text; text != "end";) {
        text = next_text(first);
        REQUIRE(next_text(again) == text);
      }
    });
  CHECK(resumed > 100 / place_step);
}

TEST_CASE("A failed run is resumed without a loss, from each of its checkpoints") {
  const watchdog guard("a run that failed");
  std::atomic<bool> is_broken = true;
  for (const int bad : {0, 7, 8, 103, 202})
    for_each_composition(fragile(bad, is_broken), [&](const char* name, const auto& pipeline) {
      is_broken = true;
      const fl::finite_options options{.seed = 1};
      std::vector<int> seen;
      auto first = pipeline.finite(options);
      fl::checkpoint last = first.checkpoint();
      try {
        while (const auto batch = first.next()) {
          seen.insert(seen.end(), batch->values().begin(), batch->values().end());
          last = first.checkpoint();
        }
        FAIL("it should have failed");
      } catch (const fl::pipeline_error&) {
      }
      INFO(name << ", sample " << bad << " fails after " << seen.size());
      auto resumed = options;
      resumed.resume = fl::checkpoint::from_bytes(last.to_bytes());
      CHECK_THROWS_AS(pipeline.finite(resumed).next(), fl::pipeline_error);
      is_broken = false;
      for (const auto& batch : pipeline.finite(resumed))
        seen.insert(seen.end(), batch.values().begin(), batch.values().end());
      std::sort(seen.begin(), seen.end());
      CHECK(seen == count_to(samples));
    });
}

TEST_CASE("A failed run that dropped its last batch reads those samples again") {
  std::atomic<bool> is_broken = true;
  const auto pipeline =
      fl::from(count_to(20)) | fl::map(fragile(6, is_broken)) | fl::batch(4, {.drop_last = true});
  auto first = pipeline.finite();
  CHECK(next_text(first) == "0 1 2 3 ");
  CHECK(next_text(first).find("broken 6") != std::string::npos);
  is_broken = false;
  auto again = pipeline.finite({.resume = first.checkpoint()});
  CHECK(next_text(again) == "4 5 6 7 ");
}

TEST_CASE("Samples that a run has skipped don't fail a resumed run that doesn't skip") {
  const watchdog guard("another on_error");
  std::atomic<bool> is_broken = true;
  for_each_composition(fragile(21, is_broken), [&](const char* name, const auto& pipeline) {
    INFO(name);
    auto first = pipeline.finite({.seed = 1, .on_error = fl::on_error::skip});
    while (first.failures().empty()) REQUIRE(first.next());
    for (std::string text; text != "end";) {
      auto again = pipeline.finite({.seed = 1, .resume = first.checkpoint()});
      text = next_text(first);
      CHECK(next_text(again) == text);
    }
  });
}

TEST_CASE("Skipped failures of a source are passed over, too") {
  struct source {
    std::optional<int> next() {
      if (at == 40) return std::nullopt;
      if (++at % 7 == 0) throw std::runtime_error("unreadable " + std::to_string(at));
      return at;
    }

    int at = 0;
  };

  const auto pipeline = source() | fl::map(same, fl::workers{2}) | fl::batch(3);
  check_every_place(
      [&](const auto& resume) {
        return pipeline.finite({.epochs = 2, .on_error = fl::on_error::skip, .resume = resume});
      },
      40);
}

namespace {

struct bad_behind_5 {
  std::optional<int> next() {
    if (at >= 10) return std::nullopt;
    if (++at > 5) throw std::runtime_error("unreadable " + std::to_string(at));
    return at;
  }

  void state(auto& archive) { archive(at); }

  int at = 0;
};

} // namespace

TEST_CASE("take() that had enough still has enough when it is resumed") {
  const watchdog guard("take");

  const auto check = [](const auto& pipeline) {
    for (const auto how : {fl::on_error::fail, fl::on_error::skip})
      check_every_place(
          [&](const auto& resume) { return pipeline.infinite({.on_error = how, .resume = resume}); }, 6);
  };
  const mapping bad_from_5 = [](int n, fl::context&) {
    if (n > 4) throw std::runtime_error("bad");
    return n;
  };
  const selection below_5 = [](int n) { return n < 5; };
  check(bad_behind_5() | fl::take(5) | fl::batch(5));
  check(fl::from(count_to(10)) | fl::map(bad_from_5, fl::workers{2}) | fl::take(5) | fl::batch(5));
  check(fl::generate(endless_numbers()) | fl::filter(below_5) | fl::take(5) | fl::batch(5));
}

namespace {

/// take() as a user would write it.
struct first_ones {
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    if (++taken == 5) emit.enough();
  }

  void end_epoch() { taken = 0; }

  void state(auto& archive) { archive(taken); }

  int taken = 0;
};

} // namespace

TEST_CASE("A user's stage that had enough still has enough when it is resumed") {
  const auto pipeline = fl::generate([n = 0]() mutable {
                          if (n >= 5) throw std::runtime_error("there are no more");
                          return std::optional(n++);
                        }) |
                        first_ones() | fl::prefetch(1);
  check_every_place([&](const auto& resume) { return pipeline.finite({.epochs = 3, .resume = resume}); }, 20);
}

namespace {

/// 0, 1, 2, … 19. It passes on what it has before it reads 15, and reads on nevertheless.
struct read_ahead {
  bool ready() const { return at != 15; }

  std::optional<int> next() {
    if (at == 10 && *is_broken) throw std::runtime_error("not needed");
    return at < 20 ? std::optional(at++) : std::nullopt;
  }

  const std::atomic<bool>* is_broken;
  int at = 0;
};

} // namespace

TEST_CASE("A sample that was read after a stage had enough may fail when the run is resumed") {
  const watchdog guard("a sample that isn't needed");
  std::atomic<bool> is_broken = false;
  const selection first = [](int n) { return n == 0; };
  const auto ahead = fl::from(read_ahead{&is_broken}) | fl::filter(first);
  // Checks the next item of a run that is resumed after each of the first ones.
  const auto check = [&](const auto& start, const auto& expected) {
    is_broken = false;
    std::vector<fl::checkpoint> places;
    auto whole = start(std::optional<fl::checkpoint>());
    for (int i = 0; i < 40; ++i) {
      REQUIRE(next_text(whole) == "0");
      places.push_back(whole.checkpoint());
    }
    whole.stop();
    is_broken = true;
    for (const fl::checkpoint& place : places) {
      const bool has_read_on = place.to_json().find("\"position\": 15,") != std::string::npos;
      auto resumed = start(std::optional(place));
      const std::string got = next_text(resumed);
      INFO(got);
      REQUIRE(expected(got, has_read_on));
    }
  };
  const auto is_next = [](const std::string& got, bool) { return got == "0"; };
  const auto whole_epochs = ahead | fl::prefetch(8192) | fl::take(1) | fl::prefetch(1);
  check([&](const auto& resume) { return whole_epochs.infinite({.resume = resume}); }, is_next);
  check([&](const auto& resume) { return whole_epochs.finite({.epochs = 50, .resume = resume}); }, is_next);
  // What a stage keeps over epochs would be another without the sample.
  const auto kept = ahead | difference() | fl::prefetch(8192) | fl::take(1) | fl::prefetch(1);
  check([&](const auto& resume) { return kept.finite({.epochs = 50, .resume = resume}); },
        [](const std::string& got, bool has_read_on) {
          return has_read_on ? got.find("not needed") != got.npos : got == "0";
        });
}

TEST_CASE("A rank that is resumed where a stage had enough continues at its position in the next epoch") {
  const auto check = [](const auto& pipeline) {
    for (const std::uint32_t rank : {0u, 1u, 2u})
      check_every_place(
          [&](const auto& resume) {
            return pipeline.infinite({.rank = {rank, 3}, .resume = resume});
          },
          40);
  };
  check(fl::from(count_to(50)) | fl::global_shuffle() | first_ones() | fl::prefetch(1));
  check(fl::from(count_to(50)) | fl::global_shuffle() | first_ones() | fl::batch(2));
  check(fl::from(count_to(50)) | first_ones() | fl::prefetch(1));
  check(fl::from(count_to(50)) | fl::global_shuffle() | fl::take(5) | fl::prefetch(1));
}

TEST_CASE("A run that is resumed where a stage after a queue had enough leaves out the rest of the epoch") {
  const watchdog guard("the rest of an epoch without an end");
  const auto endless = fl::generate(endless_numbers());
  const auto check = [](const auto& pipeline) {
    for (const int before : {4, 5, 6}) {
      auto whole = pipeline.infinite();
      for (int i = 0; i < before; ++i) whole.next();
      auto resumed = pipeline.infinite({.resume = fl::checkpoint::from_bytes(whole.checkpoint().to_bytes())});
      for (int i = 0; i < 7; ++i) REQUIRE(*resumed.next() == (before + i) % 5);
    }
  };
  check(endless | fl::prefetch(16) | fl::take(5));
  check(endless | fl::map(same, fl::workers{2}) | fl::take(5));
  check(endless | fl::prefetch(16) | first_ones() | fl::prefetch(1));
}

TEST_CASE("Threads that are resumed in different epochs each leave out the rest of their epoch") {
  const watchdog guard("the rest of epochs without an end");
  const auto check = [](const auto& pipeline) {
    const auto begin = [&](const auto& resume) { return pipeline.infinite({.resume = resume}); };
    check_every_place(begin, 40);
  };
  const auto endless = fl::generate(endless_numbers());
  check(endless | fl::prefetch(16) | fl::take(5) | fl::prefetch(64) | fl::take(3) | fl::prefetch(64));
  check(endless | fl::prefetch(1) | fl::take(7) | fl::prefetch(64) | fl::batch(3) | fl::prefetch(8) |
        fl::take(2));
  check(endless | fl::take(9) | fl::map(same, fl::workers{3}) | fl::take(5) | fl::prefetch(32) |
        first_ones());
  check(endless | fl::prefetch(4) | fl::take(6) | fl::shuffle({.capacity = 4}) | fl::prefetch(16) |
        fl::take(5) | fl::prefetch(16));
}

TEST_CASE("A run that is resumed twice fails where the first one did") {
  const mapping f = [](int n, fl::context&) {
    if (n == 40) throw std::runtime_error("bad");
    return n;
  };
  const auto check = [](const auto& p) {
    auto whole = p.finite();
    std::vector<std::string> expected;
    while (expected.empty() || !expected.back().ends_with("bad")) expected.push_back(next_text(whole));
    for (std::size_t first = 0; first < expected.size(); first += place_step)
      for (std::size_t second = first; second < expected.size(); second += 3 * place_step) {
        INFO("left after item " << first << " and after item " << second);
        auto run = p.finite();
        for (std::size_t i = 0; i < first; ++i) next_text(run);
        auto again = p.finite({.resume = fl::checkpoint::from_bytes(run.checkpoint().to_bytes())});
        for (std::size_t i = first; i < second; ++i) next_text(again);
        auto last = p.finite({.resume = fl::checkpoint::from_bytes(again.checkpoint().to_bytes())});
        for (std::size_t i = second; i < expected.size(); ++i) REQUIRE(next_text(last) == expected[i]);
      }
  };
  check(fl::from(count_to(60)) | fl::map(f) | fl::shuffle({.capacity = 20}));
  check(fl::from(count_to(60)) | fl::map(f, fl::workers{2}) | fl::shuffle({.capacity = 20}));
}

TEST_CASE("The failure limit continues to count when a run is resumed") {
  const mapping f = [](int n, fl::context&) {
    if (n % 5 == 3) throw std::runtime_error("bad " + std::to_string(n));
    return n;
  };
  const auto pipeline = fl::from(count_to(20)) | fl::map(f) | fl::batch(4);
  const fl::finite_options options{.on_error = fl::on_error::skip, .failure_limit = 2};
  auto whole = pipeline.finite(options);
  CHECK(next_text(whole) == "[bad 3] 0 1 2 4 ");
  CHECK(next_text(whole) == "[bad 8] 5 6 7 9 ");
  auto resumed = options;
  resumed.resume = fl::checkpoint::from_bytes(whole.checkpoint().to_bytes());
  auto again = pipeline.finite(resumed);
  for (auto* const loader : {&whole, &again})
    CHECK(next_text(*loader) == "map failed on sample 13: bad 13 (more failed samples than the limit of 2)");
  resumed.failure_limit = 3;
  auto third = pipeline.finite(resumed);
  CHECK(next_text(third) == "[bad 13] 10 11 12 14 ");
}

TEST_CASE("The failure limit also applies after workers and buffers") {
  const mapping f = [](int n, fl::context&) {
    if (n % 10 == 9) throw std::runtime_error("bad");
    return n;
  };
  for (const std::size_t workers : worker_counts) {
    const auto pipeline = fl::from(count_to(100)) | fl::map(f, fl::workers{workers}) |
                          fl::shuffle({.capacity = 16}) | fl::batch(7);
    auto loader = pipeline.finite({.on_error = fl::on_error::skip, .failure_limit = 4});
    std::set<int> seen;
    try {
      while (const auto batch = loader.next()) seen.insert(batch->values().begin(), batch->values().end());
      FAIL("five failures are too many");
    } catch (const fl::pipeline_error& error) {
      CHECK(error.failure().index == 49);
    }
    CHECK(seen.size() == 28); // of the 45 before the fifth failure 16 are in the buffer, and one in a batch

    const auto by_place =
        fl::from(count_to(100)) | fl::global_shuffle() | fl::map(f, fl::workers{workers}) | fl::batch(7);
    check_every_place(
        [&](const auto& resume) {
          return by_place.infinite(
              {.seed = 1, .on_error = fl::on_error::skip, .failure_limit = 12, .resume = resume});
        },
        30);
  }
}

TEST_CASE("An infinite run that never yields anything reports it") {
  const watchdog guard("an infinite run without items");
  const auto all = fl::from(count_to(10));
  const auto fails = [](const auto& pipeline) {
    auto loader = pipeline.infinite();
    return next_text(loader).find("would never yield anything") != std::string::npos;
  };
  CHECK(fails(all | fl::filter(none) | fl::batch(2)));
  CHECK(fails(all | fl::filter(none) | fl::prefetch(2)));
  CHECK(fails(all | fl::filter(none, fl::workers{2}) | fl::prefetch(2)));
  CHECK(fails(all | fl::filter(none, fl::workers{2}) | fl::shuffle({.capacity = 3}) | fl::batch(2)));
  CHECK(fails(all | fl::global_shuffle() | fl::filter(none, fl::workers{2}) | fl::batch(2)));
  CHECK(fails(all | fl::take(0) | fl::batch(2)));
  CHECK(fails(all | fl::skip(100) | fl::batch(2)));
  CHECK(fails(all | fl::filter(none) | fl::take(3) | fl::batch(2)));
  const auto buffer = fl::shuffle({.capacity = 4});
  CHECK(fails(all | buffer | fl::filter(none) | fl::batch(2)));
  CHECK(fails(all | buffer | fl::filter(none) | fl::prefetch(2)));
  CHECK(fails(all | buffer | fl::filter(none) | buffer | fl::batch(2)));
  CHECK(fails(all | buffer | fl::filter(none, fl::workers{64}) | fl::batch(2)));
  CHECK(fails(all | buffer | fl::take(0) | fl::batch(2)));
  const auto no_batch = fl::filter([](const auto&) { return false; });
  CHECK(fails(all | fl::batch(2) | no_batch | fl::prefetch(2)));
}

TEST_CASE("An infinite run in which everything fails ends by its limit or, without one, by itself") {
  const watchdog guard("an infinite run of failures");
  constexpr auto any_number = fl::no_failure_limit;
  const auto fails = [](const auto& pipeline, std::size_t limit, const std::string& words) {
    auto loader = pipeline.infinite({.on_error = fl::on_error::skip, .failure_limit = limit});
    const std::string text = next_text(loader);
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
    CHECK(text.find("failed on sample") != std::string::npos);
    CHECK(loader.failures().size() <= 2000);
  };
  const auto all = fl::from(count_to(10));
  const mapping refuse = [](int n, fl::context&) { return n >= 0 ? throw std::runtime_error("damaged") : n; };
  const auto fill = [](int n, fl::batch_slot<int>& slot) {
    slot.value() = n >= 0 ? throw std::runtime_error("damaged") : n;
  };
  const std::string by_itself = "would never yield anything",
                    by_limit = "more failed samples than the limit of 5";
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const fl::workers w{workers};
    for (const std::size_t limit : {std::size_t{5}, std::size_t{1000}, any_number}) {
      const std::string& words = limit == 5 ? by_limit : by_itself;
      fails(all | fl::map(refuse, w) | fl::batch(2), limit, words);
      fails(all | fl::map(refuse, w) | fl::prefetch(2), limit, words);
      fails(all | fl::map(refuse, w) | fl::shuffle({.capacity = 3}) | fl::batch(2), limit, words);
      fails(all | fl::global_shuffle() | fl::map(refuse, w) | fl::batch(2), limit, words);
      fails(all | fl::batch_into<int>(2, fill, w), limit, words);
      fails(all | fl::map(refuse) | fl::take(3) | fl::batch(2), limit, words);
      fails(all | fl::shuffle({.capacity = 3}) | fl::map(refuse, w) | fl::batch(2), limit, words);
      fails(all | fl::shuffle({.capacity = 3}) | fl::batch_into<int>(2, fill, w), limit, words);
      fails(all | fl::shuffle({.capacity = 3}) | fl::map(refuse, w) | fl::prefetch(2), limit, words);
    }
  }
  // Those that succeed later are waited for.
  const mapping heals = [](int n, fl::context& c) {
    return c.epoch < 20 ? throw std::runtime_error("damaged") : n;
  };
  auto loader = (all | fl::map(heals, fl::workers{2}) | fl::shuffle({.capacity = 3}) | fl::batch(2))
                    .infinite({.on_error = fl::on_error::skip, .failure_limit = any_number});
  CHECK(loader.next().value().epoch() == 20);
  auto behind = (all | fl::shuffle({.capacity = 3}) | fl::map(heals, fl::workers{2}) | fl::batch(2))
                    .infinite({.on_error = fl::on_error::skip, .failure_limit = any_number});
  CHECK(behind.next().value().epoch() == 20);
}

TEST_CASE("An infinite run that needs several epochs for an item continues") {
  auto loader =
      (fl::from(count_to(3)) | fl::shuffle({.capacity = 7, .min_fill = 7}) | fl::batch(10)).infinite();
  CHECK(loader.next().value().size() == 10);
  // Hundreds of epochs fill a buffer, and hundreds a batch.
  for (const std::size_t workers : {1u, 64u}) {
    auto slow = (fl::from(count_to(2)) | fl::shuffle({.capacity = 900, .min_fill = 900}) |
                 fl::map(same, fl::workers{workers}) | fl::batch(1'500) | fl::prefetch(2))
                    .infinite();
    CHECK(slow.next().value().size() == 1'500);
    CHECK(slow.next().value().size() == 1'500);
  }
}

TEST_CASE("Ranks of a source that doesn't know of them have different samples, also with take()") {
  for (const std::size_t capacity : {0u, 1u, 100u})
    for (std::uint32_t number = 0; number < 2; ++number) {
      auto loader = (fl::from(count_to(12)) | fl::map(same, fl::workers{2}) | fl::take(3) | fl::batch(3))
                        .infinite({.queue_capacity = capacity, .rank = {number, 2}});
      for (int epoch = 0; epoch < 5; ++epoch) CHECK(next_text(loader) == (number == 0 ? "0 2 4 " : "1 3 5 "));
    }
}

TEST_CASE("A rank that occasionally gets an empty file continues") {
  const watchdog guard("an empty file");
  const temporary_folder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i)
    names.push_back(folder.write(std::to_string(i), i == 1 ? "" : "1\n2\n3\n4\n5\n"));
  for (std::uint32_t number = 0; number < 2; ++number) {
    auto loader = (fl::lines(names) | fl::batch(2)).infinite({.seed = 3, .rank = {number, 2}});
    for (int i = 0; i < 300; ++i) REQUIRE(loader.next());
  }
}

TEST_CASE("A source isn't called after its end, however ranks handle the remainder") {
  struct counted {
    std::optional<int> next() {
      if (has_ended) throw std::logic_error("asked behind its end");
      if (at == 5) has_ended = true;
      return has_ended ? std::nullopt : std::optional(at++);
    }

    int at = 0;
    bool has_ended = false;
  };

  for (const auto rest : {fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep})
    for (std::uint32_t number = 0; number < 4; ++number) {
      const auto result =
          run_to_end((counted() | fl::prefetch(2)).finite({.epochs = 2, .rank = {number, 4, rest}}));
      CHECK_FALSE(result.failed);
    }
}

TEST_CASE("A failure after an epoch's last good sample is reported once") {
  const mapping f = [](int n, fl::context&) {
    if (n == 3) throw std::runtime_error("bad");
    return n;
  };
  const auto pipeline = fl::from(count_to(10)) | fl::global_shuffle() | fl::map(f) | fl::batch(4);
  for (std::uint64_t seed = 0; seed < rounds(30U); ++seed)
    check_every_place(
        [&](const auto& resume) {
          return pipeline.finite({.seed = seed,
                                  .epochs = 3,
                                  .on_error = fl::on_error::skip,
                                  .failure_limit = 3,
                                  .resume = resume});
        },
        20);
}

TEST_CASE("A data set that has grown grows after the current epoch, wherever the caller is") {
  const auto check = [](const auto& make) {
    for (const bool finite : {false, true})
      for (int cut = 0; cut < 12; ++cut) {
        std::map<std::uint32_t, std::multiset<std::uint64_t>> seen;
        const auto start = [&](const auto& pipeline, const std::optional<fl::checkpoint>& resume) {
          const bool grown = resume.has_value();
          if (finite)
            return pipeline.finite({.seed = 1, .epochs = 12, .resume = resume, .allow_grown_data = grown});
          return pipeline.infinite({.seed = 1, .resume = resume, .allow_grown_data = grown});
        };
        const auto take = [&](auto& loader, int batches) {
          for (int i = 0; i < batches; ++i) {
            const auto batch = loader.next();
            if (!batch) return;
            for (const fl::sample_id& id : batch->ids()) seen[id.epoch].insert(id.index);
          }
        };
        auto first = start(make(3), {});
        take(first, cut);
        auto second = start(make(5), first.checkpoint());
        take(second, 3);
        auto third = start(make(5), second.checkpoint()); // it knows the last epoch of the old data set
        take(third, 12);
        INFO("cut " << cut << (finite ? ", finite" : ", infinite"));
        bool has_grown = false;
        for (const auto& [epoch, indices] : seen) {
          INFO("epoch " << epoch << " has " << indices.size() << " samples");
          CHECK(std::set<std::uint64_t>(indices.begin(), indices.end()).size() == indices.size());
          if (epoch == seen.rbegin()->first) continue;
          has_grown = has_grown || indices.size() == 5;
          CHECK(indices.size() == (has_grown ? 5 : 3));
        }
      }
  };
  check([](int size) { return fl::from(count_to(size)) | fl::batch(2); });
  check([](int size) { return fl::from(count_to(size)) | fl::map(same, fl::workers{2}) | fl::batch(2); });
  check([](int size) { return fl::from(count_to(size)) | fl::global_shuffle() | fl::batch(2); });
  check([](int size) {
    return fl::from(count_to(size)) | fl::global_shuffle() |
           fl::flat_map([](int n) { return std::vector{n}; }, fl::workers{2}) | fl::batch(2);
  });
}

TEST_CASE("An index() that throws is a failure of its sample") {
  struct set {
    std::optional<int> next() { return std::nullopt; }

    std::uint64_t size() const { return 30; }

    int at(std::uint64_t place) const { return static_cast<int>(place); }

    std::uint64_t index_at(std::uint64_t place) const {
      if (place == 25) throw std::runtime_error("no index");
      return place;
    }
  };

  const auto check = [](const auto& pipeline) {
    const auto result = run_to_end(pipeline.finite({.on_error = fl::on_error::skip}));
    CHECK(result.items.size() == 29);
    CHECK(result.skipped.size() == 1);
  };
  check(set() | fl::global_shuffle() | fl::map(same, fl::workers{2}) | fl::prefetch(3));
  check(set() | fl::global_shuffle() | fl::prefetch(3));

  struct rows {
    std::optional<int> next() { return at < 12 ? std::optional(at++) : std::nullopt; }

    std::uint64_t index() const {
      if (at == 5) throw std::runtime_error("no index");
      return static_cast<std::uint64_t>(at);
    }

    int at = 0;
  };

  const auto by_one_thread = fl::from(rows()) | fl::batch(1);
  check_every_place(
      [&](const auto& resume) {
        return by_one_thread.finite({.epochs = 2, .on_error = fl::on_error::skip, .resume = resume});
      },
      24);
}

namespace {

/// Has enough after five items of each epoch.
struct five {
  static constexpr fl::stage_traits traits{.ends_epochs = true};
  using output = int;

  void operator()(int n, auto& emit) {
    emit(n);
    if (++count >= 5) emit.enough();
  }

  void end_epoch() { count = 0; }

  bool has_enough() const { return count >= 5; }

  void state(auto& archive) { archive(count); }

  int count = 0;
};

} // namespace

TEST_CASE("A stage that has enough receives nothing more of the epoch, not even items that a buffer drains") {
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{4}, std::size_t{1000}}) {
    const auto pipeline = fl::from(count_to(9)) | fl::shuffle({.capacity = 4}) | five();
    const auto start = [&](const auto& resume) {
      return pipeline.finite({.seed = 1, .epochs = 3, .queue_capacity = capacity, .resume = resume});
    };
    int items = 0;
    for (auto loader = start(std::optional<fl::checkpoint>()); loader.next();) ++items;
    CHECK(items == 15);
    check_every_place(start, 20);
  }
}

TEST_CASE("Elements that a range yielded before it failed aren't repeated") {
  const watchdog guard("a range that fails in its middle");
  for (const bool is_batched : {true, false})
    for (int taken = 1; taken < 20; ++taken) {
      std::atomic<bool> is_broken = true;
      const auto parts = fl::from(count_to(10)) | fl::flat_map([&](int n) {
                           return std::views::iota(10 * n, 10 * n + 3) | std::views::transform([&](int part) {
                                    if (part == 32 && is_broken) throw std::runtime_error("broken");
                                    return part;
                                  });
                         });
      const auto check = [&](const auto& pipeline) {
        is_broken = true;
        auto first = pipeline.finite();
        std::vector<int> all;
        fl::checkpoint place = first.checkpoint();
        const auto take = [&](auto& loader, int most) {
          try {
            for (int i = 0; i < most; ++i) {
              auto item = loader.next();
              if (!item) break;
              all.insert(all.end(), item->values().begin(), item->values().end());
            }
          } catch (const fl::pipeline_error&) {
          }
        };
        take(first, taken);
        place = first.checkpoint();
        is_broken = false;
        auto again = pipeline.finite({.resume = place});
        take(again, 100);
        std::vector<int> once = all;
        std::sort(once.begin(), once.end());
        CHECK(std::adjacent_find(once.begin(), once.end()) == once.end());
      };
      if (is_batched) check(parts | fl::batch(4));
      else check(parts | fl::shuffle({.capacity = 5}) | fl::batch(1));
    }
}
