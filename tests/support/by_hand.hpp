// SPDX-License-Identifier: MIT
#pragma once
// Calls a stage without a run: no threads, no queues, and little to compile.
#include <feedline/core/sample.hpp>
#include <feedline/core/stage.hpp>

#include <concepts>
#include <cstdint>
#include <stop_token>
#include <utility>
#include <vector>

namespace feedline::test {

template <class Item, class Stage>
class by_hand {
 public:
  using output = stage_output_t<Stage, Item>;

  explicit by_hand(const Stage& stage, std::uint64_t key = 0)
      : stage_(stage.template bind<Item>(stage_info{key, {}})) {}

  /// Calls the stage with the next item, whose index counts the calls. Returns what the stage emits.
  std::vector<sample<output>> feed(Item item) {
    out_.id = {.index = fed_++};
    sample<Item> s{std::move(item), out_.id};
    context c{s.id.index, 0, 0, random_generator(s.id.index), stop_};
    if constexpr (requires { stage_(std::move(s), out_, c); }) stage_(std::move(s), out_, c);
    else if constexpr (requires { stage_(std::move(s), out_); }) stage_(std::move(s), out_);
    else stage_(std::move(s.value), out_, c);
    return std::exchange(out_.given, {});
  }

  /// Ends the epoch and returns what the stage emits.
  std::vector<sample<output>> finish() {
    if constexpr (requires { stage_.finish(out_); }) stage_.finish(out_);
    return std::exchange(out_.given, {});
  }

 private:
  struct emitter {
    template <class V>
      requires std::constructible_from<output, V>
    bool operator()(V&& value) {
      return (*this)(sample<output>{output(std::forward<V>(value)), id});
    }

    bool operator()(sample<output>&& s) {
      given.push_back(std::move(s));
      return true;
    }

    sample_id id;
    std::vector<sample<output>> given;
  };

  detail::bound_t<Stage, Item> stage_;
  emitter out_;
  std::stop_token stop_;
  std::uint64_t fed_ = 0;
};

/// Returns everything that a stage emits for one epoch of these items.
template <class Stage, class Item>
std::vector<stage_output_t<Stage, Item>> given_by(const Stage& stage, std::vector<Item> items) {
  by_hand<Item, Stage> running(stage);
  std::vector<stage_output_t<Stage, Item>> all;
  const auto append = [&](auto samples) {
    for (auto& s : samples) all.push_back(std::move(s.value));
  };
  for (auto&& item : items) append(running.feed(std::move(item)));
  append(running.finish());
  return all;
}

} // namespace feedline::test
