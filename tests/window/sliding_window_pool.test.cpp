// SPDX-License-Identifier: MIT
#include <feedline/window/sliding_window_pool.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <dirent.h>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
namespace fs = std::filesystem;
using namespace feedline::test;
using strings = std::vector<std::string>;

namespace {

/// Blocks threads until it is opened or stopped.
class gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

  void wait(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, stop, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any opened_;
  bool is_open_ = false;
};

/// Chunks "a0", "a1" … whose contents are their keys.
struct letters {
  std::string name;
  std::uint64_t count = 0;
  std::shared_ptr<gate> opens{}; // index() waits for it
  bool breaks = false;

  void index(const std::stop_token& stop) const {
    if (opens) opens->wait(stop);
    if (breaks) throw std::runtime_error(name + " can't be indexed");
  }

  std::uint64_t size() const { return count; }

  std::string key(std::uint64_t i) const { return name + std::to_string(i); }

  std::string read(std::uint64_t i) const { return key(i); }
};

static_assert(fl::chunk_source<letters>);
static_assert(fl::chunk_source<fl::chunk_file>);
using live_pool = fl::sliding_window_pool<fl::push_source<letters>>;
static_assert(fl::source<live_pool>);
static_assert(live_pool::traits.live);
static_assert(std::is_same_v<fl::source_item_t<live_pool>, fl::pool_chunk<letters>>);

/// Reports the count of failures that it is set to.
struct fake_outcomes final : fl::sample_outcomes {
  std::uint64_t failed_in_row() override { return failed; }

  std::atomic<std::uint64_t> failed = 0;
};

/// A pool of pushed letters, and an infinite run of it that the test calls.
class live_run {
 public:
  explicit live_run(const fl::pool_options& options, std::vector<letters> old = {}) : pool(pushed, options) {
    for (letters& l : old) pushed.push(std::move(l));
    begin();
  }

  void begin() {
    source.emplace(pool);
    fl::epoch e;
    e.endless = true;
    e.seed = 7;
    e.stop = stop.get_token();
    e.outcomes = &outcomes;
    source->start_epoch(e);
    await_all_others_asleep(); // until the start is indexed
  }

  /// Pushes letters and waits until they are in the window.
  void add(const letters& l) {
    const std::uint64_t before = pool.status().indexed;
    pushed.push(l);
    while (pool.status().indexed != before + l.count) std::this_thread::yield();
  }

  std::string next() { return source->next().value().read(); }

  strings next(std::size_t count) {
    strings all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(next());
    return all;
  }

