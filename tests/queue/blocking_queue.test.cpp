// SPDX-License-Identifier: MIT
#include <feedline/queue/blocking_queue.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;
using fl::queue_status;
using namespace std::chrono_literals;

namespace {

/// A queue for one thread. A wait brings what `other_side` does, or passes the deadline.
class scripted_queue : public fl::blocking_queue<scripted_queue, std::unique_ptr<int>> {
  friend fl::blocking_queue<scripted_queue, std::unique_ptr<int>>;

 public:
  queue_status try_push(std::unique_ptr<int>&& item) {
    if (closed) return queue_status::closed;
    if (items.size() == capacity) return queue_status::full;
    items.push_back(std::move(item));
    return queue_status::success;
  }

  std::size_t try_push_bulk(std::span<std::unique_ptr<int>> from) {
    const std::size_t count = closed ? 0 : std::min(from.size(), capacity - items.size());
    for (std::size_t i = 0; i < count; ++i) items.push_back(std::move(from[i]));
    return count;
  }

  queue_status try_pop(std::unique_ptr<int>& item) {
    if (items.empty()) return closed ? queue_status::closed : queue_status::empty;
    item = std::move(items.front());
    items.pop_front();
    return queue_status::success;
  }

  std::size_t try_pop_bulk(std::span<std::unique_ptr<int>> to) {
    std::size_t count = 0;
    while (count < to.size() && try_pop(to[count]) == queue_status::success) ++count;
    return count;
  }

  bool is_closed() const { return closed; }

  static constexpr std::size_t capacity = 2;
  std::deque<std::unique_ptr<int>> items;
  bool closed = false;

  enum { makes_way, closes, does_nothing } other_side = makes_way;

  int waits = 0;

 private:
  bool ended() const { return closed && items.empty(); }

  bool wait(fl::detail::deadline until, auto make_way) {
    ++waits;
    if (other_side == makes_way) make_way();
    if (other_side == closes) closed = true;
    REQUIRE((other_side != does_nothing || until != fl::detail::no_deadline));
    return other_side != does_nothing;
  }

  bool wait_for_room(fl::detail::deadline until) {
    return wait(until, [this] { items.pop_front(); });
  }

  bool wait_for_items(fl::detail::deadline until) {
    return wait(until, [this] { items.push_back(std::make_unique<int>(7)); });
  }
};

} // namespace

TEST_CASE("a queue's calls wait until they succeed, and only then") {
  scripted_queue q;
  std::vector<std::unique_ptr<int>> all(5);
  CHECK(q.push_bulk(all) == 5);
  CHECK(q.waits == 3); // for one place each
  CHECK(q.push(std::make_unique<int>(1)) == queue_status::success);
  CHECK(q.push_for(std::make_unique<int>(2), 1h) == queue_status::success);
  CHECK(q.waits == 5);
  CHECK(q.pop_bulk(all) == 2);
  CHECK(*all[1] == 2);
  CHECK(q.waits == 5);
  CHECK(q.pop_bulk(all) == 1);
  CHECK(q.pop(all[0]) == queue_status::success);
  CHECK(q.pop_for(all[0], 1h) == queue_status::success);
  CHECK(*all[0] == 7);
  CHECK(q.waits == 8);
}

TEST_CASE("a queue's calls leave the item untouched when the time is over or the queue is closed") {
  scripted_queue q;
  std::vector<std::unique_ptr<int>> all(2);
  CHECK(q.push_bulk(all) == 2);
  q.other_side = scripted_queue::does_nothing;
  auto item = std::make_unique<int>(3);
  CHECK(q.push_for(std::move(item), 0ns) == queue_status::full);
  CHECK(q.waits == 0);
  CHECK(q.push_for(std::move(item), 1ns) == queue_status::full);
  CHECK(q.waits == 1);
  q.other_side = scripted_queue::closes;
  CHECK(q.push(std::move(item)) == queue_status::closed);
  CHECK(*item == 3);
  CHECK(q.push_bulk(std::span(&item, 1)) == 0);
  CHECK(q.pop_bulk({}) == 0);
  CHECK(q.pop_bulk(all) == 2);
  CHECK(q.pop_bulk(all) == 0);
  CHECK(q.pop(item) == queue_status::closed);
  CHECK(*item == 3);
}

TEST_CASE("a queue's pop ends when the time is over or the queue is closed while it waits") {
  scripted_queue q;
  q.other_side = scripted_queue::does_nothing;
  auto item = std::make_unique<int>(3);
  CHECK(q.pop_for(item, 0ns) == queue_status::empty);
  CHECK(q.pop_for(item, 1ns) == queue_status::empty);
  CHECK(q.waits == 1);
  q.other_side = scripted_queue::closes;
  CHECK(q.pop(item) == queue_status::closed);
  CHECK(*item == 3);
}
