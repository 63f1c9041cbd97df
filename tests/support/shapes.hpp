// SPDX-License-Identifier: MIT
#pragma once
// Pipelines of many shapes around the same work, which all run in the same way. Include it in one test file
// only: it compiles all of them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/numbers.hpp"

namespace feedline::test {

/// The parameters of a run.
struct setup {
  int count = 1000;
  std::size_t workers = 2;
  std::size_t queue_capacity = 0;
  std::uint32_t epochs = 1; ///< 0: endlessly
  std::uint64_t seed = 1;
  feedline::on_error on_error = feedline::on_error::fail;
  std::size_t failure_limit = default_failure_limit;
  std::stop_token stop{};
  std::vector<int> bad_numbers{};         ///< numbers for which the source throws
  std::vector<int> bad_work{};            ///< numbers for which the work throws
  std::function<void(int)> before_work{}; ///< the workers call it with each number
};

using integers = std::vector<int>; ///< one item, or a batch of them

/// A type-erased loader.
class any_loader {
 public:
  virtual ~any_loader() = default;
  virtual std::optional<integers> next() = 0;
  virtual void stop() = 0;
  virtual bool stopped() const = 0;
  virtual const std::vector<failure>& failures() const = 0;
  virtual feedline::metrics metrics() = 0;
};

inline integers flat(int value) { return {value}; }

template <class Mode>
integers flat(const batch_of<int, Mode>& b) {
  return {b.values().begin(), b.values().end()};
}

template <class Loader>
class held_loader final : public any_loader {
 public:
  explicit held_loader(Loader loader) : loader_(std::move(loader)) {}

  std::optional<integers> next() override {
    auto item = loader_.next();
    if (!item) return std::nullopt;
    return flat(*item);
  }

  void stop() override { loader_.stop(); }

  bool stopped() const override { return loader_.stopped(); }

  const std::vector<failure>& failures() const override { return loader_.failures(); }

  feedline::metrics metrics() override { return loader_.metrics(); }

 private:
  Loader loader_;
};

/// The order of a shape's items.
enum class order {
  kept,
  shuffled_before_work,
  shuffled_behind_work,
  none, ///< no order within an epoch
};

struct shape {
  std::string name;
  feedline::test::order order;
  integers (*of_one)(int); ///< the items that one number becomes
  std::unique_ptr<any_loader> (*start)(const setup&);

  /// The items of these numbers, if the order is kept.
  integers of(const integers& all) const {
    integers out;
    for (const int n : all)
      for (const int v : of_one(n)) out.push_back(v);
    return out;
  }
};

/// The work that each shape contains once.
struct work {
  std::shared_ptr<const setup> s;

  int operator()(int n) const {
    if (s->before_work) s->before_work(n);
    if (std::find(s->bad_work.begin(), s->bad_work.end(), n) != s->bad_work.end()) throw unlucky(n);
    return n;
  }
};

template <class Make>
std::unique_ptr<any_loader> start_shape(const setup& s) {
  const auto shared = std::make_shared<const setup>(s);
  const auto p = Make{}(from(numbers(s.count, s.bad_numbers)), map(work{shared}), workers{s.workers});
  if (s.epochs == 0) {
    auto loader = p.infinite({.seed = s.seed,
                              .stop = s.stop,
                              .on_error = s.on_error,
                              .failure_limit = s.failure_limit,
                              .queue_capacity = s.queue_capacity});
    return std::make_unique<held_loader<decltype(loader)>>(std::move(loader));
  }
  auto loader = p.finite({.seed = s.seed,
                          .epochs = s.epochs,
                          .stop = s.stop,
                          .on_error = s.on_error,
                          .failure_limit = s.failure_limit,
                          .queue_capacity = s.queue_capacity});
  return std::make_unique<held_loader<decltype(loader)>>(std::move(loader));
}

template <class Make>
shape make_shape(std::string name, order o, integers (*of_one)(int), Make) {
  return {std::move(name), o, of_one, &start_shape<Make>};
}

inline integers itself(int n) { return {n}; }

struct same {
  int operator()(int n) const { return n; }
};

inline integers twice(int n) { return {n, -n}; }

inline integers odd_twice(int n) { return n % 2 == 0 ? integers{} : integers{n, -n}; }

inline integers nothing(int) { return {}; }

inline bool odd(int n) { return n % 2 != 0; }

inline bool none(int) { return false; }

inline constexpr shuffle_options buffer{.capacity = 50, .min_fill = 20};

inline const std::vector<shape>& all_shapes() {
  static const std::vector<shape> shapes{
      make_shape("serial", order::kept, itself, [](auto source, auto w, workers) { return source | w; }),
      make_shape("serial, batch", order::kept, itself,
                 [](auto source, auto w, workers) { return source | w | batch(7); }),
      make_shape("workers last", order::kept, itself,
                 [](auto source, auto w, workers n) { return source | parallel(n, w); }),
      make_shape("workers, batch", order::kept, itself,
                 [](auto source, auto w, workers n) { return source | parallel(n, w) | batch(7); }),
      make_shape("workers to workers", order::kept, itself,
                 [](auto source, auto w, workers n) {
                   return source | map(same{}, n) | parallel(n, w) | map(same{}, n);
                 }),
      make_shape("flat_map on workers to workers", order::kept, twice,
                 [](auto source, auto w, workers n) {
                   return source | parallel(n, w | flat_map(twice)) | map(same{}, n) | batch(7);
                 }),
      make_shape("chain on workers", order::kept, odd_twice,
                 [](auto source, auto w, workers n) {
                   return source | parallel(n, w | filter(odd) | flat_map(twice)) | batch(7);
                 }),
      make_shape(
          "filter drops everything", order::kept, nothing,
          [](auto source, auto w, workers n) { return source | parallel(n, w | filter(none)) | batch(7); }),
      make_shape("prefetch everywhere", order::kept, itself,
                 [](auto source, auto w, workers) {
                   return source | prefetch(3) | w | prefetch(1) | batch(7) | prefetch(2);
                 }),
      make_shape("shuffle upstream of workers", order::shuffled_before_work, itself,
                 [](auto source, auto w, workers n) {
                   return source | shuffle(buffer) | parallel(n, w) | batch(7);
                 }),
      make_shape("shuffle downstream of workers", order::shuffled_behind_work, itself,
                 [](auto source, auto w, workers n) {
                   return source | parallel(n, w) | shuffle(buffer) | batch(7);
                 }),
      make_shape(
          "unordered", order::none, itself,
          [](auto source, auto w, workers n) { return source | parallel(n, w, unordered) | batch(7); }),
      make_shape("unordered, last", order::none, itself,
                 [](auto source, auto w, workers n) { return source | parallel(n, w, unordered); }),
      make_shape("unordered to ordered to unordered", order::none, twice,
                 [](auto source, auto w, workers n) {
                   return source | parallel(n, w | flat_map(twice), unordered) | map(same{}, n) |
                          map(same{}, n, unordered);
                 }),
  };
  return shapes;
}

} // namespace feedline::test