  fl::push_source<letters> pushed;
  fl::sliding_window_pool<fl::push_source<letters>> pool;
  std::stop_source stop;
  fake_outcomes outcomes;
  std::optional<live_pool> source;
};

strings sorted(strings all) {
  std::sort(all.begin(), all.end());
  return all;
}

using reading = std::function<std::string(const fl::pool_chunk<letters>&)>;

const reading read_letter = fl::read_chunk;

template <class Loader>
strings all_of(Loader loader) {
  strings all;
  for (auto& text : loader) all.push_back(std::move(text));
  return all;
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const auto read_text = [](const fl::pool_chunk<>& chunk) { return as_text(chunk.read()); };

std::size_t descriptors() {
  std::size_t count = 0;
  DIR* const all = ::opendir("/proc/self/fd");
  while (::readdir(all)) ++count;
  ::closedir(all);
  return count;
}

} // namespace

TEST_CASE(
    "A finite run gives each chunk of the window once, in an order of the seed, for any number of threads") {
  const watchdog guard("a finite pool");
  std::vector<letters> sources;
  std::set<std::string> newest;
  for (char name = 'a'; name <= 'z'; ++name)
    sources.push_back({std::string(1, name), static_cast<std::uint64_t>(name - 'a') % 5}); // some are empty
  for (auto s = sources.rbegin(); s != sources.rend(); ++s)
    for (std::uint64_t i = s->count; i > 0 && newest.size() < 20; --i) newest.insert(s->key(i - 1));
  const auto run = [&](std::size_t index_threads, std::size_t workers, std::uint64_t seed) {
    fl::sliding_window_pool pool(fl::from(sources), {.window = 20, .index_threads = index_threads});
    return all_of((pool | fl::map(read_letter, fl::workers{workers})).finite({.seed = seed}));
  };
  const strings all = run(1, 1, 7);
  CHECK(sorted(all) == strings(newest.begin(), newest.end()));
  CHECK(all != sorted(all));
  for (const std::size_t threads : {2u, 64u}) {
    CHECK(run(threads, 1, 7) == all);
    CHECK(run(1, threads, 7) == all);
  }
  CHECK(run(1, 1, 8) != all);
}

TEST_CASE("With newest_first the first sources are the newest") {
  const std::vector<letters> sources{{"c", 3}, {"b", 3}, {"a", 3}};
  fl::sliding_window_pool pool(fl::from(sources), {.window = 5, .newest_first = true});
  const reading read = [](const auto& c) { return c.key() + ":" + std::to_string(c.number()); };
  auto run = (pool | fl::map(read)).finite();
  CHECK(sorted(all_of(std::move(run))) == strings{"b1:-5", "b2:-4", "c0:-3", "c1:-2", "c2:-1"});
  CHECK(pool.status().sources == 2);
  CHECK(pool.status().indexed == 6); // not the oldest
}

TEST_CASE("Each pass yields all chunks of the window, and the end of the first one is reported once") {
  const watchdog guard("passes");
  strings said;
  live_run r({.window = 10, .on_notice = [&](const std::string& s) { said.push_back(s); }},
             {{"a", 3}, {"b", 4}});
  const strings all{"a0", "a1", "a2", "b0", "b1", "b2", "b3"};
  CHECK(sorted(r.next(7)) == all);
  REQUIRE(said.size() == 1);
  CHECK(said[0] == "sliding_window_pool: starts with 7 chunks of 2 sources");
  std::set<strings> orders;
  for (int pass = 0; pass < 10; ++pass) {
    const strings order = r.next(7);
    REQUIRE(sorted(order) == all);
    orders.insert(order);
  }
  CHECK(orders.size() == 10);
  REQUIRE(said.size() == 2);
  CHECK(said[1].starts_with("sliding_window_pool: all 7 chunks of the window have been used"));
  CHECK(r.pool.status().passes == 10);

  said.clear();
  live_run each(
      {.window = 10, .on_notice = [&](const std::string& s) { said.push_back(s); }, .notice_each_pass = true},
      {{"a", 3}, {"b", 4}});
  each.next(4 * 7);
  REQUIRE(said.size() >= 4);
  CHECK(said[1].find("chunks of the window have been used, and are used again") != std::string::npos);
  CHECK(said[3].find("chunks of the window have been used 3 times, and are used again") != std::string::npos);
}

TEST_CASE("New chunks join the current pass, and chunks that leave the window are not yielded") {
  const watchdog guard("a window that moves");
  for (int seed = 0; seed < 20; ++seed) {
    live_run r({.window = 8}, {{"a", 4}, {"b", 4}});
    std::set<std::string> left{"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"};
    const auto take = [&](int count) {
      for (; count > 0; --count) REQUIRE(left.erase(r.next()) == 1);
    };
    take(3);
    r.add({"c", 3});
    for (const char* gone : {"a0", "a1", "a2"}) left.erase(gone);
    left.insert({"c0", "c1", "c2"});
    CHECK(r.pool.status().sources == 3);
    CHECK(r.pool.status().chunks == 8);
    take(2);
    r.add({"d", 20}); // larger than the window
    left.clear();
    for (int i = 12; i < 20; ++i) left.insert(std::string("d") + std::to_string(i));
    CHECK(r.pool.status().sources == 1);
    take(8);
    CHECK(left.empty());
    CHECK(r.pool.status().passes == 0);
    CHECK(r.next().starts_with("d"));
    CHECK(r.pool.status().passes == 1);
    CHECK(r.pool.status().indexed == 31);
  }
}

TEST_CASE("Each chunk is equally likely to be the first of a pass") {
  live_run r({.window = 10}, {{"a", 1}, {"b", 7}, {"c", 2}});
  constexpr int passes = 3000;
  std::map<std::string, int> seen;
  for (int pass = 0; pass < passes; ++pass) ++seen[r.next(10).front()];
  CHECK(seen.size() == 10);
  double chi = 0;
  for (const auto& [key, count] : seen)
    chi += (count - passes / 10.0) * (count - passes / 10.0) / (passes / 10.0);
  CHECK(chi < 30); // 9 degrees of freedom: exceeded once in 2,000 times
}

TEST_CASE("The first chunk is yielded when the window holds the start, or min_fill chunks") {
  const watchdog guard("a start");
  const auto door = std::make_shared<gate>();
  live_run r({.window = 5, .index_threads = 2}, {{"a", 4}, {"b", 4, door}, {"c", 4}});
  while (r.pool.status().indexed < 4) std::this_thread::yield();
  CHECK(!r.source->ready());
  door->open();
  CHECK(sorted(r.next(5)) == strings{"b3", "c0", "c1", "c2", "c3"});
  CHECK(r.pool.status().indexed == 8); // not those that don't fit

  const auto late = std::make_shared<gate>();
  live_run early({.window = 50, .min_fill = 3}, {{"a", 4, late}, {"b", 4}});
  const strings first = early.next(2);
  late->open();
  while (early.pool.status().indexed < 8) std::this_thread::yield();
  strings all = early.next(6); // older chunks join the pass
  all.insert(all.end(), first.begin(), first.end());
  CHECK(sorted(all) == strings{"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"});

  live_run more({.window = 50, .min_fill = 3}, {{"a", 2}});
  while (more.pool.status().indexed < 2) std::this_thread::yield();
  CHECK(!more.source->ready());
  more.add({"b", 1});
  CHECK(sorted(more.next(3)) == strings{"a0", "a1", "b0"});

  live_run none({.window = 50});
  CHECK(!none.source->ready());
  none.add({"b", 1});
  CHECK(none.next() == "b0");
}

TEST_CASE("Sources enter the window in their order, whichever is indexed first") {
  const watchdog guard("an order");
  const auto door = std::make_shared<gate>();
  live_run r({.window = 100, .index_threads = 3});
  r.pushed.push({"a", 2, door});
  r.pushed.push({"b", 2});
  r.pushed.push({"c", 2});
  CHECK(!r.source->ready());
  door->open();
  while (r.pool.status().indexed < 6) std::this_thread::yield();
  std::map<std::string, std::int64_t> numbers;
  for (int i = 0; i < 6; ++i) {
    const auto chunk = *r.source->next();
    numbers[chunk.key()] = chunk.number();
  }
  CHECK(numbers == std::map<std::string, std::int64_t>{
                       {"a0", 0}, {"a1", 1}, {"b0", 2}, {"b1", 3}, {"c0", 4}, {"c1", 5}});
}

TEST_CASE("Random keys differ by chunk and pass, and depend on the seed") {
  const auto keys = [](std::uint64_t seed) {
    fl::sliding_window_pool once(fl::from(std::vector<letters>{{"a", 10}}), {.window = 10});
    const reading read = [](const auto& c) { return std::to_string(c.random_key()); };
    return all_of((once | fl::map(read)).finite({.seed = seed}));
  };
  CHECK(keys(1) == keys(1));
  CHECK(keys(1) != keys(2));
  live_run r({.window = 10}, {{"a", 10}});
  std::set<std::uint64_t> all;
  for (int i = 0; i < 50; ++i) all.insert(r.source->next().value().random_key());
  CHECK(all.size() == 50);
}

TEST_CASE("Chunks are accepted with their probability") {
  const watchdog guard("acceptance");
  live_run r(
      {.window = 10,
       .accept = [](const std::string& key, std::uint64_t) { return key == "a0" ? 0.25 : key == "a1"; }},
      {{"a", 3}});
  int quarter = 0;
  for (int pass = 0; pass < 1000; ++pass)
    while (r.next() != "a1") ++quarter;
  CHECK(quarter > 200);
  CHECK(quarter < 300);
  CHECK(r.pool.status().rejected > 1700);

  live_run none({.window = 10, .accept = [](const std::string& key, std::uint64_t) { return key[0] == 'b'; }},
                {{"a", 3}});
  CHECK(throws_saying<std::runtime_error>("accept returned 0 for all 3 chunks", [&] { none.next(); }));
  CHECK(!none.source->ready());
  none.add({"b", 1});
  CHECK(none.next(3) == strings{"b0", "b0", "b0"});

  int calls = 0;
  live_run odd({.window = 10,
                .accept = [&](const std::string&,
                              std::uint64_t) { return ++calls == 1 ? 1.5
                                                      : calls == 2 ? std::nan("")
                                                                   : 1; }},
               {{"a", 3}});
  CHECK(throws_saying<std::runtime_error>("accept returned 1.5", [&] { odd.next(); }));
  CHECK_THROWS_AS(odd.next(), std::runtime_error);
  odd.next();

  fl::sliding_window_pool nothing(fl::from(std::vector<letters>{{"a", 3}}),
                                  {.accept = [](const std::string&, std::uint64_t) { return 0.0; }});
  const auto no_chunks = nothing | fl::map(read_letter);
  CHECK(no_chunks.finite().next() == std::nullopt);
  auto endless = no_chunks.infinite();
  CHECK(throws_saying<fl::pipeline_error>("accept returned 0", [&] { endless.next(); }));
}

TEST_CASE("An anchor counts the chunks that are newer") {
  const watchdog guard("an anchor");
  live_run r({.window = 6}, {{"a", 4}, {"b", 4}});
  r.next();
  CHECK(r.pool.anchor().empty());
  CHECK(r.pool.chunks_since_anchor() == 8);
  CHECK(r.pool.reset_anchor() == "b3");
  CHECK(r.pool.chunks_since_anchor() == 0);
  r.add({"c", 2});
  r.add({"d", 9});
  CHECK(r.pool.chunks_since_anchor() == 11);
  r.pool.set_anchor("d1");
  CHECK(r.pool.chunks_since_anchor() == 7);
  r.pool.set_anchor("nothing"); // all
  CHECK(r.pool.chunks_since_anchor() == 19);
  r.pool.set_anchor("e1"); // a later chunk
  r.add({"e", 4});
  CHECK(r.pool.chunks_since_anchor() == 2);
  CHECK(r.pool.anchor() == "e1");
}

TEST_CASE("An anchor that is reset before the first chunk counts all") {
  const watchdog guard("an anchor before all chunks");
  live_run r({.window = 6});
  CHECK(r.pool.reset_anchor().empty());
  r.add({"a", 4});
  CHECK(r.pool.chunks_since_anchor() == 4);
}

TEST_CASE("An anchor survives a restart") {
  const watchdog guard("an anchor of another process");
  const std::vector<letters> sources{{"a", 4}, {"b", 4}, {"c", 4}};
  const auto since = [&](const std::string& anchor, std::uint64_t window, std::size_t threads) {
    fl::sliding_window_pool pool(fl::from(sources), {.window = window, .index_threads = threads});
    pool.set_anchor(anchor);
    CHECK(pool.anchor() == anchor);
    all_of((pool | fl::map(read_letter)).finite());
    const auto count = pool.chunks_since_anchor(); // after the end of the run
    CHECK(pool.reset_anchor() == "c3");
    CHECK(pool.chunks_since_anchor() == 0);
    return count;
  };
  for (const std::size_t threads : {1u, 4u}) {
    CHECK(since("b1", 12, threads) == 6);
    CHECK(since("c3", 12, threads) == 0);
    CHECK(since("a0", 12, threads) == 11);
    CHECK(since("a0", 5, threads) == 8); // more isn't indexed
    CHECK(since("", 12, threads) == 12);
  }
}

TEST_CASE("A source that can't be indexed is a failure at its position, and the rest is yielded") {
  const watchdog guard("failures");
  std::vector<letters> sources{{"a", 2}, {"b", 2, {}, true}, {"c", 2}, {"d", 2, {}, true}};
  for (const std::size_t threads : {1u, 3u}) {
    fl::sliding_window_pool pool(fl::from(sources), {.index_threads = threads});
    auto skipping = (pool | fl::map(read_letter)).finite({.on_error = fl::on_error::skip});
    strings all;
    while (auto text = skipping.next()) all.push_back(*text);
    CHECK(sorted(all) == strings{"a0", "a1", "c0", "c1"});
    const auto failures = skipping.failures();
    REQUIRE(failures.size() == 2);
    CHECK(failures[0].message == "d can't be indexed"); // the newest first
    CHECK(failures[1].message == "b can't be indexed");
    CHECK(failures[0].stage == "sliding_window_pool");
    auto failing = (pool | fl::map(read_letter)).finite();
    CHECK(throws_saying<fl::pipeline_error>("d can't be indexed", [&] { failing.next(); }));
  }
  // Many failures that nobody takes.
  std::vector<letters> bad(500, letters{"x", 1, {}, true});
  fl::sliding_window_pool pool(fl::from(bad), {.index_threads = 2});
  auto run = (pool | fl::map(read_letter)).finite({.on_error = fl::on_error::skip, .failure_limit = 1000});
  CHECK(!run.next());
  CHECK(run.failures().size() == 500);
  const auto left = (pool | fl::map(read_letter)).finite(); // a run that is abandoned
}

TEST_CASE("A chunk that can't be read is a failure each time, until it can be") {
  const watchdog guard("a chunk that heals");
  fl::sliding_window_pool pool(fl::from(std::vector<letters>{{"a", 4}}));
  const reading read = [](const fl::pool_chunk<letters>& chunk) {
    if (chunk.key() == "a2" && chunk.pass() < 3) throw std::runtime_error("a2 can't be read now");
    return chunk.read();
  };
  auto run = (pool | fl::map(read, fl::workers{2})).infinite({.on_error = fl::on_error::skip});
  for (int pass = 0; pass < 8; ++pass) {
    strings all;
    for (int i = 0; i < (pass < 3 ? 3 : 4); ++i) all.push_back(*run.next());
    CHECK(sorted(all) == (pass < 3 ? strings{"a0", "a1", "a3"} : strings{"a0", "a1", "a2", "a3"}));
  }
  CHECK(run.failures().size() == 3);
  CHECK(run.failures()[0].message == "a2 can't be read now");
}

TEST_CASE("While all chunks of the window fail, pauses between passes grow") {
  using clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  const watchdog guard("pauses");
  strings said;
  live_run r({.window = 4, .on_notice = [&](const std::string& s) { said.push_back(s); }}, {{"a", 4}});
  const auto time_of_pass = [&] {
    const auto begin = clock::now();
    CHECK(sorted(r.next(4)) == strings{"a0", "a1", "a2", "a3"});
    return clock::now() - begin;
  };
  const auto pauses = [&] {
    return std::count_if(said.begin(), said.end(), [](const std::string& s) {
      return s.starts_with("sliding_window_pool: all 4 chunks of the window failed");
    });
  };
  r.outcomes.failed = 10; // workers may be processing good chunks
  r.next(8);
  CHECK(r.source->ready());
  r.outcomes.failed = 1'000'000;
  CHECK(!r.source->ready());
  CHECK(time_of_pass() >= milliseconds(100));
  CHECK(time_of_pass() >= milliseconds(200));
  CHECK(pauses() == 1);

  CHECK(!r.source->ready());
  r.add({"b", 1}); // yielded at once
  CHECK(r.source->ready());
  CHECK(r.next() == "b0");
  CHECK(!r.source->ready());
  r.outcomes.failed = 0;
  CHECK(r.source->ready());
  CHECK(sorted(r.next(4)) == strings{"a1", "a2", "a3", "b0"});
  r.outcomes.failed = 1'000'000;
  CHECK(r.next().size() == 2); // after the first pause again
  CHECK(pauses() == 2);
}

TEST_CASE("A window of failing chunks isn't read continuously, and a good one is yielded at once") {
  const watchdog guard("a window of bad chunks");
  for (const bool reading_fails : {true, false}) {
    for (const std::size_t workers : {1u, 3u}) {
      gate rests;
      std::atomic<std::chrono::steady_clock::time_point> begin; // of the first pause
      fl::push_source<letters> pushed;
      pushed.push({"bad", 3});
      fl::sliding_window_pool pool(pushed, {.window = 10, .on_notice = [&](const std::string& s) {
                                              if (s.find("of the window failed") == s.npos) return;
                                              begin = std::chrono::steady_clock::now();
                                              rests.open();
                                            }});
      const auto load = [&](const fl::pool_chunk<letters>& chunk) {
        if (reading_fails && chunk.key()[0] == 'b') throw std::runtime_error("can't be read");
        return chunk.read();
      };
      const auto parse = [](std::string text) {
        if (text[0] == 'b') throw std::runtime_error("can't be parsed");
        return text;
      };
      auto run = (pool | fl::map(load, fl::workers{workers}) | fl::map(parse, fl::workers{workers}))
                     .infinite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000'000});
      std::chrono::steady_clock::duration time_of_two{};
      std::thread later([&] {
        rests.wait({});
        const auto passes = pool.status().passes;
        while (pool.status().passes < passes + 2) std::this_thread::yield();
        time_of_two = std::chrono::steady_clock::now() - begin.load();
        pushed.push({"good", 1});
      });
      CHECK(run.next() == "good0");
      later.join();
      CHECK(time_of_two > std::chrono::milliseconds(250)); // 0.1 and 0.2 s
    }
  }
}

TEST_CASE(
    "A window of which one chunk is good is read without pauses, also while a buffer downstream fills") {
  const watchdog guard("a window with a good chunk");
  std::atomic<bool> paused = false;
  fl::sliding_window_pool pool(fl::from(std::vector<letters>{{"bad", 9}, {"good", 1}}),
                               {.on_notice = [&](const std::string& s) {
                                 if (s.find("of the window failed") != s.npos) paused = true;
                               }});
  const reading load = [](const fl::pool_chunk<letters>& chunk) {
    if (chunk.key()[0] == 'b') throw std::runtime_error("can't be read");
    return chunk.read();
  };
  auto run = (pool | fl::map(load, fl::workers{2}) | fl::shuffle({.capacity = 1000, .min_fill = 1000}))
                 .infinite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000'000});
  REQUIRE(run.next());
  CHECK(pool.status().passes > 900);
  CHECK(!paused);
}

TEST_CASE("A pause between passes ends with a stop") {
  const watchdog guard("a stop in a pause");
  for (int times = 0; times < 20; ++times) {
    live_run r({.window = 4}, {{"a", 4}});
    r.outcomes.failed = 1'000'000;
    r.next(4);
    std::thread stopper([&] { r.stop.request_stop(); });
    CHECK(!r.source->next()); // after the pause it would return a chunk
    stopper.join();
  }
}

TEST_CASE("Each rank has all chunks, in its own order") {
  fl::sliding_window_pool pool(fl::from(std::vector<letters>{{"a", 20}}));
  std::set<strings> orders;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto run = (pool | fl::map(read_letter)).infinite({.rank = {rank, 3}});
    strings all;
    for (int n = 0; n < 20; ++n) all.push_back(*run.next());
    CHECK(std::set<std::string>(all.begin(), all.end()).size() == 20);
    orders.insert(all);
  }
  CHECK(orders.size() == 3);
}

