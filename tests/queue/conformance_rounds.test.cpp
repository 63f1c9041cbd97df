// SPDX-License-Identifier: MIT
// Random rounds: no item is lost, duplicated or out of order under any interleaving of push, pop, close and
// stop. FEEDLINE_TEST_ROUNDS sets the number of rounds for each queue. By default there are 10,000, but fewer if they take
// longer than 20 s, and 200 for many threads.
#include <feedline/queue/queue_status.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/queue_kinds.hpp"

using feedline::queue_status;
using feedline::random_generator;
using namespace feedline::test;

namespace {

// An item's value contains its producer and its number among that producer's items.
constexpr int stride = 1000;

enum class ending { close_when_pushed, close_at_once, stop_at_once, token_at_once, close_then_stop };

thread_local random_generator jitter(0); // for the thread's current round

// Lets other threads run, often enough that they interleave between any two steps.
void dawdle(std::uint64_t most) {
  if (jitter.below(64) == 0) std::this_thread::yield();
  for (std::uint64_t left = jitter.below(most); left > 0; --left)
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

// A time that often passes while other threads are busy.
std::chrono::nanoseconds some_time() { return std::chrono::microseconds(jitter.below(100)); }

// An item whose move takes a random time, in the middle of a push or a pop.
struct slow_item {
  slow_item() noexcept = default;

  slow_item(lifetimes& all, int value) noexcept : item(all, value) {}

  slow_item(slow_item&& other) noexcept : item(std::move(other.item)) { dawdle(20); }

  slow_item& operator=(slow_item&& other) noexcept {
    dawdle(20);
    item = std::move(other.item);
    return *this;
  }

  counted_item item;
};

// Threads that serve all rounds: in each round, all of them pass two barriers.
template <class Kind>
class stress {
  using queue = typename Kind::template queue<slow_item>;
  static constexpr int actors = Kind::producers + Kind::consumers;

 public:
  explicit stress(std::uint64_t seed) : seed_(seed) {
    for (int i = 0; i < actors; ++i)
      threads_.emplace_back([this, i] {
        for (;;) {
          gate_.arrive_and_wait();
          if (finished_) return;
          if (i < Kind::producers) produce(i);
          else consume(i);
          gate_.arrive_and_wait();
        }
      });
  }

  ~stress() {
    finished_ = true;
    gate_.arrive_and_wait();
  }

  // Plays one round. Returns what was wrong with it, or an empty text.
  std::string play(std::uint64_t round) {
    round_ = round;
    random_generator random(feedline::detail::key(seed_, round));
    jitter = random_generator(random());
    const auto how = static_cast<ending>(random.below(5));
    lifetimes all;
    std::stop_source source;
    all_ = &all;
    queue_.emplace(1 + random.below(random.below(2) == 0 ? 3 : 20), source.get_token());
    planned_ = random.below(2) == 0 ? 3 : 25;
    pushed_.store(0);

    gate_.arrive_and_wait();
    if (how == ending::close_when_pushed)
      for (int done = pushed_.load(); done < Kind::producers; done = pushed_.load()) pushed_.wait(done);
    dawdle(400);
    if (how == ending::stop_at_once) queue_->stop();
    else if (how == ending::token_at_once) source.request_stop();
    else queue_->close();
    if (how == ending::close_then_stop) {
      dawdle(100);
      queue_->stop();
    }
    gate_.arrive_and_wait();

    const bool stopped = how != ending::close_when_pushed && how != ending::close_at_once;
    std::string wrong = verdict(stopped);
    queue_.reset();
    if (all.live() != 0) wrong += " items outlive the queue: " + std::to_string(all.live());
    return wrong.empty() ? wrong : "round " + std::to_string(round) + ":" + wrong;
  }

 private:
  void produce(int me) {
    jitter = random_generator(feedline::detail::key(seed_, round_, me));
    std::array<slow_item, 5> items;
    int next = 0;
    bool open = true;
    const int planned = static_cast<int>(jitter.below(planned_ + 1));
    while (open && next < planned) {
      dawdle(50);
      const auto want = jitter.below(2) == 0 ? 1 : 1 + static_cast<std::size_t>(jitter.below(items.size()));
      const std::span some(items.data(), want);
      for (std::size_t i = 0; i < want; ++i)
        some[i] = slow_item(*all_, me * stride + next + static_cast<int>(i));
      std::size_t moved = 0;
      if (want > 1) {
        const bool blocking = jitter.below(2) == 0;
        moved = blocking ? queue_->push_bulk(some) : queue_->try_push_bulk(some);
        open = !blocking || moved == want;
      } else {
        const auto choice = jitter.below(3);
        const auto status = choice == 0   ? queue_->push(std::move(some[0]))
                            : choice == 1 ? queue_->try_push(std::move(some[0]))
                                          : queue_->push_for(std::move(some[0]), some_time());
        moved = status == queue_status::success ? 1 : 0;
        open = status != queue_status::closed;
      }
      for (std::size_t i = 0; i < want; ++i)
        if (some[i].item.empty() != (i < moved)) next = -stride; // a refused item was touched
      next += static_cast<int>(moved);
    }
    accepted_[static_cast<std::size_t>(me)] = next;
    pushed_.fetch_add(1);
    pushed_.notify_one();
  }

  void consume(int me) {
    jitter = random_generator(feedline::detail::key(seed_, round_, me));
    auto& seen = seen_[static_cast<std::size_t>(me - Kind::producers)];
    seen.clear();
    std::array<slow_item, 5> items;
    for (bool open = true; open;) {
      dawdle(50);
      std::size_t moved = 0;
      const auto choice = jitter.below(5);
      const std::span some(items.data(),
                           choice < 3 ? 1 : 1 + static_cast<std::size_t>(jitter.below(items.size())));
      if (choice < 3) {
        const auto status = choice == 0   ? queue_->pop(some[0])
                            : choice == 1 ? queue_->try_pop(some[0])
                                          : queue_->pop_for(some[0], some_time());
        moved = status == queue_status::success ? 1 : 0;
        open = status != queue_status::closed;
      } else {
        moved = choice == 3 ? queue_->pop_bulk(some) : queue_->try_pop_bulk(some);
        open = choice == 4 || moved > 0;
      }
      for (std::size_t i = 0; i < moved; ++i) seen.push_back(some[i].item.value());
    }
  }

  std::string verdict(bool stopped) const {
    std::string wrong;
    std::array<std::vector<int>, Kind::producers> times;
    for (std::size_t p = 0; p < Kind::producers; ++p) {
      if (accepted_[p] < 0) wrong += " a refused item was touched";
      times[p].resize(accepted_[p] < 0 ? 0 : static_cast<std::size_t>(accepted_[p]));
    }
    for (const auto& seen : seen_) {
      std::array<int, Kind::producers> last;
      last.fill(-1);
      for (const int value : seen) {
        const auto p = static_cast<std::size_t>(value / stride);
        const int number = value % stride;
        if (value < 0 || p >= Kind::producers || number >= accepted_[p]) {
          wrong += " an item was delivered that wasn't accepted: " + std::to_string(value);
          continue;
        }
        if (number <= last[p]) wrong += " out of order: " + std::to_string(value);
        last[p] = number;
        ++times[p][static_cast<std::size_t>(number)];
      }
    }
    for (std::size_t p = 0; p < Kind::producers; ++p)
      for (std::size_t i = 0; i < times[p].size(); ++i)
        if (times[p][i] > 1 || (times[p][i] == 0 && !stopped))
          wrong += " item " + std::to_string(p * stride + i) + " was delivered " +
                   std::to_string(times[p][i]) + " times";
    return wrong;
  }

  const std::uint64_t seed_;
  std::barrier<> gate_{actors + 1};
  // Written between rounds, read during rounds.
  bool finished_ = false;
  std::uint64_t round_ = 0;
  std::uint64_t planned_ = 0;
  lifetimes* all_ = nullptr;
  std::optional<queue> queue_;
  // Written by one actor each, read between rounds.
  std::atomic<int> pushed_{0};
  std::array<int, Kind::producers> accepted_{};
  std::array<std::vector<int>, Kind::consumers> seen_;
  std::vector<std::jthread> threads_;
};

} // namespace

TEMPLATE_TEST_CASE("random rounds lose, duplicate and reorder no item", "[queue]", spsc_kind,
                   fenced_spsc_kind, mpmc_kind, crowded_mpmc_kind, reorder_kind, mutex_kind) {
  stress<TestType> players(20240229);
  std::string wrong;
  const char* const wanted = std::getenv("FEEDLINE_TEST_ROUNDS");
  const bool crowded = TestType::producers > 3;
  const std::uint64_t most = wanted ? std::stoull(wanted) : crowded ? 200 : 10'000;
  const std::uint64_t least = wanted ? most : crowded ? 20 : 500;
  // A round takes up to a hundred times as long where other programs use the processors.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (std::uint64_t round = 0; round < most && wrong.empty(); ++round) {
    if (round >= least && std::chrono::steady_clock::now() > enough) break;
    wrong = players.play(round);
  }
  REQUIRE(wrong == "");
}
