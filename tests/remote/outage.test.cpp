// SPDX-License-Identifier: MIT
// What remote() does while a server doesn't answer.
#include <feedline/remote/remote_store.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/misbehaving_server.hpp"
#include "support/remote_reads.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using namespace std::chrono_literals;
using connection = misbehaving_server::connection;
using strings = std::vector<std::string>;

namespace {

/// A server of shards that can be out of order.
struct shard_server {
  shard_server()
      : server([this](connection& c, const http_request& r) {
          const std::lock_guard one_at_a_time(answering); // no answer comes after a refusal
          if (is_down && ++refused > 0) {
            c.send_status("503 busy");
            if (refused % 3 == 0) c.close();
            return;
          }
          const std::size_t number = ++answered;
          c.send_range(r, shard);
          if (number == answers_before_outage) is_down = true;
        }) {}

  strings names() const { return {server.url("/0.tar"), server.url("/1.tar"), server.url("/2.tar")}; }

  const std::string shard = pairs(40).closed();
  std::atomic<bool> is_down{false};
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> answered{0};
  std::atomic<std::size_t> answers_before_outage{0};
  std::mutex answering;
  misbehaving_server server;
};

const auto key_of = [](const fl::tar_sample& sample) { return std::string(sample.key()); };

/// Small parts, and attempts without a pause.
fl::remote_options quick_parts(std::chrono::nanoseconds for_at_most) {
  return {.part_bytes = 4096,
          .bytes_ahead = 4 * 4096,
          .retry = {.attempts = 2, .first_pause = 1us, .factor = 1, .for_at_most = for_at_most}};
}

} // namespace

TEST_CASE("An outage causes one notice, is in the metrics, and costs no sample") {
  const watchdog guard("an outage that ends");
  shard_server all;
  all.answers_before_outage = 5;
  std::latch told(1);
  strings notices;
  fl::remote_options options = quick_parts(1h);
  options.on_notice = [&](const std::string& sentence) {
    notices.push_back(sentence);
    told.count_down();
    throw std::runtime_error("a notice that fails"); // it makes no difference
  };
  const auto store = fl::remote(options);
  const auto pipeline = fl::tar_samples(all.names(), {.remote = store}) | fl::map(key_of);
  auto loader = pipeline.finite({.on_error = fl::on_error::skip});
  told.wait();
  all.server.wait_for_requests(50); // many more than `attempts`
  CHECK(loader.metrics().recent.bottleneck.starts_with(
      "the store of tar_samples limits the pipeline, as it doesn't answer: " + all.server.url("/")));
  CHECK(store->outage().find(": status 503 Service Unavailable at offset ") != std::string::npos);
  CHECK(metric(*store, "seconds of outages") > 0);
  all.is_down = false;
  std::size_t samples = 0;
  while (loader.next()) ++samples;
  CHECK(samples == 120);
  CHECK(loader.failures().empty());
  CHECK(store->outage().empty());
  CHECK(loader.metrics().total.bottleneck.find("store") == std::string::npos);
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].starts_with("feedline::remote: a server doesn't answer; it is tried again for 3600 s, and "
                               "then the run ends: " +
                               all.server.url("/")));
}

TEST_CASE("An outage that lasts too long ends the run, which goes on from its checkpoint") {
  const watchdog guard("a long outage");
  for (const bool by_position : {false, true}) {
    for (std::size_t answers = 1; answers < 14; answers += 3) {
      INFO("after " << answers << " answers" << (by_position ? ", by position" : ""));
      shard_server all;
      const auto run = [&](const std::optional<fl::checkpoint>& resume) {
        const fl::tar_samples source(all.names(), {.remote = fl::remote(quick_parts(0s))});
        strings keys;
        std::optional<fl::checkpoint> at;
        bool ended_by_outage = false;
        const auto take = [&](auto loader) {
          try {
            while (auto key = loader.next()) keys.push_back(*key);
          } catch (const fl::pipeline_error& error) {
            ended_by_outage = error.cause<fl::outage_error>() != nullptr;
          }
          CHECK(loader.failures().empty());
          at = loader.checkpoint();
        };
        const fl::finite_options o{.seed = 5, .on_error = fl::on_error::skip, .resume = resume};
        if (by_position) take((source | fl::global_shuffle() | fl::map(key_of, fl::workers{2})).finite(o));
        else take((source | fl::map(key_of)).finite(o));
        return std::tuple(std::move(keys), std::move(at), ended_by_outage);
      };
      const strings expected = std::get<0>(run({}));
      REQUIRE(expected.size() == 120);
      all.answers_before_outage = all.answered + answers;
      auto [found, at, ended_by_outage] = run({});
      CHECK(ended_by_outage);
      all.is_down = false;
      const strings rest = std::get<0>(run(at));
      found.insert(found.end(), rest.begin(), rest.end());
      CHECK(found == expected);
    }
  }
}