TEST_CASE("An exception of the upstream source is a failure, and the run continues") {
  const watchdog guard("a failing source");
  const auto upstream = fl::from(std::vector<letters>{{"a", 1}, {"b", 1}, {"c", 1}}) | fl::map([](letters l) {
                          if (l.name == "b") throw std::runtime_error("no b");
                          return l;
                        });
  fl::sliding_window_pool pool(upstream);
  auto run = (pool | fl::map(fl::read_chunk)).finite({.on_error = fl::on_error::skip});
  strings all;
  while (auto text = run.next()) all.push_back(*text);
  CHECK(sorted(all) == strings{"a0", "c0"});
  REQUIRE(run.failures().size() == 1);
  CHECK(run.failures()[0].message.find("no b") != std::string::npos);

  fl::push_source<letters> failing;
  failing.push({"a", 1});
  failing.fail(std::runtime_error("gone"));
  auto live = (fl::sliding_window_pool(failing) | fl::map(fl::read_chunk)).infinite();
  CHECK(throws_saying<fl::pipeline_error>("gone", [&] {
    while (live.next()) continue;
  }));
}

TEST_CASE("An empty pool ends, and an infinite run continues after the end of its source") {
  const watchdog guard("endings");
  const auto pipeline = [](std::vector<letters> sources) {
    return fl::sliding_window_pool(fl::from(std::move(sources)), {.min_fill = 5}) | fl::map(read_letter);
  };
  CHECK(!pipeline({{"a", 0}}).finite().next());
  CHECK(!pipeline({{"a", 0}}).infinite().next());
  auto endless = pipeline({{"a", 2}}).infinite();
  for (int i = 0; i < 1000; ++i) REQUIRE(endless.next());
  endless.stop();
  CHECK(pipeline({{"a", 2}}).finite().next());
}

