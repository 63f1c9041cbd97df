// SPDX-License-Identifier: MIT
// Prints hashes of random numbers, orders, batches and checkpoints, which must be the same on every platform.
// Usage: digests <pattern of text files> <checkpoint>. Resumes from that checkpoint; if there is none, saves it before.
#include <array>
#include <bit>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/half.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/indexed_lines.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/mix.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/with_replacement.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/partition.hpp>
#include <feedline/stage/shuffle.hpp>

namespace fl = feedline;

namespace {

/// A hash of values, in order; printed when it is destroyed.
class digest {
 public:
  explicit digest(const char* of) : of_(of) {}

  digest(const digest&) = delete;

  ~digest() { std::printf("%-24s %016" PRIx64 "\n", of_, hash_); }

  void add(std::uint64_t value) { hash_ = fl::detail::key(hash_, value); }

  void add(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }

  void add(float value) { add(std::uint64_t{std::bit_cast<std::uint32_t>(value)}); }

  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }

  void add(std::string_view value) { add(fl::stable_hash(value)); }

 private:
  const char* of_;
  std::uint64_t hash_ = 0;
};

template <class Pipeline>
void print(const char* what, const Pipeline& pipeline) {
  digest all(what);
  auto loader = pipeline.finite({.seed = 7, .epochs = 3});
  for (const auto& item : loader) all.add(item);
  all.add(loader.digest());
}

void print_random_numbers() {
  digest all("random numbers");
  fl::random_generator random(7);
  for (int i = 0; i < 10'000; ++i) {
    all.add(random());
    all.add(random.below(1000));
    all.add(random.uniform());
    all.add(random.uniform(0.08, 1));
    all.add(random.uniform(-1e300, 1e300));
    all.add(std::uint64_t{random.chance(0.3)});
  }
}

void print_half_floats() {
  digest all("half floats");
  fl::random_generator random(7);
  for (int i = 0; i < 10'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (value != value) continue; // which NaN comes out isn't promised
    all.add(static_cast<float>(fl::float16(value)));
    all.add(static_cast<float>(fl::bfloat16(value)));
  }
}

struct example {
  std::uint64_t text;
  double noise;
  std::array<float, 3> values;
};

example make_example(const std::string& line, fl::context& context) {
  example made{fl::stable_hash(line), context.random.uniform(-1, 1), {}};
  for (float& value : made.values) value = static_cast<float>(context.random.uniform(0, 100));
  return made;
}

template <class Batch>
void add_batch(digest& all, const Batch& batch) {
  const auto add = [&all](const auto& tensor) {
    for (std::size_t i = 0; i < tensor.size(); ++i) all.add(tensor.data()[i]);
  };
  add(batch.template get<&example::text>());
  add(batch.template get<&example::noise>());
  add(batch.template get<&example::values>());
  for (const std::uint64_t index : batch.indices()) all.add(index);
}

void print_bytes(const char* what, const fl::checkpoint& state) {
  digest all(what);
  for (const std::byte byte : state.to_bytes()) all.add(static_cast<std::uint64_t>(byte));
}

void print_batches(const std::string& lines, const std::string& saved) {
  const auto batches = fl::indexed_lines(lines) | fl::global_shuffle() |
                       fl::map(make_example, fl::workers{3}) | fl::shuffle({.capacity = 20}) | fl::batch(8);
  auto loader = batches.infinite({.seed = 7});
  {
    digest all("batches");
    for (int i = 0; i < 60; ++i) add_batch(all, *loader.next());
  }
  if (!std::ifstream(saved)) loader.checkpoint().save(saved);
  const fl::checkpoint state = fl::checkpoint::load(saved);
  print_bytes("checkpoint", state);
  digest all("batches after resuming");
  auto resumed = batches.infinite({.resume = state});
  for (int i = 0; i < 20; ++i) add_batch(all, *resumed.next());
}

void print_all(const std::string& lines, const std::string& saved) {
  const auto numbers = [](std::int64_t count) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(i);
    return fl::from(std::move(all));
  };
  print_random_numbers();
  print_half_floats();
  print("random numbers of stages",
        numbers(1000) | fl::map([](std::int64_t, fl::context& c) { return c.random(); }, fl::workers{3}));
  print("shuffle", numbers(1000) | fl::shuffle({.capacity = 100, .min_fill = 50}));
  print("global_shuffle", numbers(1000) | fl::global_shuffle());
  std::vector<double> weights;
  for (int i = 1; i <= 1000; ++i) weights.push_back(1.0 / i);
  print("with_replacement", numbers(1000) | fl::with_replacement({.weights = weights, .samples = 3000}));
  print("mix", fl::mix(fl::weighted(numbers(1000), 0.9), fl::weighted(numbers(100), 0.1)));
  print("order of files", fl::lines(lines));
  print("partition by text", fl::lines(lines) | fl::partition({80, 20}, 1));
  print("partition by number", numbers(1000) | fl::partition({80, 20}, 1));
  print_batches(lines, saved);

  // Of other pipelines the position of a checkpoint depends on time. Here the last sample determines it.
  auto loader = (numbers(1000) | fl::global_shuffle() | fl::batch(8)).infinite({.seed = 7});
  for (int i = 0; i < 200; ++i) loader.next();
  print_bytes("checkpoint by position", loader.checkpoint());
}

} // namespace

int main(int count, char** arguments) try {
  if (count != 3) return std::fputs("usage: digests <pattern> <checkpoint>\n", stderr), 2;
  print_all(arguments[1], arguments[2]);
} catch (const std::exception& error) {

  std::fprintf(stderr, "digests: %s\n", error.what());
  return 1;
}
