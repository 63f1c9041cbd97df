// SPDX-License-Identifier: MIT
// A trace is what a viewer accepts, and its events can be counted.
#include <feedline/telemetry/trace.hpp>

#include <atomic>
#include <fstream>
#include <map>
#include <optional>
#include <ranges>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/json.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What a viewer reads. Throws what is wrong with the text.
struct viewed {
  explicit viewed(const std::string& text) {
    const json all = json::parse(text);
    lost = all["otherData"]["lost_events"].integer();
    const json& events = all["traceEvents"];
    for (std::size_t i = 0; i < events.size(); ++i) add(events[i]);
    for (const auto& [id, count] : ends)
      if (!begins.contains(id)) throw std::runtime_error("an arrow without a beginning: " + id);
  }

  void add(const json& e) {
    const std::string phase = e["ph"].text, name = e["name"].text;
    const long long thread = e["tid"].integer();
    const double when = e["ts"].real();
    if (when < 0 || when > 1e9) throw std::runtime_error("an event before the beginning, or much later");
    if (phase == "M") {
      threads[thread] = e["args"]["name"].text;
    } else if (phase == "X") {
      if (e["dur"].real() < 0) throw std::runtime_error("a negative duration");
      ++slices[threads.at(thread) + ": " + name];
      if (const json* args = e.find("args"))
        items[threads.at(thread) + ": " + name] += (*args)["items"].integer();
    } else if (phase == "C") {
      if (e["args"]["samples"].integer() > 1'000'000) throw std::runtime_error("more samples than there are");
      last_fill[name] = e["args"]["samples"].integer();
    } else if (phase == "s") {
      if (++begins[e["id"].text] > 1) throw std::runtime_error("an arrow with two beginnings");
    } else if (phase == "f") {
      if (e["bp"].text != "e") throw std::runtime_error("an arrow that ends at no slice");
      ++ends[e["id"].text];
    } else {
      throw std::runtime_error("an unknown phase: " + phase);
    }
  }

  long long lost = 0;
  std::map<long long, std::string> threads;
  std::map<std::string, int> slices;      // "thread: name"
  std::map<std::string, long long> items; // of the packets in them
  std::map<std::string, int> begins, ends;
  std::map<std::string, long long> last_fill;
};

auto pipeline() {
  return fl::from(std::views::iota(0, 600)) |
         fl::map([](int n) { return n; }, fl::name{"decode \"<\x1b"}, fl::workers{2}) |
         fl::shuffle({.capacity = 20}) | fl::batch(6);
}

} // namespace

TEST_CASE("A trace shows each packet on its way to the consumer") {
  const watchdog dog("trace");
  const temporary_folder folder;
  const std::string path = folder.path() + "/run.trace.json";
  auto loader = pipeline().finite();
  fl::trace trace(loader, path); // what the threads did before is missing
  while (loader.next()) {
  }
  { const auto joined = std::move(loader); }
  const viewed before(trace.to_json());
  trace.write();
  const viewed all(text_of(path));
  CHECK(all.slices == before.slices);
  CHECK(all.lost == 0);
  const std::map<long long, std::string> names{{1, "from"},
                                               {2, "map `decode \"<\x1b`, worker 1"},
                                               {3, "map `decode \"<\x1b`, worker 2"},
                                               {4, "shuffle + batch"},
                                               {5, "consumer"}};
  CHECK(all.threads == names);
  const auto items = [&](const std::string& name) {
    const auto found = all.items.find(name);
    return found == all.items.end() ? 0 : found->second;
  };
  CHECK(items("consumer: take") == 100);
  CHECK(items("shuffle + batch: push") <= 100);
  CHECK(items("shuffle + batch: shuffle + batch") <= 600);
  CHECK(items(names.at(2) + ": map `decode \"<\x1b`") + items(names.at(3) + ": map `decode \"<\x1b`") <= 600);
}