TEST_CASE("A run is closed: what was yielded is delivered, whatever it waits for") {
  const watchdog guard("closes");
  for (const int what : {0, 1, 2, 3}) {
    for (const std::size_t workers : {1u, 3u}) {
      fl::push_source<letters> pushed;
      fl::sliding_window_pool pool(pushed, {.window = 10});
      const auto blocks = std::make_shared<gate>();
      if (what == 0) pushed.push({"a", 5, blocks}); // it is being indexed
      if (what > 1) pushed.push({"b", 5});
      auto run =
          (pool | fl::map(fl::read_chunk, fl::workers{workers}) | fl::batch(3, fl::as_list)).infinite();
      std::size_t chunks = 0;
      if (what > 1) {
        const auto first = run.next();
        chunks += first->size();
      }
      if (what == 3) await_all_others_asleep(); // all queues are full
      run.close();
      while (const auto b = run.next()) chunks += b->size();
      const auto m = run.metrics().total;
      CHECK(chunks == m.stages[0].emitted);
      CHECK((what > 1) == (chunks > 0));
      CHECK(run.state() == fl::run_state::finished);
      run.close(); // no effect
      CHECK(run.state() == fl::run_state::finished);
      if (what == 0) blocks->open();
    }
  }
  fl::push_source<letters> pushed;
  auto run = (fl::sliding_window_pool(pushed, {.window = 10}) | fl::prefetch(1)).infinite();
  run.stop();
  run.close();
  CHECK(run.state() == fl::run_state::stopped);
}

