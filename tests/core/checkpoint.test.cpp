// SPDX-License-Identifier: MIT
#include <feedline/core/checkpoint.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using mapping = std::function<int(int)>;

const mapping same = [](int n) { return n; };
const mapping plus_one = [](int n) { return n + 1; };

std::vector<int> iota(std::size_t size) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Epochs of a given number of samples, whose indices continue from one epoch to the next.
class counted_on {
 public:
  static constexpr fl::source_traits traits{.kind = "counted_on"};

  explicit counted_on(std::uint64_t length) : length_(length) {}

  void start_epoch(const fl::epoch& e) { first_ = e.number * length_; }

  std::optional<int> next() { return at_++ < length_ ? std::optional(1) : std::nullopt; }

  std::uint64_t index() const { return first_ + at_ - 1; }

 private:
  std::uint64_t length_;
  std::uint64_t first_ = 0;
  std::uint64_t at_ = 0;
};

auto buffered(std::size_t size, std::size_t capacity) {
  return fl::from(iota(size)) | fl::map(plus_one, fl::workers{2}) | fl::shuffle({.capacity = capacity}) |
         fl::batch(10);
}

template <class Pipeline>
fl::checkpoint checkpoint_behind(const Pipeline& p, int items, std::uint64_t seed = 7) {
  auto loader = p.infinite({.seed = seed});
  for (int i = 0; i < items; ++i) loader.next();
  return loader.checkpoint();
}

template <class Pipeline>
bool refuses(const Pipeline& p, const fl::checkpoint& c, const std::string& why) {
  return throws_saying<std::invalid_argument>("can't resume from this checkpoint: " + why,
                                              [&] { p.infinite({.resume = c}); });
}

template <class Loader>
std::vector<std::uint64_t> indices_of_next(Loader& loader) {
  const auto b = loader.next();
  return b ? b->indices() : std::vector<std::uint64_t>();
}

/// Keeps a run in the middle of its stop, while its threads may have seen the stop and its queues still pass items on: a callback
/// of a stop token runs before those that were registered earlier.
class half_stopped {
 public:
  /// Called by a stage.
  void attach(const std::stop_token& stop) {
    std::call_once(attached_, [&] { callback_.emplace(stop, at_stop{this}); });
  }

  /// Called by the source: waits until the run is half stopped.
  void await_stop() {
    set(waits_);
    stops_.wait(false);
  }

  /// Stops the run while its source waits.
  void stop(auto& loader) {
    waits_.wait(false);
    loader.stop();
  }

 private:
  struct at_stop {
    half_stopped* self;

    void operator()() const {
      set(self->stops_);
      await_all_others_asleep(); // nothing more comes
    }
  };

  static void set(std::atomic<bool>& flag) {
    flag = true;
    flag.notify_all();
  }

  std::atomic<bool> waits_{false}, stops_{false};
  std::once_flag attached_;
  std::optional<std::stop_callback<at_stop>> callback_;
};

/// 0, 1, 2, …, of which one comes during the stop.
struct held_numbers {
  static constexpr fl::source_traits traits{.kind = "held_numbers"};

  bool ready() const { return at != late; }

  std::optional<int> next() {
    if (at == late) stop->await_stop();
    return at++;
  }

  void state(auto& archive) { archive(at); }

  half_stopped* stop;
  int late;
  int at = 0;
};

/// The same, read by workers.
struct held_places {
  static constexpr fl::source_traits traits{.kind = "held_places"};

  std::uint64_t size() const { return 100; }

  int at(std::uint64_t place) const {
    if (place == late) stop->await_stop();
    return static_cast<int>(place);
  }

  half_stopped* stop;
  std::uint64_t late;
};

/// 1, 2, 3, …, before which the first call fails.
struct first_call_fails {
  static constexpr fl::source_traits traits{.kind = "first_call_fails"};

  std::uint64_t size() const { return places; }

  int at(std::uint64_t place) const {
    if (place == 0) throw std::runtime_error("bad");
    return static_cast<int>(place);
  }

  std::uint64_t places;
};

/// A stage whose state the run can't save.
struct opaque {
  using output = int;

  void operator()(int n, auto& emit) { emit(n); }
};

/// `compose` makes a pipeline whose items are 0, 1, 2, …, of which number 20 comes during the stop.
template <class Compose>
void check_half_stopped(const std::string& name, Compose compose) {
  INFO(name);
  const watchdog guard(name);
  half_stopped stop;
  const auto pipeline = compose(stop);
  auto loader = pipeline.infinite({.queue_capacity = 1});
  for (int i = 0; i < 20; ++i) REQUIRE(loader.next() == i);
  std::jthread stopper([&] { stop.stop(loader); });
  CHECK_FALSE(loader.next());
  const fl::checkpoint left = loader.checkpoint();
  stopper.join();
  CHECK(loader.checkpoint() == left);
  CHECK(pipeline.infinite({.resume = left}).next() == 20);
}

} // namespace

