// SPDX-License-Identifier: MIT
#include <feedline/window/pool_chunk.hpp>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <type_traits>

#include "support/catch.hpp"

namespace fl = feedline;

namespace {

struct words {
  std::uint64_t size() const { return 2; }

  std::string key(std::uint64_t i) const { return "key " + std::to_string(i); }

  std::unique_ptr<std::string> read(std::uint64_t i) const {
    return std::make_unique<std::string>(i == 0 ? "zero" : "one");
  }
};

static_assert(fl::chunk_source<words>);
static_assert(fl::chunk_source<fl::chunk_file>);
static_assert(!fl::chunk_source<std::string>);
static_assert(std::is_nothrow_move_constructible_v<fl::pool_chunk<words>>);
static_assert(std::is_copy_constructible_v<fl::pool_chunk<words>>);

} // namespace

TEST_CASE("A chunk keeps its chunk source alive, and reads from it") {
  auto source = std::make_shared<const words>();
  const std::weak_ptr<const words> watched = source;
  {
    const fl::pool_chunk<words> chunk(std::move(source), 1, -5, 3, 7);
    CHECK(chunk.key() == "key 1");
    CHECK(chunk.number() == -5);
    CHECK(chunk.pass() == 3);
    CHECK(*chunk.read() == "one");
    CHECK(*fl::read_chunk(chunk) == "one");
    CHECK(!watched.expired());
  }
  CHECK(watched.expired());
}

TEST_CASE("A chunk's random key depends on the seed, its number and the pass") {
  const auto source = std::make_shared<const words>();
  std::set<std::uint64_t> keys;
  for (const std::uint64_t seed : {1u, 2u})
    for (const std::int64_t number : {-2, -1, 0, 1})
      for (const std::uint64_t pass : {0u, 1u, 2u}) {
        const fl::pool_chunk<words> chunk(source, 0, number, pass, seed);
        CHECK(keys.insert(chunk.random_key()).second);
        CHECK(chunk.random_key() == fl::pool_chunk<words>(source, 1, number, pass, seed).random_key());
      }
}