TEST_CASE("A run can be stopped while it indexes, waits or yields chunks") {
  const watchdog guard("stops");
  for (const int what : {0, 1, 2, 3}) {
    for (int times = 0; times < 20; ++times) {
      fl::push_source<letters> pushed;
      fl::sliding_window_pool pool(pushed, {.window = 10, .index_threads = 3});
      if (what == 0) pushed.push({"a", 5, std::make_shared<gate>()});
      if (what > 1) pushed.push({"b", 5});
      std::stop_source stop;
      auto run = (pool | fl::map(fl::read_chunk, fl::workers{2}) | fl::batch(3, fl::as_list))
                     .infinite({.stop = stop.get_token()});
      std::thread stopper;
      if (what > 1) REQUIRE(run.next());
      if (what < 3) stopper = std::thread([&] { stop.request_stop(); });
      if (what < 3)
        while (run.next()) continue;
      if (stopper.joinable()) stopper.join();
    }
  }
}

TEST_CASE("The metrics include those of the pool") {
  const watchdog guard("metrics");
  fl::sliding_window_pool pool(fl::from(std::vector<letters>{{"a", 4}, {"b", 4}}), {.window = 6});
  pool.set_anchor("b0");
  auto run = (pool | fl::map(fl::read_chunk) | fl::prefetch(1)).infinite();
  for (int i = 0; i < 5000; ++i) REQUIRE(run.next());
  const auto metrics = run.metrics();
  std::map<std::string, double> numbers;
  for (const auto& n : metrics.total.stages.at(0).user_metrics) numbers[n.name] = n.value;
  CHECK(metrics.total.stages.at(0).name == "sliding_window_pool");
  CHECK(numbers.at("sources") == 2);
  CHECK(numbers.at("chunks") == 6);
  CHECK(numbers.at("window") == 6);
  CHECK(numbers.at("since anchor") == 3);
  CHECK(numbers.at("indexed") == 8);
  CHECK(numbers.at("passes") > 100);
  CHECK(numbers.at("rejected") == 0);
  CHECK(numbers.at("indexing seconds") >= 0);
}

