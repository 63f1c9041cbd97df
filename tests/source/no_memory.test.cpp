// SPDX-License-Identifier: MIT
// A run that has no memory left fails, and the process goes on: none of its threads ends it.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/live.hpp>
#include <feedline/window.hpp>

#include "support/catch.hpp"
#include "support/failing_allocations.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// Chunks whose contents need memory.
struct chunks {
  std::string name;

  void index() const { static_cast<void>(key(0)); }

  std::uint64_t size() const { return 3; }

  std::string key(std::uint64_t i) const { return name + " with a longer key " + std::to_string(i); }

  std::string read(std::uint64_t i) const { return key(i); }
};

/// Takes all items. Any of them may be missing, as the run fails where there is no memory.
template <class Loader>
void read_all(Loader loader) {
  while (loader.next()) continue;
}

template <class Body>
void survives(const char* what, const Body& body) {
  INFO(what);
  const watchdog guard(what);
  bool has_run = false;
  without_memory([&] {
    body();
    has_run = true;
  });
  CHECK(has_run);
}

} // namespace

TEST_CASE("Where there is no memory, runs end with an error, and the process goes on") {
  const std::function<std::string(int)> to_text = [](int i) {
    return std::to_string(i) + " and a longer text";
  };
  const auto texts = fl::from(std::vector<int>(40, 7)) | fl::map(to_text, fl::workers{2}) | fl::prefetch(2);
  survives("a pipeline", [&] {
    read_all((texts | fl::shuffle({.capacity = 8}) | fl::batch(4))
                 .finite({.seed = 1, .watchdog = std::chrono::hours(1)}));
  });
  survives("a join",
           [&] { read_all(fl::from(fl::join({.capacity = 2}, texts.finite(), texts.finite())).finite()); });
  survives("a broadcast", [&] {
    auto branches = fl::broadcast(texts.finite(), 2, {.capacity = 100});
    for (auto& branch : branches) read_all(fl::from(branch).infinite());
  });
  survives("a pool", [&] {
    fl::push_source<chunks> pushed;
    for (int i = 0; i < 3; ++i) pushed.push({"source " + std::to_string(i)});
    pushed.close();
    const fl::sliding_window_pool pool(pushed, {.window = 100, .index_threads = 2});
    read_all(fl::from(pool).finite({.seed = 1}));
  });
}
