// SPDX-License-Identifier: MIT
#pragma once
// Interrupts runs at some of their items and resumes them from the bytes of a checkpoint with other workers
// and queues.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/loader.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/workers.hpp>

#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace feedline::test {

/// Random parameters, the same for the same number.
class draw {
 public:
  explicit draw(std::uint64_t number) : random_(detail::key(number)) {}

  std::size_t operator()(std::size_t low, std::size_t high) {
    return low + static_cast<std::size_t>(random_.below(high - low + 1));
  }

  bool coin() { return random_.chance(0.5); }

 private:
  random_generator random_;
};

/// Parameters that must not change what a run yields.
struct circumstances {
  explicit circumstances(draw& d)
      : workers(d(1, 4)),
        queue(d(1, 20)),
        queue_capacity(d.coin() ? d(1, 64) : 0),
        are_automatic(d(0, 2) == 0) {}

  /// Workers of a fixed number, or of one that adapts to the load.
  feedline::workers pool() const {
    if (!are_automatic) return {workers};
    return {.count = 1, .max = 2 * workers, .io_bound = true};
  }

  std::size_t workers, queue, queue_capacity;
  bool are_automatic;
};

/// A value as text.
inline std::string as_text(const std::string& text) { return text; }

template <class Value>
std::string as_text(const Value& value) {
  if constexpr (requires { std::to_string(value); }) return std::to_string(value);
  else if constexpr (requires { value.number; }) return as_text(value.number) + ")" + as_text(value.value);
  else return as_text(value.first) + "," + as_text(value.second);
}

/// The next item. Calls `note` with each failure before it.
template <class Loader, class Note>
auto next_noting_failures(Loader& loader, Note note) {
  const std::size_t before = loader.failures().size();
  auto item = loader.next();
  for (std::size_t i = before; i < loader.failures().size(); ++i) note(loader.failures()[i]);
  return item;
}

/// The next item as text, with identities and values, after the failures before it.
template <class Loader>
std::string next_as_text(Loader& loader) {
  std::string text;
  const auto item =
      next_noting_failures(loader, [&](const failure& f) { text += "[" + to_string(f) + "] "; });
  if (!item) return text + "end";
  if constexpr (requires { item->ids(); }) {
    for (std::size_t i = 0; i < item->size(); ++i) {
      const sample_id& id = item->ids()[i];
      text += std::to_string(id.epoch) + ":" + std::to_string(id.index) + "." + std::to_string(id.sub_index) +
              "=" + as_text(item->values()[i]) + " ";
    }
    return text;
  } else {
    return text + as_text(*item);
  }
}

/// Interrupts and resumes runs. `make(d, c)` returns a pipeline; `d` draws the same numbers each time.
template <class Make>
void leave_and_resume(const std::string& name, int draws, const Make& make) {
  const watchdog guard(name);
  for (int number = 0; number < rounds(draws); ++number) {
    draw d(detail::key(stable_hash(name), number));
    const bool finite = d.coin();
    const auto epochs = static_cast<std::uint32_t>(d(1, 3));
    const std::uint64_t seed = d(0, 1000);
    const auto start = [&](const circumstances& c, const std::optional<checkpoint>& resume) {
      draw parameters(detail::key(stable_hash(name), number, 1));
      const auto pipeline = make(parameters, c);
      if (finite)
        return pipeline.finite({.seed = seed,
                                .epochs = epochs,
                                .on_error = on_error::skip,
                                .queue_capacity = c.queue_capacity,
                                .resume = resume});
      return pipeline.infinite(
          {.seed = seed, .on_error = on_error::skip, .queue_capacity = c.queue_capacity, .resume = resume});
    };
    const std::size_t most = d(5, 120);
    std::vector<std::string> expected;
    std::vector<checkpoint> checkpoints;
    std::string error; // the one that ends the run: too many failures
    {
      auto loader = start(circumstances(d), {});
      checkpoints.push_back(loader.checkpoint());
      try {
        while (expected.size() < most && (expected.empty() || !expected.back().ends_with("end"))) {
          expected.push_back(next_as_text(loader));
          checkpoints.push_back(loader.checkpoint());
        }
      } catch (const pipeline_error& e) {
        error = e.what();
      }
    }
    for (int cuts = 0; cuts < 3; ++cuts) {
      std::size_t at = d(0, checkpoints.size() - 1);
      INFO(name << " number " << number << ", interrupted after item " << at << " of " << expected.size()
                << " " << error);
      try {
        auto loader = start(circumstances(d), checkpoint::from_bytes(checkpoints[at].to_bytes()));
        const std::size_t second_cut = at + d(0, 5);
        for (; at < expected.size(); ++at) {
          if (at == second_cut) { // interrupts and resumes the resumed run too
            const auto second = checkpoint::from_json(loader.checkpoint().to_json());
            loader.stop();
            loader = start(circumstances(d), second);
          }
          REQUIRE(next_as_text(loader) == expected[at]);
        }
        if (!error.empty()) loader.next();
        CHECK(error.empty());
      } catch (const pipeline_error& e) {
        CHECK(at == expected.size());
        CHECK(e.what() == error);
      }
    }
  }
}

} // namespace feedline::test