TEST_CASE("Invalid options of a pool are refused") {
  const auto with = [](const fl::pool_options& o) {
    return [o] { fl::sliding_window_pool(fl::from(strings()), o); };
  };
  CHECK(throws_saying<std::invalid_argument>("the window must be at least 1", with({.window = 0})));
  CHECK(throws_saying<std::invalid_argument>("the window is -1", with({.window = ~std::uint64_t{0}})));
  CHECK(throws_saying<std::invalid_argument>("larger than 2^32",
                                             with({.window = (std::uint64_t{1} << 32) + 1})));
  CHECK(throws_saying<std::invalid_argument>("index_threads must be at least 1", with({.index_threads = 0})));
  CHECK(
      throws_saying<std::invalid_argument>("max_open_files must be at least 1", with({.max_open_files = 0})));
  CHECK(throws_saying<std::invalid_argument>("min_fill is 11", with({.window = 10, .min_fill = 11})));
}

TEST_CASE("Files and members of TAR files in a watched directory are chunks") {
  const watchdog guard("a watched directory");
  const temporary_folder folder;
  const auto publish = [&](const std::string& name, const std::string& contents) {
    folder.write("." + name, contents);
    fs::rename(folder / ("." + name), folder / name);
  };
  publish("1.tar",
          tar_writer().add("x", "one").add("d/", "", '5').add("d/LICENSE", "no").add("d/y", "two").closed());
  publish("2.gz", "three");
  fl::sliding_window_pool pool(fl::watch_directory(folder.path()), {.window = 3});
  auto finite = (pool | fl::map(read_text, fl::workers{2})).finite();
  CHECK(sorted(all_of(std::move(finite))) == strings{"one", "three", "two"});

  auto run = (pool | fl::map(read_text)).infinite();
  REQUIRE(run.next());
  CHECK(pool.reset_anchor() == folder / "2.gz");
  publish("3.tar", tar_writer().add("x", "four").add("y", "five").closed());
  std::set<std::string> last;
  while (last != std::set<std::string>{"three", "four", "five"}) {
    if (last.size() > 2) last.clear();
    last.insert(*run.next());
  }
  CHECK(pool.chunks_since_anchor() == 2);
  CHECK(pool.status().sources == 2);
}

