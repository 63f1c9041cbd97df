// SPDX-License-Identifier: MIT
// What happens to runs while the server that they read from doesn't answer.
#include <feedline/remote/object_store.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/remote/shard_cache.hpp>

#include "support/catch.hpp"
#include "support/memory_store.hpp"
#include "support/rounds.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using strings = std::vector<std::string>;

namespace {

std::string shard(int number) {
  tar_writer tar;
  for (int i = 0; i < 6; ++i) {
    const std::string key = std::to_string(number) + "-" + std::to_string(i);
    tar.add(key + ".txt", std::string(300, static_cast<char>('a' + i))).add(key + ".cls", key);
  }
  return tar.closed();
}

/// Shards of a store that stops to answer after a number of answers, until it is mended.
struct failing_shards {
  explicit failing_shards(std::size_t answers_before_outage)
      : store(std::make_shared<memory_store>(1024, 4096)) {
    for (int i = 0; i < 5; ++i) {
      names.push_back("mem://" + std::to_string(i) + ".tar");
      store->put(names.back(), shard(i));
    }
    store->before([=, this](const memory_store::request& r, const std::stop_token&) {
      if (answers++ >= answers_before_outage && !mended)
        throw fl::outage_error(r.name + ": the server is down");
    });
  }

  std::shared_ptr<memory_store> store;
  strings names;
  std::atomic<std::size_t> answers{0};
  std::atomic<bool> mended{false};
};

const auto key_of = [](const fl::tar_sample& sample) {
  // All of the sample: it must never be a part.
  return std::string(sample.text("cls")) + ":" + std::to_string(sample.text("txt").size());
};

template <class Make>
void ends_and_goes_on(const std::string& name, const Make& make, fl::rank rank = {},
                      std::size_t step = place_step) {
  const watchdog guard(name);
  const auto start = [&](failing_shards& shards, fl::on_error on_error,
                         std::optional<fl::checkpoint> resume) {
    return make(fl::tar_samples(shards.names, {.remote = shards.store}), shards)
        .finite({.seed = 3, .epochs = 2, .on_error = on_error, .rank = rank, .resume = std::move(resume)});
  };
  strings expected;
  {
    failing_shards whole(~std::size_t{0});
    auto loader = start(whole, fl::on_error::fail, {});
    while (auto item = loader.next()) expected.push_back(*item);
  }
  REQUIRE(expected.size() >= 10);
  bool is_over = false;
  int outages = 0;
  for (std::size_t answers = 0; !is_over; answers += answers < 12 ? step : 4 * step) {
    for (const fl::on_error on_error : {fl::on_error::fail, fl::on_error::skip}) {
      INFO(name << ", outage after " << answers << " answers, on_error " << static_cast<int>(on_error));
      failing_shards shards(answers);
      strings found;
      std::optional<fl::checkpoint> at;
      {
        auto loader = start(shards, on_error, {});
        try {
          while (auto item = loader.next()) found.push_back(*item);
          is_over = true;
        } catch (const fl::pipeline_error& error) {
          ++outages;
          CHECK(error.cause<fl::outage_error>() != nullptr);
          CHECK(std::string(error.what()).find("the server is down") != std::string::npos);
          CHECK(loader.failures().empty());
          CHECK_THROWS_AS(loader.next(), fl::pipeline_error);
        }
        at = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
      }
      shards.mended = true;
      auto loader = start(shards, on_error, at);
      while (auto item = loader.next()) found.push_back(*item);
      CHECK(loader.failures().empty());
      REQUIRE(found == expected);
    }
  }
  CHECK(outages >= 2);
}

} // namespace

TEST_CASE("An outage ends the run, and the run goes on after it without a lost sample") {
  ends_and_goes_on("in order", [](fl::tar_samples s, auto&) { return std::move(s) | fl::map(key_of); });
  ends_and_goes_on("workers",
                   [](fl::tar_samples s, auto&) { return std::move(s) | fl::map(key_of, fl::workers{3}); });
  ends_and_goes_on("shuffled", [](fl::tar_samples s, auto&) {
    return std::move(s) | fl::shuffle({.capacity = 7}) | fl::map(key_of);
  });
}

TEST_CASE("The same where samples are read by their position") {
  ends_and_goes_on("global", [](fl::tar_samples s, auto&) {
    return std::move(s) | fl::global_shuffle() | fl::map(key_of) | fl::prefetch(2);
  });
  ends_and_goes_on("global, workers", [](fl::tar_samples s, auto&) {
    return std::move(s) | fl::global_shuffle() | fl::map(key_of, fl::workers{3});
  });
}

TEST_CASE("The same through a cache on disk") {
  std::vector<std::unique_ptr<temporary_folder>> folders;
  ends_and_goes_on(
      "cached",
      [&](const fl::tar_samples&, failing_shards& shards) {
        folders.push_back(std::make_unique<temporary_folder>());
        const auto cached = fl::cached(shards.store, {.directory = folders.back()->path()});
        return fl::tar_samples(shards.names, {.remote = cached}) | fl::map(key_of);
      },
      {}, 9);
}

