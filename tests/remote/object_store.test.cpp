// SPDX-License-Identifier: MIT
#include <feedline/remote/object_store.hpp>

#include <cstddef>
#include <stop_token>
#include <string>

#include "support/catch.hpp"
#include "support/memory_store.hpp"

namespace fl = feedline;

TEST_CASE("An object store gives parts of objects") {
  fl::test::memory_store store(4, 64);
  store.put("mem://a", "0123456789");
  const auto get = [&](std::uint64_t offset, std::size_t count) {
    return store.read("mem://a", offset, count, {})->get(std::stop_token());
  };
  CHECK(get(2, 3).bytes.size() == 3);
  CHECK(get(2, 3).bytes[0] == std::byte{'2'});
  CHECK(get(8, 5).bytes.size() == 2);
  CHECK(get(0, 0).object.bytes == 10);
  CHECK(get(0, 0).object == get(4, 4).object);
  CHECK_THROWS_AS(store.read("mem://b", 0, 1, {})->get(std::stop_token()), fl::object_error);
  const fl::object_info before = get(0, 0).object;
  store.put("mem://a", "0123456780");
  CHECK_THROWS_AS(store.read("mem://a", 0, 1, before)->get(std::stop_token()), fl::object_error);
  CHECK(store.shown("mem://a") == "mem://a");
  CHECK(store.reads_open() == 0);
}