TEST_CASE("Only the file that is removed, changed or not a file fails") {
  const watchdog guard("files that go");
  const temporary_folder folder;
  const std::string tar = tar_writer().add("x", "one").add("y", "two").closed();
  const strings names{folder.write("1.tar", tar),
                      folder.write("2", "three"),
                      folder.write("3.tar", tar),
                      folder / "none",
                      folder.path(),
                      folder.write("4.tar", "this is not a TAR file"),
                      folder.write("5", "five")};
  fl::sliding_window_pool pool(fl::from(names), {.on_notice = [&](const std::string&) {
                                 fs::remove(folder / "2");
                                 folder.write("3.tar", tar + "more");
                               }});
  auto run = (pool | fl::map(read_text, fl::workers{2})).finite({.on_error = fl::on_error::skip});
  strings all, failures;
  while (auto text = run.next()) all.push_back(*text);
  CHECK(sorted(all) == strings{"five", "one", "two"});
  for (const auto& f : run.failures()) failures.push_back(f.stage + ": " + f.message);
  failures = sorted(failures);
  REQUIRE(failures.size() == 6);
  CHECK(failures[0] == "map: " + folder.path() + "/2: No such file or directory");
  CHECK(failures[1] == "map: " + folder.path() + "/3.tar has changed since it was indexed");
  CHECK(failures[2] == failures[1]);
  CHECK(failures[5] == "sliding_window_pool: " + folder.path() + ": Is a directory");
  CHECK(failures[3].starts_with("sliding_window_pool: " + folder.path() + "/4.tar: not a TAR file"));
  CHECK(failures[4] == "sliding_window_pool: " + folder.path() + "/none: No such file or directory");
}