TEST_CASE("The same for parts of other sources") {
  ends_and_goes_on("interleave", [](fl::tar_samples s, auto&) {
    return std::move(s) | fl::interleave(2) | fl::map(key_of);
  });
  ends_and_goes_on("concat", [](fl::tar_samples s, auto&) {
    return fl::concat(s | fl::map(key_of), s | fl::map(key_of)) | fl::prefetch(2);
  });
  ends_and_goes_on("mix", [](fl::tar_samples s, auto&) {
    return fl::mix(fl::weighted(s | fl::map(key_of), 2), fl::weighted(s | fl::map(key_of), 1)) |
           fl::prefetch(2);
  });
  ends_and_goes_on("zip", [](fl::tar_samples s, auto&) {
    return fl::zip(s | fl::map(key_of), s) | fl::map([](const std::pair<std::string, fl::tar_sample>& p) {
             return p.first + key_of(p.second);
           });
  });
}

TEST_CASE("The same for one of several ranks") {
  ends_and_goes_on(
      "rank", [](fl::tar_samples s, auto&) { return std::move(s) | fl::global_shuffle() | fl::map(key_of); },
      {1, 2});
  ends_and_goes_on( // it doesn't know ranks, so it reads the other one's samples too
      "rank of concat",
      [](fl::tar_samples s, auto&) { return fl::concat(s | fl::map(key_of)) | fl::prefetch(2); }, {1, 2});
}

TEST_CASE("An outage while held samples are read again ends the resumed run") {
  const watchdog guard("held samples");
  failing_shards shards(~std::size_t{0});
  const auto pipeline = fl::tar_samples(shards.names, {.remote = shards.store}) | fl::global_shuffle() |
                        fl::shuffle({.capacity = 9}) | fl::map(key_of);
  std::optional<fl::checkpoint> at;
  {
    auto loader = pipeline.finite({.on_error = fl::on_error::skip});
    for (int i = 0; i < 5; ++i) REQUIRE(loader.next());
    at = loader.checkpoint();
  }
  shards.store->before([&](const memory_store::request& r, const std::stop_token&) {
    if (shards.answers++ % 7 == 6) throw fl::outage_error(r.name + ": the server is down");
  });
  shards.answers = 0;
  try {
    pipeline.finite({.on_error = fl::on_error::skip, .resume = at});
    FAIL("the run began");
  } catch (const fl::pipeline_error& error) {
    CHECK(error.failure().stage == "tar_samples");
    CHECK(error.cause<fl::outage_error>() != nullptr);
  }
}

TEST_CASE("An error of an object stays that of its samples") {
  for (const bool by_position : {false, true}) {
    failing_shards shards(~std::size_t{0});
    shards.store->before([](const memory_store::request& r, const std::stop_token&) {
      if (r.name == "mem://2.tar") throw fl::object_error(r.name + ": status 403 Forbidden");
    });
    const fl::tar_samples source(shards.names, {.remote = shards.store});
    const auto count = [](auto&& loader) {
      std::size_t samples = 0;
      while (loader.next()) ++samples;
      return std::pair(samples, loader.failures().size());
    };
    const fl::finite_options skip{.on_error = fl::on_error::skip};
    CHECK((by_position ? count((source | fl::global_shuffle() | fl::map(key_of)).finite(skip))
                       : count((source | fl::map(key_of)).finite(skip))) ==
          std::pair<std::size_t, std::size_t>(24, 1));
  }
}

namespace {

/// Answers after a latch, or when the reader is stopped; says that it has an outage until then.
class silent_store final : public fl::object_store {
 public:
  explicit silent_store(std::size_t answers) : answers_(answers) {}

  bool serves(std::string_view name) const override { return name.starts_with("mem://"); }

  std::unique_ptr<fl::object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                        const std::optional<fl::object_info>&) override {
    struct answer final : fl::object_read {
      answer(silent_store& s, std::string n, std::uint64_t o, std::size_t c)
          : store(s), name(std::move(n)), offset(o), count(c) {}

      bool ready() const override { return false; }

      fl::object_part get(const std::stop_token& stop) override { return store.answer(*this, stop); }

      silent_store& store;
      std::string name;
      std::uint64_t offset;
      std::size_t count;
    };

    return std::make_unique<answer>(*this, name, offset, count);
  }

  std::size_t part_bytes() const override { return 1024; }

  std::size_t bytes_ahead() const override { return 4096; }

  std::string outage() const override { return waiting_ > 0 ? "host: no route (for 7 s)" : ""; }

  void wait_for_outage() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }

 private:
  template <class Read>
  fl::object_part answer(const Read& r, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (answers_ == 0) {
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, stop, [] { return false; });
      throw fl::object_error(r.name + ": stopped");
    }
    --answers_;
    const std::size_t at = std::min<std::size_t>(r.offset, bytes_.size());
    return {{bytes_.size(), "v1"},
            std::as_bytes(std::span(bytes_)).subspan(at, std::min(r.count, bytes_.size() - at))};
  }

  const std::string bytes_ = shard(0);
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t answers_;
  std::atomic<int> waiting_{0};
};

} // namespace