TEST_CASE("A trace from the first item on counts every packet") {
  const watchdog dog("whole trace");
  const temporary_folder folder;
  // The trace begins before the first sample goes on.
  std::atomic<bool> traces{false};
  auto traced = (fl::from(std::views::iota(0, 100)) | fl::map([&](int n) {
                   traces.wait(false);
                   return n;
                 }) |
                 fl::prefetch(200) | fl::map([](int n) { return n; }, fl::name{"crop"}))
                    .finite();
  const fl::trace trace(traced, folder.path() + "/t.json");
  traces = true;
  traces.notify_all();
  while (traced.next()) {
  }
  { const auto joined = std::move(traced); }
  const viewed all(trace.to_json());
  CHECK(all.items.at("from + map: push") == 100);
  CHECK(all.items.at("from + map: from + map") == 100);
  CHECK(all.items.at("map `crop`: map `crop`") == 100);
  CHECK(all.items.at("map `crop`: push") == 100);
  CHECK(all.items.at("consumer: take") == 100);
  CHECK(all.begins.size() == all.ends.size());
  CHECK(all.last_fill.size() == 2);
  for (const auto& [queue, fill] : all.last_fill) CHECK(fill <= 100);
}

TEST_CASE("A trace keeps only the last events of each thread") {
  const watchdog dog("bounded trace");
  const temporary_folder folder;
  auto loader = pipeline().finite({.epochs = 20});
  fl::trace trace(loader, folder.path() + "/t.json", {.events = 8});
  while (loader.next()) {
  }
  const viewed all(trace.to_json());
  CHECK(all.lost > 0);
  int slices = 0;
  for (const auto& [name, count] : all.slices) slices += count;
  CHECK(slices <= 5 * 8 + 8); // the source's pushes are two slices each
}

TEST_CASE("A trace that outlives its loader is written all the same") {
  const temporary_folder folder;
  const std::string path = folder.path() + "/t.json";
  {
    std::optional<fl::trace> trace;
    auto loader = pipeline().infinite();
    trace.emplace(loader, path);
    REQUIRE(loader.next());
    { const auto ended = std::move(loader); }
    CHECK(text_of(path).empty());
  }
  CHECK(viewed(text_of(path)).slices.at("consumer: take") >= 1);
}

TEST_CASE("A run is traced once at a time, and can be traced again") {
  const temporary_folder folder;
  auto loader = pipeline().infinite();
  {
    const fl::trace trace(loader, folder.path() + "/a.json");
    CHECK(throws_saying<std::logic_error>("traced already",
                                          [&] { fl::trace other(loader, folder.path() + "/b.json"); }));
    REQUIRE(loader.next());
  }
  fl::trace trace(loader, folder.path() + "/b.json");
  for (int i = 0; i < 40; ++i) REQUIRE(loader.next());
  trace.write();
  CHECK(viewed(text_of(folder.path() + "/b.json")).slices.at("consumer: take") <= 40);
}

TEST_CASE("A trace names a file that can't be written") {
  auto loader = pipeline().finite();
  fl::trace trace(loader, "/no/such/folder/t.json");
  CHECK(throws_saying<std::system_error>("/no/such/folder/t.json", [&] { trace.write(); }));
  CHECK(throws_saying<std::invalid_argument>("at least 1 event",
                                             [&] { fl::trace none(loader, "t.json", {.events = 0}); }));
}

TEST_CASE("A trace of a loader without a run is empty") {
  const temporary_folder folder;
  auto loader = pipeline().finite();
  const auto moved = std::move(loader);
  CHECK(viewed(fl::trace(loader, folder.path() + "/t.json").to_json()).threads.empty());
}

TEST_CASE("Runs may be traced while they fail and are destroyed") {
  const watchdog dog("traced ends");
  const temporary_folder folder;
  const auto fails = [](int n) { return n < 300 ? n : throw std::runtime_error("late"); };
  for (int round = 0; round < 10; ++round) {
    std::optional<fl::trace> trace;
    auto loader = (pipeline() | fl::map([](auto&& batch) { return batch; })).finite();
    auto failing = (fl::from(std::views::iota(0, 600)) | fl::map(fails, fl::workers{2})).finite();
    trace.emplace(round % 2 == 0 ? static_cast<fl::run_handle&>(loader) : failing, folder.path() + "/t.json",
                  fl::trace_options{.events = 16});
    std::jthread reader([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) static_cast<void>(viewed(trace->to_json()));
    });
    try {
      while (failing.next()) {
      }
    } catch (const fl::pipeline_error&) {
    }
    for (int i = 0; i <= round; ++i) static_cast<void>(loader.next());
  }
}
