// SPDX-License-Identifier: MIT
// Runs that are resumed from the checkpoint of some item yield the next items, whatever their stages:
// compositions with random parameters, cut at random items.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

struct parameters {
  explicit parameters(draw& d)
      : samples(d(1, 300)),
        keep(d(2, 5)),
        parts(d(1, 5)),
        bad(d(5, 40)),
        first(d(1, 200)),
        skipped(d(0, std::min<std::uint64_t>(50, (samples - 1) / 2))),
        capacity(d(1, 60)),
        other_capacity(d(1, 20)),
        batch(d(1, 9)),
        drop_last(d.coin()) {
    min_fill = d(0, capacity);
  }

  std::uint64_t samples, keep, parts, bad, first, skipped;
  std::size_t capacity, other_capacity, batch;
  bool drop_last;
  std::size_t min_fill = 0;
};

// Functions of the item and of its random numbers: their results show whether these are restored.
struct kept {
  std::uint64_t keep;

  bool operator()(int n, fl::context& c) const {
    return (static_cast<std::uint64_t>(n) + c.random.below(2)) % keep != 0;
  }
};

struct in_parts {
  std::uint64_t most;

  std::vector<int> operator()(int n, fl::context& c) const {
    return std::vector<int>(c.random.below(most + 1), n ^ static_cast<int>(c.sub_index));
  }
};

struct changed {
  std::uint64_t bad = ~std::uint64_t{0};

  int operator()(int n, fl::context& c) const {
    if (static_cast<std::uint64_t>(n) % bad == bad - 1) throw std::runtime_error("bad " + std::to_string(n));
    return n * 16 + static_cast<int>(c.random.below(16));
  }
};

/// A user's source without a state().
struct plain_source {
  std::optional<int> next() {
    if (next_ == size) return std::nullopt;
    if (++next_ % 50 == 0) throw std::runtime_error("unreadable");
    return next_;
  }

  int size;
  int next_ = 0;
};

/// A user's stage without a state(): sums of neighbours.
struct plain_stage {
  using output = int;

  void operator()(int n, auto& emit) {
    sum_ += n;
    if (++count_ % 3 == 0) emit(std::exchange(sum_, 0) & 0xffffff);
  }

  void finish(auto&) { sum_ = count_ = 0; }

  int sum_ = 0, count_ = 0;
};

/// The same with a state.
struct telling_stage : plain_stage {
  void state(auto& archive) { archive(sum_, count_); }
};

constexpr int compositions = 1'200;

/// The number of each kind, which together are `compositions`.
template <class Make>
void resume_all(const std::string& name, const Make& make) {
  leave_and_resume(name, compositions / 10,
                   [&](draw& d, const circumstances& c) { return make(parameters(d), c); });
}

auto elements(const parameters& p) {
  std::vector<int> all(p.samples);
  std::iota(all.begin(), all.end(), 0);
  return fl::from(std::move(all));
}

fl::shuffle_options buffer(const parameters& p) { return {.capacity = p.capacity, .min_fill = p.min_fill}; }

fl::batch_options ending(const parameters& p) { return {.drop_last = p.drop_last}; }

} // namespace

TEST_CASE("Resumed: stages on one thread") {
  resume_all("one thread", [](const parameters& p, const circumstances&) {
    return elements(p) | fl::filter(kept{p.keep}) | fl::flat_map(in_parts{p.parts}) | fl::shuffle(buffer(p)) |
           fl::map(changed{p.bad}) | fl::batch(p.batch, ending(p));
  });
}

TEST_CASE("Resumed: a shuffled data set, workers, then a buffer") {
  resume_all("global_shuffle", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::global_shuffle() | fl::flat_map(in_parts{p.parts}, fl::workers{c.workers}) |
           fl::filter(kept{p.keep}) | fl::shuffle(buffer(p)) | fl::batch(p.batch, ending(p));
  });
}

TEST_CASE("Resumed: buffers before and after workers") {
  resume_all("two buffers", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::flat_map(in_parts{p.parts}) | fl::shuffle({.capacity = p.other_capacity}) |
           fl::map(changed{p.bad}, fl::workers{c.workers}) | fl::flat_map(in_parts{2}) |
           fl::shuffle(buffer(p)) | fl::batch(p.batch, ending(p));
  });
}

TEST_CASE("Resumed: stages that count") {
  resume_all("counting", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::skip(p.skipped) | fl::map(changed{p.bad}, fl::workers{c.workers}) |
           fl::take(p.first) | fl::enumerate() | fl::batch(p.batch, fl::as_list, ending(p));
  });
}

TEST_CASE("Resumed: numbered items in a buffer, whose numbers only a replay restores") {
  resume_all("numbered", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::enumerate() | fl::prefetch(c.queue) | fl::shuffle(buffer(p)) |
           fl::batch(p.batch, fl::as_list, ending(p));
  });
}

TEST_CASE("Resumed: queues between stages, and a source without a state") {
  resume_all("queues", [](const parameters& p, const circumstances& c) {
    return fl::from(plain_source{static_cast<int>(p.samples)}) | fl::take(p.first) |
           fl::flat_map(in_parts{p.parts}) | fl::prefetch(c.queue) | fl::shuffle(buffer(p)) |
           fl::map(changed{p.bad}) | fl::prefetch(c.queue) | fl::batch(p.batch, ending(p)) |
           fl::prefetch(c.queue);
  });
}

TEST_CASE("Resumed: users' stages, one of them without a state()") {
  resume_all("own", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::take(p.first) | fl::map(changed{}, fl::workers{c.workers}) | plain_stage{} |
           fl::shuffle(buffer(p)) | fl::batch(p.batch, ending(p));
  });
}

TEST_CASE("Resumed: a user's stage with a state()") {
  resume_all("telling", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::shuffle(buffer(p)) | fl::map(changed{p.bad}, fl::workers{c.workers}) |
           telling_stage{} | fl::batch(p.batch, ending(p));
  });
}

TEST_CASE("Resumed: batches that are shuffled, split and batched again") {
  resume_all("batches", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::batch(p.batch, fl::as_list) | fl::shuffle({.capacity = p.other_capacity}) |
           fl::flat_map([](auto& b) -> std::vector<int>& { return b.values(); }, fl::workers{c.workers}) |
           fl::batch(p.keep, ending(p));
  });
}

TEST_CASE("Resumed: workers after workers, and no batches") {
  resume_all("no batches", [](const parameters& p, const circumstances& c) {
    return elements(p) | fl::flat_map(in_parts{p.parts}, fl::workers{c.workers}) |
           fl::map(changed{p.bad}, fl::workers{c.workers}) | fl::take(p.first) | fl::prefetch(c.queue);
  });
}