TEST_CASE("A checkpoint of an indexed data set takes at most 64 bytes, and 12 more between snapshots") {
  const auto places = fl::from(iota(1'000'000)) | fl::global_shuffle() | fl::map(same, fl::workers{2}) |
                      fl::filter([](int n) { return n % 7 != 0; }) | fl::batch(100);
  CHECK(checkpoint_behind(places, 3000, 0x123456789abcdef0).to_bytes().size() <= 64);
  const auto listed =
      fl::from(iota(1'000'000)) | fl::map(same, fl::workers{2}) | fl::take(900'000) | fl::batch(100);
  CHECK(checkpoint_behind(listed, 3000, 0x123456789abcdef0).to_bytes().size() <= 76);
}

TEST_CASE("A sample that a buffer holds takes at most 12 bytes of its checkpoint") {
  const auto bytes = checkpoint_behind(buffered(1'000'000, 10'000), 3000).to_bytes().size();
  CHECK(bytes > 10'000);
  CHECK(bytes <= 64 + 12 * 10'000);
}

TEST_CASE("A checkpoint after a stop counts nothing that the stop cut short") {
  const fl::workers fixed{2}, automatic{.count = 1, .max = 8, .io_bound = true};
  const auto number = [](half_stopped& stop) {
    return [&stop](int n, const fl::context& c) {
      stop.attach(c.stop);
      return n;
    };
  };
  const auto first_of = [](half_stopped& stop) {
    return [&stop](const fl::batch_of<int>& b, const fl::context& c) {
      stop.attach(c.stop);
      return b.values()[0] / 4;
    };
  };
  for (const fl::workers& workers : {fixed, automatic}) {
    const std::string with = workers.max == 0 ? " with 2 workers" : " with automatic workers";
    check_half_stopped("map" + with, [&](half_stopped& stop) {
      return fl::from(held_numbers{&stop, 20}) | fl::map(number(stop), workers);
    });
    check_half_stopped("map and prefetch" + with, [&](half_stopped& stop) {
      return fl::from(held_numbers{&stop, 20}) | fl::map(number(stop), workers) | fl::prefetch(1);
    });
    check_half_stopped("map and filter" + with, [&](half_stopped& stop) {
      return fl::from(held_numbers{&stop, 20}) | fl::map(number(stop), workers) |
             fl::filter([](int) { return true; });
    });
    check_half_stopped("map and batch" + with, [&](half_stopped& stop) {
      return fl::from(held_numbers{&stop, 83}) | fl::map(number(stop), workers) | fl::batch(4) |
             fl::map([](const fl::batch_of<int>& b) { return b.values()[0] / 4; });
    });
    check_half_stopped("map of batches" + with, [&](half_stopped& stop) {
      return fl::from(held_numbers{&stop, 83}) | fl::batch(4) | fl::map(first_of(stop), workers);
    });
    check_half_stopped("map of places" + with, [&](half_stopped& stop) {
      return held_places{&stop, 20} | fl::map(number(stop), workers);
    });
  }
}

TEST_CASE("A checkpoint after a skipped failure that came before its batch loses nothing") {
  const watchdog guard("a failure before its batch");
  std::vector<int> order;
  const auto all = fl::from(iota(64)) | fl::global_shuffle() | fl::batch(8);
  for (const auto& b : all.finite({.seed = 3}))
    order.insert(order.end(), b.values().begin(), b.values().end());
  const int bad = order[10], late = order[13]; // both in the second batch
  std::atomic<bool> holds{false};              // the late one
  std::atomic<bool> is_mended{true};           // likewise
  const mapping f = [&](int n) {
    if (n == bad || (n == late && !is_mended)) throw std::runtime_error("bad " + std::to_string(n));
    if (n == late) holds.wait(true);
    return n;
  };
  const auto p = fl::from(iota(64)) | fl::global_shuffle() | fl::map(f, fl::workers{2}) | fl::batch(8);
  const auto rest_of = [](auto& loader) {
    std::vector<int> values;
    for (const auto& b : loader) values.insert(values.end(), b.values().begin(), b.values().end());
    return values;
  };
  fl::finite_options options{.seed = 3, .on_error = fl::on_error::skip, .queue_capacity = 1};
  auto whole = p.finite(options);
  const std::vector<int> expected = rest_of(whole);
  REQUIRE(expected.size() == 63);

  const auto check = [&](const std::string& way, auto leave) {
    INFO(way);
    std::optional<fl::checkpoint> left;
    std::vector<int> values;
    {
      auto loader = p.finite(options);
      const auto first = loader.next();
      values.assign(first->values().begin(), first->values().end());
      leave(loader);
      CHECK(loader.failures().size() >= 1);
      left = loader.checkpoint();
      holds = false;
      holds.notify_all();
    }
    is_mended = true;
    auto resumed = p.finite({.on_error = fl::on_error::skip, .resume = left});
    const std::vector<int> rest = rest_of(resumed);
    values.insert(values.end(), rest.begin(), rest.end());
    CHECK(values == expected);
    CHECK(resumed.failures().empty());
    CHECK(resumed.digest() == whole.digest());
  };

  holds = true;
  check("try_next() that returned nothing yet", [](auto& loader) {
    while (loader.failures().empty()) CHECK_FALSE(loader.try_next());
  });
  options.on_failure = [](const fl::failure&) { throw std::logic_error("mine"); };
  check("on_failure throws",
        [](auto& loader) { CHECK(throws_saying<std::logic_error>("mine", [&] { loader.next(); })); });
  holds = true;
  std::stop_source stop;
  options.stop = stop.get_token();
  options.on_failure = [&](const fl::failure&) { stop.request_stop(); };
  check("a stop", [](auto& loader) { CHECK_FALSE(loader.next()); });
  options.stop = {};
  options.on_failure = {};
  options.failure_limit = 1;
  is_mended = false;
  check("one failure more than the limit", [](auto& loader) {
    CHECK(throws_saying<fl::pipeline_error>("more failed samples than the limit", [&] { loader.next(); }));
  });
}

TEST_CASE("A checkpoint after an incomplete batch doesn't repeat the failures of samples after it") {
  const watchdog guard("a failure at the end of an epoch");
  const auto all = fl::from(iota(20)) | fl::global_shuffle();
  std::vector<int> order;
  for (const int n : all.finite({.seed = 3, .epochs = 2})) order.push_back(n);
  for (const std::size_t from_end : {1u, 2u, 3u}) {
    CAPTURE(from_end);
    const int bad = order[40 - from_end];
    const mapping f = [&](int n) { return n == bad ? throw std::runtime_error("bad") : n; };
    const auto p = all | fl::map(f, fl::workers{2}) | fl::batch(8);
    const fl::finite_options options{.seed = 3, .epochs = 2, .on_error = fl::on_error::skip};
    auto whole = p.finite(options);
    std::vector<std::vector<int>> expected;
    std::vector<std::size_t> failures; // before each item
    std::vector<fl::checkpoint> checkpoints{whole.checkpoint()};
    while (const auto b = whole.next()) {
      expected.emplace_back(b->values().begin(), b->values().end());
      failures.push_back(whole.failures().size());
      checkpoints.push_back(whole.checkpoint());
    }
    REQUIRE(expected.size() == 6);
    failures.push_back(whole.failures().size());
    for (std::size_t at = 0; at < checkpoints.size(); ++at) {
      CAPTURE(at);
      auto resumed = p.finite({.epochs = 2, .on_error = fl::on_error::skip, .resume = checkpoints[at]});
      for (std::size_t i = at; i < expected.size(); ++i) {
        const auto b = resumed.next();
        CHECK(std::ranges::equal(b.value().values(), expected[i]));
      }
      CHECK_FALSE(resumed.next());
      CHECK(resumed.failures().size() == failures.back() - (at > 0 ? failures[at - 1] : 0));
    }
  }
}

TEST_CASE("A checkpoint directly after the failure of the first call of all can be resumed") {
  const watchdog guard("a failure of the first call");
  const auto check = [](const auto& p, std::optional<int> first) {
    const auto throws = [](const fl::failure&) { throw std::logic_error("mine"); };
    auto loader = p.finite({.on_error = fl::on_error::skip, .on_failure = throws});
    CHECK(throws_saying<std::logic_error>("mine", [&] { loader.next(); }));
    const auto left = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
    auto resumed = p.finite({.on_error = fl::on_error::skip, .resume = left});
    CHECK(resumed.next() == first);
    CHECK(resumed.failures().empty());
  };
  check(fl::from(first_call_fails{3}) | opaque(), 1);
  check(fl::from(first_call_fails{3}) | fl::map(same, fl::workers{2}) | opaque(), 1);
  check(fl::from(first_call_fails{1}) | fl::map(same, fl::workers{2}), {}); // its packet ends the epoch
}

TEST_CASE("A checkpoint from before the first snapshot knows its epoch, whichever the run began with") {
  const watchdog guard("first_epoch");
  const auto numbers = [](int size) { return fl::from(iota(static_cast<std::size_t>(size))); };
  const fl::finite_options options{.seed = 3, .first_epoch = 5};
  std::vector<int> order;
  for (const int n : (numbers(20) | fl::global_shuffle()).finite(options)) order.push_back(n);

  SECTION("failures after its incomplete batch don't come again") {
    const mapping f = [&](int n) { return n == order.back() ? throw std::runtime_error("bad") : n; };
    const auto p = numbers(20) | fl::global_shuffle() | fl::map(f) | fl::batch(32);
    const auto left = [&] {
      fl::finite_options leaving = options;
      leaving.on_error = fl::on_error::skip;
      leaving.on_failure = [](const fl::failure&) { throw std::logic_error("mine"); };
      auto loader = p.finite(leaving);
      CHECK(throws_saying<std::logic_error>("mine", [&] { loader.next(); }));
      return loader.checkpoint();
    }();
    CHECK(left.to_json().find("\"epoch\": 5,") != std::string::npos);
    auto resumed = p.finite({.on_error = fl::on_error::skip, .resume = left});
    CHECK(resumed.next().value().size() == 19);
    resumed = p.finite({.on_error = fl::on_error::skip, .resume = resumed.checkpoint()});
    CHECK_FALSE(resumed.next());
    CHECK(resumed.failures().empty());
  }
  SECTION("samples that were added since don't come in it") {
    const auto make = [&](int size) { return numbers(size) | fl::global_shuffle() | opaque(); };
    const auto left = [&] {
      auto loader = make(20).finite(options);
      for (int i = 0; i < 10; ++i) CHECK(loader.next() == order[static_cast<std::size_t>(i)]);
      return loader.checkpoint();
    }();
    auto resumed = make(30).finite({.resume = left, .allow_grown_data = true});
    for (std::size_t i = 10; i < 20; ++i) CHECK(resumed.next() == order[i]);
    CHECK_FALSE(resumed.next());
  }
}

TEST_CASE("A checkpoint survives conversion to bytes, JSON and a file") {
  const temporary_folder folder;
  const auto p = buffered(1000, 50);
  const auto taken = checkpoint_behind(p, 30);
  const auto bytes = taken.to_bytes();
  CHECK(fl::checkpoint::from_bytes(bytes) == taken);
  CHECK(fl::checkpoint::from_json(taken.to_json()) == taken);
  CHECK(taken.to_json().find("\"seed\": 7,") != std::string::npos);
  CHECK(taken.to_json().find("\"held_samples\": 49,") != std::string::npos);
  const std::string path = folder / "run.checkpoint";
  taken.save(path);
  CHECK(fl::checkpoint::load(path) == taken);
  checkpoint_behind(p, 31).save(path); // replaces it
  CHECK(!(fl::checkpoint::load(path) == taken));
  CHECK(std::filesystem::exists(path + ".feedline-draft") == false);
  CHECK(taken.seed() == 7);
}

TEST_CASE("Threads and processes may save to the same path at the same time") {
  const temporary_folder folder;
  const auto p = buffered(1000, 50);
  const std::string path = folder / "run.checkpoint";
  const auto one = checkpoint_behind(p, 30), other = checkpoint_behind(p, 3);
  std::atomic<bool> all_saved{true};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        try {
          for (int i = 0; i < 25; ++i) (t % 2 == 0 ? one : other).save(path);
        } catch (const std::system_error&) {
          all_saved = false;
        }
      });
  }
  CHECK(all_saved);
  const auto last = fl::checkpoint::load(path);
  CHECK((last == one || last == other));
  CHECK_FALSE(std::filesystem::exists(path + ".feedline-draft"));
}

TEST_CASE("What a killed process has written of a checkpoint is overwritten") {
  const temporary_folder folder;
  const auto taken = checkpoint_behind(buffered(100, 5), 1);
  folder.write("run.checkpoint.feedline-draft", std::string(100'000, 'x'));
  taken.save(folder / "run.checkpoint");
  CHECK(fl::checkpoint::load(folder / "run.checkpoint") == taken);
}

TEST_CASE("Files beside a checkpoint stay, and so does who may read it") {
  namespace fs = std::filesystem;
  const temporary_folder folder;
  const auto p = buffered(100, 5);
  const std::string path = folder / "run";
  for (const char* name : {"run.draft", "run.part", "run.tmp"}) folder.write(name, "mine");
  checkpoint_behind(p, 1).save(path);
  const fs::perms usual = fs::status(path).permissions();
  for (const auto mode : {fs::perms(0600), fs::perms(0640), fs::perms(0666), fs::perms(0400)}) {
    fs::permissions(path, mode);
    const auto taken = checkpoint_behind(p, 2);
    taken.save(path);
    CHECK(fs::status(path).permissions() == mode);
    CHECK(fl::checkpoint::load(path) == taken);
  }
  // A process that was killed has left a draft that it had made as private as the file.
  folder.write("run.feedline-draft", "half");
  fs::permissions(folder / "run.feedline-draft", fs::perms(0600));
  checkpoint_behind(p, 3).save(path);
  CHECK(fs::status(path).permissions() == fs::perms(0400));
  fs::remove(path);
  checkpoint_behind(p, 3).save(path);
  CHECK(fs::status(path).permissions() == usual);
  for (const char* name : {"run.draft", "run.part", "run.tmp"})
    CHECK(fl::test::contents_of(folder / name) == "mine");
}

TEST_CASE("A file that can't be written or read is named in the error") {
  const temporary_folder folder;
  const auto taken = checkpoint_behind(buffered(100, 5), 1);
  CHECK(throws_saying<std::system_error>("/nowhere/x", [&] { taken.save(folder / "nowhere/x"); }));
  CHECK(throws_saying<std::system_error>("/missing", [&] { fl::checkpoint::load(folder / "missing"); }));
  const std::string file = folder.write("other", "something else altogether");
  CHECK(throws_saying<std::invalid_argument>(file + ": feedline: these 25 bytes are not a checkpoint",
                                             [&] { fl::checkpoint::load(file); }));
  const auto is_directory = folder.path() + ": Is a directory";
  CHECK(throws_saying<std::system_error>(is_directory, [&] { fl::checkpoint::load(folder.path()); }));
  CHECK(throws_saying<std::system_error>(is_directory, [&] { taken.save(folder.path()); }));
  CHECK_FALSE(std::filesystem::exists(folder.path() + ".feedline-draft"));
}

TEST_CASE("Truncated or changed bytes are refused, wherever the change is") {
  const auto bytes = checkpoint_behind(buffered(100, 20), 5).to_bytes();
  const auto is_refused = [](const std::vector<std::byte>& b) {
    return throws_saying<std::invalid_argument>("feedline: ", [&] { fl::checkpoint::from_bytes(b); });
  };
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK(is_refused({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] ^= std::byte{1} << bit;
      CHECK(is_refused(changed));
    }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  CHECK(is_refused(longer));
  auto newer = bytes;
  newer[3] = std::byte{fl::checkpoint::version + 1};
  CHECK(throws_saying<std::invalid_argument>("the checkpoint has version 6, this library reads version 5",
                                             [&] { fl::checkpoint::from_bytes(newer); }));
  CHECK(throws_saying<std::invalid_argument>("no field \"bytes\"", [] { fl::checkpoint::from_json("{}"); }));
}

TEST_CASE("Bytes with a valid checksum but invalid contents do no harm") {
  const watchdog guard("nonsense");
  const auto p = buffered(100, 20);
  const auto bytes = checkpoint_behind(p, 5).to_bytes();
  fl::random_generator random(1);
  int refused = 0, runs = 0;
  for (int i = 0; i < rounds(3000); ++i) {
    auto changed = bytes;
    for (std::uint64_t n = random.below(4) + 1; n > 0; --n)
      changed[4 + random.below(bytes.size() - 8)] = static_cast<std::byte>(random.below(256));
    changed.resize(bytes.size() - 4);
    const std::uint32_t sum = fl::detail::checksum_of_bytes(changed);
    for (int shift = 0; shift < 32; shift += 8) changed.push_back(static_cast<std::byte>(sum >> shift));
    try {
      auto loader = p.infinite({.resume = fl::checkpoint::from_bytes(changed)});
      loader.next();
      ++runs;
    } catch (const std::exception&) {
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK(runs > 0);
}

TEST_CASE("A checkpoint of another run is refused with the difference") {
  const auto p = buffered(100, 20);
  const auto c = checkpoint_behind(p, 5);
  CHECK(throws_saying<std::invalid_argument>("with seed 7, this one has 8",
                                             [&] { p.infinite({.seed = 8, .resume = c}); }));
  CHECK(p.infinite({.resume = c}).checkpoint().seed() == 7); // the checkpoint's seed
  CHECK(throws_saying<std::invalid_argument>("taken from an infinite run, but this is a finite one",
                                             [&] { p.finite({.resume = c}); }));
  auto finite = p.finite({.seed = 7, .epochs = 2});
  finite.next();
  CHECK(throws_saying<std::invalid_argument>("taken from a run over several epochs, but this is one over one",
                                             [&] { p.finite({.resume = finite.checkpoint()}); }));
  CHECK(refuses(
      buffered(100, 21), c,
      "its pipeline differs from this one at position 2, where this one has shuffle: its size was 20, here "
      "it is 21"));
  CHECK(refuses(fl::from(iota(100)) | fl::shuffle({.capacity = 20}) | fl::batch(10), c,
                "its pipeline has 3 stages"));
  CHECK(refuses(fl::from(iota(100)) | fl::map(plus_one, fl::workers{2}, fl::name{"plus"}) |
                    fl::shuffle({.capacity = 20}) | fl::batch(10),
                c, "its pipeline differs from this one at position 1"));
}

TEST_CASE("A checkpoint depends on the order of the data set") {
  const auto listed = fl::from(iota(100)) | fl::batch(10);
  const auto shuffled = fl::from(iota(100)) | fl::global_shuffle() | fl::batch(10);
  CHECK(refuses(listed, checkpoint_behind(shuffled, 3), "the data set of from has changed"));
  CHECK(refuses(shuffled, checkpoint_behind(listed, 3), "the data set of from has changed"));
}

TEST_CASE("A changed data set is refused, and a grown one without allow_grown_data") {
  const auto changed = [](std::size_t at) {
    auto all = iota(100);
    all[at] = -1;
    return fl::from(all) | fl::batch(10);
  };
  const auto p = fl::from(iota(100)) | fl::batch(10);
  const auto c = checkpoint_behind(p, 5);
  CHECK(refuses(changed(99), c, "the data set of from has changed since"));
  CHECK(
      refuses(fl::from(iota(99)) | fl::batch(10), c, "the data set of from has shrunk from 100 to 99 parts"));
  const auto grown = fl::from(iota(105)) | fl::batch(10);
  CHECK(refuses(
      grown, c,
      "the data set of from has grown from 100 to 105 parts since the checkpoint: set allow_grown_data"));
  auto loader = grown.infinite({.resume = c, .allow_grown_data = true});
  for (const std::uint64_t first : {50u, 60u, 70u, 80u, 90u}) CHECK(indices_of_next(loader)[0] == first);
  const auto in_the_next_epoch = loader.checkpoint();
  for (int i = 0; i < 10; ++i) CHECK(indices_of_next(loader).size() == 10);
  CHECK(indices_of_next(loader) == std::vector<std::uint64_t>{100, 101, 102, 103, 104, 0, 1, 2, 3, 4});
  CHECK(grown.infinite({.resume = in_the_next_epoch, .allow_grown_data = true}).next().value().indices()[0] ==
        0);
}

TEST_CASE("A shuffled epoch that has begun ends without the samples added since") {
  const auto p = fl::from(iota(100)) | fl::global_shuffle() | fl::batch(10);
  const auto c = checkpoint_behind(p, 5);
  auto expected = p.infinite({.resume = c});
  auto loader = (fl::from(iota(150)) | fl::global_shuffle() | fl::batch(10))
                    .infinite({.resume = c, .allow_grown_data = true});
  for (int i = 0; i < 3; ++i) CHECK(indices_of_next(loader) == indices_of_next(expected));
  // A checkpoint taken now still belongs to the epoch with 100 samples.
  loader = (fl::from(iota(150)) | fl::global_shuffle() | fl::batch(10))
               .infinite({.resume = loader.checkpoint(), .allow_grown_data = true});
  for (int i = 0; i < 2; ++i) CHECK(indices_of_next(loader) == indices_of_next(expected));
  std::vector<bool> seen(150);
  for (int i = 0; i < 15; ++i)
    for (const std::uint64_t index : indices_of_next(loader)) seen[index] = true;
  CHECK(seen == std::vector<bool>(150, true));
}

TEST_CASE("A replaced shard is detected, an added one is accepted on request") {
  const temporary_folder folder;
  const auto write = [&](const char* name, const std::string& text) {
    tar_writer tar;
    for (int i = 0; i < 10; ++i) tar.add(std::to_string(i) + ".txt", text + std::to_string(i));
    return folder.write(name, tar.closed());
  };
  write("a.tar", "a");
  write("b.tar", "b");
  const auto make = [&] {
    return fl::tar_samples(folder / "*.tar") |
           fl::map([](const fl::tar_sample& s) { return s.text("txt").size(); }) | fl::batch(4);
  };
  const auto c = checkpoint_behind(make(), 2);
  CHECK(make().infinite({.resume = c}).next());
  write("c.tar", "c");
  CHECK(refuses(make(), c, "the data set of tar_samples has grown from 2 to 3 parts"));
  CHECK(make().infinite({.resume = c, .allow_grown_data = true}).next());
  write("b.tar", "B"); // of the same size
  CHECK(refuses(make(), c, "the data set of tar_samples has changed since"));
}

#if !FEEDLINE_TEST_TSAN // which doesn't follow a fork of a process with threads
TEST_CASE("A killed process continues from its last checkpoint") {
  const watchdog guard("kill -9");
  const temporary_folder folder;
  const std::string path = folder / "checkpoint";
  const auto p = buffered(5000, 300);
  std::vector<std::vector<std::uint64_t>> expected;
  { // ends its threads: the address sanitizer's allocator stays locked in a child if one of them is inside
    auto undisturbed = p.infinite({.seed = 7});
    for (int i = 0; i < 400; ++i) expected.push_back(indices_of_next(undisturbed));
  }
  std::size_t step = 0;
  while (step < 300) {
    int pipe[2];
    REQUIRE(::pipe(pipe) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto loader = p.infinite(
          {.seed = 7, .resume = step == 0 ? std::nullopt : std::optional(fl::checkpoint::load(path))});
      for (;;) {
        loader.next();
        loader.checkpoint().save(path);
        if (::write(pipe[1], "", 1) != 1) ::_exit(1); // one more checkpoint is saved
      }
    }
    ::close(pipe[1]);
    char byte;
    for (int i = 0; i < 37; ++i) REQUIRE(::read(pipe[0], &byte, 1) == 1);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    // It may have got further than it could report.
    step += 37;
    while (::read(pipe[0], &byte, 1) == 1) ++step;
    ::close(pipe[0]);
    auto loader = p.infinite({.resume = fl::checkpoint::load(path)});
    const auto next = indices_of_next(loader);
    if (next == expected.at(step + 1)) ++step; // killed between saving and reporting
    REQUIRE(next == expected.at(step));
  }
}

TEST_CASE("A checkpoint above the file size limit neither ends the process nor replaces an older one") {
  const temporary_folder folder;
  const std::string path = folder / "checkpoint";
  auto loader = buffered(5000, 300).infinite({.seed = 7});
  loader.checkpoint().save(path);
  const auto older = fl::checkpoint::load(path);
  indices_of_next(loader);
  const auto newer = loader.checkpoint();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit few{50, 50};
    if (::signal(SIGXFSZ, SIG_DFL) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &few) != 0) ::_exit(2);
    ::_exit(throws_saying<std::system_error>(path + ": File too large", [&] { newer.save(path); }) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(fl::checkpoint::load(path) == older);
  CHECK_FALSE(std::filesystem::exists(path + ".feedline-draft"));
}
#endif

TEST_CASE("A run that is left and resumed again and again loses nothing") {
  const auto five = [](int n) { return std::vector<int>(5, n); };
  const auto check = [](const auto& p, std::size_t every) {
    std::vector<std::string> expected, seen;
    auto whole = p.finite({.seed = 3, .epochs = 2});
    while (const auto b = whole.next())
      for (const fl::sample_id& id : b->ids())
        expected.push_back(std::to_string(id.index) + "." + std::to_string(id.sub_index));
    std::optional<fl::checkpoint> from;
    for (bool ended = false; !ended;) {
      auto loader = p.finite({.seed = 3, .epochs = 2, .resume = from});
      for (std::size_t i = 0; i < every && !ended; ++i) {
        const auto b = loader.next();
        ended = !b;
        if (b)
          for (const fl::sample_id& id : b->ids())
            seen.push_back(std::to_string(id.index) + "." + std::to_string(id.sub_index));
      }
      from = loader.checkpoint();
    }
    CHECK(seen == expected);
    CHECK_FALSE(p.finite({.seed = 3, .epochs = 2, .resume = from}).next());
  };
  const auto source = fl::from(iota(40));
  for (const std::size_t every : {1u, 2u, 3u, 7u}) {
    check(source | fl::shuffle({.capacity = 10}) | fl::flat_map(five) | fl::batch(1), every);
    check(source | fl::flat_map(five) | fl::shuffle({.capacity = 10}) | fl::flat_map(five) |
              fl::shuffle({.capacity = 3}) | fl::batch(9),
          every);
    check(source | fl::global_shuffle() | fl::map(same, fl::workers{2}) | fl::shuffle({.capacity = 5}) |
              fl::batch(3),
          every);
  }
}

TEST_CASE("A resumed run that stops at once has the checkpoint that it came from") {
  std::optional<std::stop_source> stop(std::in_place);
  const mapping stop_at_95 = [&stop](int n) {
    if (n == 95) stop->request_stop();
    return n;
  };
  const auto p = fl::from(iota(1000)) | fl::map(stop_at_95) | fl::batch(1);
  const auto c = [&] {
    auto loader = p.infinite();
    for (int i = 0; i < 90; ++i) loader.next();
    return loader.checkpoint();
  }();
  stop.emplace();
  auto loader = p.infinite({.stop = stop->get_token(), .resume = c});
  std::uint64_t given = 90;
  while (const auto b = loader.next()) CHECK(b->indices()[0] == given++);
  const auto next = fl::from(iota(1000)) | fl::map(same) | fl::batch(1);
  CHECK(next.infinite({.resume = loader.checkpoint()}).next().value().indices()[0] == given);
}

TEST_CASE("The digest depends only on the samples and their order") {
  const auto digest_of = [](const auto& p, int items, std::uint64_t seed = 7) {
    auto loader = p.infinite({.seed = seed});
    for (int i = 0; i < items; ++i) loader.next();
    return loader.digest();
  };
  const auto p = buffered(100, 20);
  CHECK(digest_of(p, 0) == 0);
  CHECK(digest_of(p, 50) == digest_of(p, 50));
  CHECK(digest_of(p, 50) != digest_of(p, 51));
  CHECK(digest_of(p, 50) != digest_of(p, 50, 8));
  auto loader = p.infinite({.resume = checkpoint_behind(p, 20)});
  for (int i = 0; i < 30; ++i) loader.next();
  CHECK(loader.digest() == digest_of(p, 50));
  const auto listed = [](std::vector<int> all) { return fl::from(std::move(all)) | fl::prefetch(2); };
  CHECK(digest_of(listed({0, 1, 2}), 3) == digest_of(listed({5, 6, 7}), 3)); // identities, not values
  // The same indices, but in epochs of another length.
  const auto of_epochs = [&](std::uint64_t length, const auto& last) {
    return digest_of(fl::from(counted_on{length}) | last, 3);
  };
  CHECK(of_epochs(6, fl::prefetch(2)) == of_epochs(7, fl::prefetch(2)));
  CHECK(of_epochs(1, fl::prefetch(2)) != of_epochs(2, fl::prefetch(2)));
  CHECK(of_epochs(6, fl::batch(2)) == of_epochs(7, fl::batch(2)));
  CHECK(of_epochs(1, fl::batch(2)) != of_epochs(2, fl::batch(2)));
  // Any two samples that are swapped.
  const auto of_ids = [](std::vector<fl::sample_id> ids) {
    fl::detail::running_digest d;
    d.add(fl::sample_ids(ids));
    return d.value();
  };
  for (std::size_t size = 1; size <= 9; ++size)
    for (std::size_t a = 0; a < size; ++a)
      for (std::size_t b = 0; b < a; ++b) {
        std::vector<fl::sample_id> ids(size);
        for (std::size_t i = 0; i < size; ++i) ids[i].index = i;
        auto other = ids;
        std::swap(other[a], other[b]);
        CHECK(of_ids(ids) != of_ids(other));
      }
  CHECK(of_ids({{1, 0, 0}}) != of_ids({{0, 1, 0}}));
  CHECK(of_ids({{0, 0, 1}}) != of_ids({{0, 1, 0}}));
  CHECK(of_ids({{0, 0, 1}}) != of_ids({{0, 0, 0}}));
}

TEST_CASE("replay() returns a sample as the run saw it") {
  const auto p =
      fl::from(iota(200)) | fl::global_shuffle() |
      fl::map([](int n, fl::context& c) { return n * 100 + static_cast<int>(c.random.below(100)); },
              fl::workers{2}) |
      fl::prefetch(3) | fl::take(1000) | fl::shuffle({.capacity = 20}) |
      fl::flat_map([](int n, fl::context& c) {
        return std::vector{n, -static_cast<int>(c.random.below(50))};
      }) |
      fl::filter([](int n) { return n % 5 != 0; }, fl::name{"fives"}) | fl::batch(7);
  auto loader = p.infinite({.seed = 9});
  for (int i = 0; i < 100; ++i) {
    const auto b = loader.next();
    for (std::size_t k = 0; k < b->size(); ++k) {
      const fl::sample_id id = b->ids()[k];
      CHECK(p.replay(9, id) == b->values()[k]);
    }
  }
  CHECK(p.replay(9, {200}) == std::nullopt);
  CHECK(p.replay(9, {5, 2}) == std::nullopt);
  const mapping refuse = [](int n) -> int { throw std::runtime_error("bad " + std::to_string(n)); };
  const auto bad = fl::from(iota(10)) | fl::map(refuse) | fl::batch(2);
  CHECK(throws_saying<fl::pipeline_error>("map failed on sample 3: bad 3", [&] { bad.replay(0, {3}); }));
}

TEST_CASE("replay() returns a part of a sample whose other parts failed") {
  const auto p =
      fl::from(iota(4)) | fl::flat_map([](int n) {
        return std::vector{10 * n, 10 * n + 1, 10 * n + 2, 10 * n + 3};
      }) |
      fl::map([](int n) { return n % 10 == 0 || n == 22 ? throw std::runtime_error("bad part") : n; }) |
      fl::filter([](int n) { return n != 13; }) | fl::batch(3);
  const fl::finite_options options{.seed = 7, .on_error = fl::on_error::skip};
  auto loader = p.finite(options);
  while (const auto b = loader.next())
    for (std::size_t k = 0; k < b->size(); ++k) {
      CHECK(p.replay(options, b->ids()[k]) == b->values()[k]);
      CHECK(p.replay(7, b->ids()[k]) == b->values()[k]);
    }
  CHECK_FALSE(p.replay(options, {1, 3})); // filtered out
  for (const fl::sample_id& failed : {fl::sample_id{1, 0}, fl::sample_id{2, 2}})
    CHECK(throws_saying<fl::pipeline_error>("bad part", [&] { p.replay(options, failed); }));

  // Then a failure before the last of them may concern any part of its sample.
  const auto twice = fl::from(iota(4)) |
                     fl::map([](int n) { return n == 2 ? throw std::runtime_error("bad") : n; }) |
                     fl::flat_map([](int n) {
                       return std::vector{n, n};
                     }) |
                     fl::flat_map([](int n) {
                       return std::vector{n, n};
                     });
  CHECK(twice.replay(options, {1, fl::detail::part_of({1, 1}, 1).sub_index}) == 1);
  CHECK(throws_saying<fl::pipeline_error>("bad", [&] {
    twice.replay(options, {2, fl::detail::part_of({2, 1}, 1).sub_index});
  }));
}

TEST_CASE("replay() makes no more parts of a sample than up to the wanted one") {
  const watchdog guard("a sample of endless parts");
  int made = 0;
  const auto endless = fl::from(iota(3)) | fl::flat_map([](int n) { return std::views::iota(n); }) |
                       fl::tap([&](int) { ++made; }) | fl::take(100);
  CHECK(endless.replay(0, {1, 5}) == 6);
  CHECK(made == 6);
}

TEST_CASE("A resumed run holds no more parts of a sample that it reads again than its buffer has") {
  static std::atomic<int> alive = 0, most = 0;

  struct counted {
    counted(int n) : value(n) { most = std::max<int>(most, ++alive); }

    counted(const counted& other) : counted(other.value) {}

    counted(counted&& other) noexcept : counted(other.value) {}

    counted& operator=(const counted&) = default;

    ~counted() { --alive; }

    int value;
  };

  const auto p = fl::from(iota(1)) | fl::flat_map([](int) {
                   return std::views::iota(0, 5000) | std::views::transform([](int n) { return counted(n); });
                 }) |
                 fl::shuffle({.capacity = 10}) | fl::map([](const counted& c) { return c.value; });
  auto loader = p.infinite();
  for (int i = 0; i < 100; ++i) REQUIRE(loader.next());
  const auto left = loader.checkpoint();
  const auto expected = *loader.next();
  loader.stop();
  loader = {};
  most = 0;
  auto resumed = p.infinite({.resume = left});
  CHECK(most < 100);
  CHECK(*resumed.next() == expected);
}

TEST_CASE("A checkpoint can be taken before the first item, after the last and after a stop") {
  const auto p = buffered(100, 20);
  auto loader = p.finite();
  const auto first = loader.checkpoint();
  int batches = 0;
  while (loader.next()) ++batches;
  CHECK(batches == 10);
  CHECK(p.finite({.resume = loader.checkpoint()}).next() == std::nullopt);
  auto again = p.finite({.resume = first});
  batches = 0;
  while (again.next()) ++batches;
  CHECK(batches == 10);
  auto stopped = p.infinite();
  stopped.next();
  const auto before = stopped.checkpoint();
  stopped.stop();
  CHECK(stopped.next() == std::nullopt);
  CHECK(stopped.checkpoint() == before);
  auto moved = std::move(stopped);
  CHECK(throws_saying<std::logic_error>("moved from", [&] { stopped.checkpoint(); }));
}

TEST_CASE("The failure limit counts the failures before a resume") {
  const mapping refuse_nines = [](int n) { return n % 10 == 9 ? throw std::runtime_error("bad") : n; };
  const auto p = fl::from(iota(100)) | fl::map(refuse_nines) | fl::batch(9);
  auto loader = p.infinite({.on_error = fl::on_error::skip, .failure_limit = 5});
  for (int i = 0; i < 4; ++i) loader.next();
  auto resumed =
      p.infinite({.on_error = fl::on_error::skip, .failure_limit = 5, .resume = loader.checkpoint()});
  CHECK(resumed.next());
  CHECK(resumed.next());
  CHECK(throws_saying<fl::pipeline_error>("more failed samples than the limit of 5", [&] {
    resumed.next();
    resumed.next();
  }));
}