TEST_CASE("During an outage metrics name the store, and a checkpoint and a stop don't wait") {
  const watchdog guard("silent store");
  const auto names = strings{"mem://a.tar", "mem://b.tar"};
  const auto check = [&](const auto& make) {
    const auto store = std::make_shared<silent_store>(4);
    const auto pipeline = make(fl::tar_samples(names, {.remote = store}));
    auto loader = pipeline.infinite({.on_error = fl::on_error::skip});
    store->wait_for_outage();
    const fl::checkpoint at = loader.checkpoint(); // the versions of the objects aren't known
    for (const fl::interval_metrics& m : {loader.metrics().total, loader.metrics().recent}) {
      CHECK(m.bottleneck.starts_with("the store of "));
      CHECK(m.bottleneck.ends_with(" limits the pipeline, as it doesn't answer: host: no route (for 7 s)"));
    }
    loader.stop();
    CHECK_FALSE(loader.next());
    CHECK(loader.checkpoint().to_bytes() == at.to_bytes());
  };
  check([](const fl::tar_samples& s) { return s | fl::map(key_of); });
  check([](const fl::tar_samples& s) { return s | fl::map(key_of, fl::workers{3}); });
  check([](const fl::tar_samples& s) { return s | fl::global_shuffle() | fl::map(key_of, fl::workers{3}); });
  check([](const fl::tar_samples& s) { return fl::concat(s | fl::map(key_of)) | fl::prefetch(2); });
  check([](const fl::tar_samples& s) {
    return fl::mix(fl::weighted(s | fl::map(key_of), 1)) | fl::prefetch(2);
  });
  check([](const fl::tar_samples& s) { return fl::zip(s, s) | fl::prefetch(2); });
  check([](const fl::tar_samples& s) { return s | fl::interleave(2) | fl::map(key_of); });
}

TEST_CASE("A stop wakes a checkpoint that asks a store for the versions of objects") {
  const watchdog guard("versions");
  const auto store = std::make_shared<silent_store>(0);
  auto loader = (fl::tar_samples("mem://a.tar", {.remote = store}) | fl::map(key_of)).infinite();
  store->wait_for_outage(); // the source's thread waits
  std::jthread stopper([&] { loader.stop(); });
  static_cast<void>(loader.checkpoint());
}

namespace {

/// A store whose read() fails as told, now and then.
class throwing_store final : public fl::object_store {
 public:
  throwing_store(std::shared_ptr<memory_store> from, std::function<std::unique_ptr<fl::object_read>()> fail)
      : from_(std::move(from)), fail_(std::move(fail)) {}

  bool serves(std::string_view name) const override { return from_->serves(name); }

  std::unique_ptr<fl::object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                        const std::optional<fl::object_info>& expected) override {
    if (armed && ++calls_ % 3 == 0) return fail_();
    return from_->read(name, offset, count, expected);
  }

  std::size_t part_bytes() const override { return from_->part_bytes(); }

  std::size_t bytes_ahead() const override { return from_->bytes_ahead(); }

  std::atomic<bool> armed{false};

 private:
  const std::shared_ptr<memory_store> from_;
  const std::function<std::unique_ptr<fl::object_read>()> fail_;
  std::atomic<int> calls_{0};
};

} // namespace

TEST_CASE("A store whose read() throws, or returns nothing, costs samples but doesn't end the program") {
  const watchdog guard("read() throws");
  using failing = std::function<std::unique_ptr<fl::object_read>()>;
  const std::vector<failing> ways{
      [] { return std::unique_ptr<fl::object_read>(); },
      []() -> std::unique_ptr<fl::object_read> { throw std::bad_alloc(); },
      []() -> std::unique_ptr<fl::object_read> { throw fl::object_error("mem://0.tar: the client is busy"); },
      []() -> std::unique_ptr<fl::object_read> { throw 7; },
  };
  const auto key_of_any = [](const fl::tar_sample& s) { return std::string(s.key()); };
  for (std::size_t way = 0; way < ways.size(); ++way) {
    for (const bool is_cached : {false, true}) {
      INFO("way " << way << ", cached " << is_cached);
      failing_shards shards(~std::size_t{0});
      const temporary_folder folder;
      const auto store = std::make_shared<throwing_store>(shards.store, ways[way]);
      std::shared_ptr<fl::object_store> used = store;
      if (is_cached) used = fl::cached(store, {.directory = folder.path()});
      const fl::tar_samples source(shards.names, {.remote = used});
      const auto check = [&](const auto& pipeline) {
        store->armed = false;
        auto loader = pipeline.infinite({.on_error = fl::on_error::skip, .failure_limit = 100'000});
        REQUIRE(loader.next());
        store->armed = true;
        for (int i = 0; i < 100; ++i) REQUIRE(loader.next());
        CHECK((is_cached || !loader.failures().empty())); // a cache may have all parts by now
      };
      check(source | fl::global_shuffle() | fl::map(key_of_any, fl::workers{2}));
      check(source | fl::global_shuffle() | fl::map(key_of_any) | fl::prefetch(2));
      check(source | fl::map(key_of_any));
    }
  }
}