TEST_CASE("Chunks of removed files aren't yielded again, and are counted") {
  const watchdog guard("files that are gone");
  const temporary_folder folder, elsewhere;
  const auto publish = [&](const std::string& name, const std::string& contents) {
    elsewhere.write("new", contents);
    fs::rename(elsewhere / "new", folder / name);
  };
  const std::string tar = tar_writer().add("x", "one").add("y", "two").add("z", "three").closed();
  fs::create_directory(folder / "old");
  publish("old/1.tar", tar);
  publish("old/2", "four");
  publish("3", "five");
  fl::sliding_window_pool pool(fl::watch_directory(folder.path()), {.window = 10, .max_open_files = 1});
  // The queue is shorter than ten passes over the chunks that are left.
  auto run = (pool | fl::map(read_text))
                 .infinite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000, .queue_capacity = 4});
  REQUIRE(run.next());
  fs::rename(folder / "old", elsewhere / "old");
  publish("4.tar", tar_writer().add("x", "six").closed()); // so that the other TAR file is closed
  for (auto text = run.next(); text != "six"; text = run.next()) REQUIRE(text);
  while (pool.status().gone < 4) REQUIRE(run.next());
  const auto pass = [&](std::uint64_t number) {
    const auto last = pool.status().passes + number;
    while (pool.status().passes < last) REQUIRE(run.next());
  };
  pass(10); // chunks may be in the queues
  const auto failures = run.failures().size();
  pass(10);
  CHECK(run.failures().size() == failures);
  CHECK(failures < 100);
  CHECK(pool.status().gone == 4);
  CHECK(pool.status().chunks == 6); // they stay in the window
  fs::rename(elsewhere / "old", folder / "old");
  for (const char* text : {"one", "four"})
    while (run.next() != text) continue;
  pass(10);
  const auto before = run.failures().size();
  pass(10);
  CHECK(run.failures().size() == before);
  CHECK(pool.status().gone == 4);
  // Another file at that place is one of its own, and the old one stays gone.
  fs::rename(folder / "old/2", elsewhere / "old 2");
  while (pool.status().gone < 5) REQUIRE(run.next());
  publish("old/2", "another");
  while (run.next() != "another") continue;
  for (int i = 0; i < 100; ++i) CHECK(run.next() != "four");
}

TEST_CASE("When all files are gone, the run waits for new chunks or ends") {
  const watchdog guard("all files gone");
  const temporary_folder folder;
  folder.write("1", "one");
  folder.write("2", "two");
  gate said;
  const auto on_notice = [&](const std::string& s) {
    if (s.starts_with(
            "sliding_window_pool: the files of all 2 chunks of the window are gone: the run looks for them"))
      said.open();
  };
  fl::push_source<fl::chunk_file> pushed;
  for (const char* name : {"1", "2"}) pushed.push(fl::chunk_file(folder / name));
  fl::sliding_window_pool pool(pushed, {.window = 2, .on_notice = on_notice});
  auto run =
      (pool | fl::map(read_text)).infinite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000});
  REQUIRE(run.next());
  fs::remove(folder / "1");
  fs::remove(folder / "2");
  std::thread later([&] {
    said.wait({});
    await_all_others_asleep();
    folder.write("3", "three");
    pushed.push(fl::chunk_file(folder / "3"));
  });
  while (run.next() != "three") continue;
  later.join();
  CHECK(pool.status().gone == 2);

  // All of them are away for a while.
  const temporary_folder elsewhere;
  for (const char* name : {"4", "5"}) pushed.push(fl::chunk_file(folder.write(name, name)));
  while (run.next() != "4") continue;
  for (const char* name : {"3", "4", "5"}) fs::rename(folder / name, elsewhere / name);
  while (pool.status().gone < 4) run.next_for(std::chrono::milliseconds(10));
  for (const char* name : {"3", "4", "5"}) fs::rename(elsewhere / name, folder / name);
  for (int i = 0; i < 1000; ++i) REQUIRE(run.next());
  CHECK(pool.status().gone == 4);

  fl::sliding_window_pool ended(fl::from(strings{folder / "3"}));
  auto last =
      (ended | fl::map(read_text)).infinite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000});
  REQUIRE(last.next());
  fs::remove(folder / "3");
  while (last.next()) continue;
}

TEST_CASE("Files are opened when they are read, up to max_open_files") {
  const watchdog guard("descriptors");
  const temporary_folder folder;
  strings names;
  for (int i = 0; i < 30; ++i)
    names.push_back(
        folder.write(std::to_string(i) + ".tar", tar_writer().add("x", "1").add("y", "2").closed()));
  const std::size_t before = descriptors();
  {
    fl::sliding_window_pool pool(fl::from(names), {.max_open_files = 4});
    auto source = pool;
    fl::epoch e;
    e.endless = true;
    source.start_epoch(e);
    std::size_t most = 0;
    const auto unread = *source.next();
    CHECK(descriptors() == before);
    for (int i = 0; i < 200; ++i) {
      CHECK(as_text(source.next().value().read()).size() == 1);
      most = std::max(most, descriptors());
    }
    CHECK(most == before + 4);
  }
  CHECK(descriptors() == before);
}