TEST_CASE("A server that is gone is an outage, and one that refuses an object isn't") {
  std::string gone;
  {
    const misbehaving_server server([](connection&, const http_request&) {});
    gone = server.url();
  }
  const auto store = fl::remote(quick());
  CHECK_THROWS_AS(part_of(*store, gone), fl::outage_error);
  CHECK(store->outage().starts_with(gone + ": can't connect"));
  for (const std::string_view status : {"400 x", "401 x", "403 x", "404 x", "410 x", "501 x"}) {
    misbehaving_server server([&](connection& c, const http_request&) { c.send_status(status); });
    const auto other = fl::remote(quick());
    CHECK_THROWS_AS(part_of(*other, server.url()), fl::object_error);
    CHECK(other->outage().empty());
    CHECK(server.requests().size() == 1);
  }
  for (const std::string_view status : {"408 x", "429 x", "500 x", "507 x", "520 x"}) {
    misbehaving_server server([&](connection& c, const http_request&) { c.send_status(status); });
    const auto other = fl::remote(quick(3));
    CHECK_THROWS_AS(part_of(*other, server.url()), fl::outage_error);
    CHECK(server.requests().size() == 3);
  }
}

TEST_CASE("A stop or an early break in an outage doesn't wait for its end") {
  const watchdog guard("early break");
  for (const bool by_position : {false, true}) {
    shard_server all;
    all.answers_before_outage = 2; // fewer than the queues need
    fl::remote_options options = quick_parts(1h);
    std::latch told(1);
    options.retry.first_pause = 1h; // the next attempt would be much later
    options.retry.attempts = 1;
    options.on_notice = [&](const std::string&) { told.count_down(); };
    const fl::tar_samples source(all.names(), {.remote = fl::remote(options)});
    const auto check = [&](const auto& loader) {
      told.wait();
      CHECK_FALSE(loader.stopped());
    };
    if (by_position) check((source | fl::global_shuffle() | fl::map(key_of, fl::workers{2})).infinite());
    else check((source | fl::map(key_of)).infinite());
  }
}

TEST_CASE("A loader says that its consumer waits for a server") {
  const watchdog guard("waiting for a server");
  for (const bool by_position : {false, true}) {
    shard_server all;
    all.answers_before_outage = 2;
    fl::remote_options options = quick_parts(1h);
    std::latch told(1);
    options.retry.first_pause = 1h;
    options.retry.attempts = 1;
    options.on_notice = [&](const std::string&) { told.count_down(); };
    const fl::tar_samples source(all.names(), {.remote = fl::remote(options)});
    const auto check = [&](auto loader) {
      std::jthread consumer([&] {
        while (loader.next()) {
        }
      });
      told.wait();
      await_all_others_asleep();
      const std::string text = loader.waiting_for();
      CAPTURE(text);
      CHECK(text.find("tar") != text.npos);
      CHECK(text.ends_with(" s"));
      loader.stop();
    };
    if (by_position) check((source | fl::global_shuffle() | fl::map(key_of, fl::workers{2})).infinite());
    else check((source | fl::map(key_of)).infinite());
  }
}

TEST_CASE("The last attempt is at the end of the time for which an outage may last") {
  misbehaving_server server([](connection& c, const http_request&) { c.send_status("503 busy"); });
  const auto store = fl::remote({.retry = {.attempts = 1, .first_pause = 1h, .for_at_most = 1ms}});
  CHECK(problem_of(*store, server.url()).find("; tried 2 times") != std::string::npos);
}

TEST_CASE("While one object isn't served and others are, no time counts twice, and one notice is given") {
  const watchdog guard("an object that isn't served");
  misbehaving_server server([](connection& c, const http_request& r) {
    r.path() == "/busy" ? c.send_status("503 busy") : c.send_range(r, "hello");
  });
  fl::remote_options options;
  options.retry = {.attempts = 2, .first_pause = 1ms, .factor = 1, .for_at_most = 1h};
  std::atomic<int> notices{0};
  options.on_notice = [&](const std::string&) { ++notices; };
  const auto began = std::chrono::steady_clock::now();
  const auto store = fl::remote(options);
  const auto busy = store->read(server.url("/busy"), 0, 5, {});
  for (int i = 0; i < 300; ++i) CHECK(text_of(part_of(*store, server.url("/good"))) == "hello");
  server.wait_for_requests(330);
  const double seconds = metric(*store, "seconds of outages");
  CHECK(seconds > 0);
  CHECK(std::chrono::duration<double>(seconds) <= std::chrono::steady_clock::now() - began);
  CHECK(notices == 1);
}
