// SPDX-License-Identifier: MIT
#include <feedline/stage/enumerate.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::worker_counts;

static_assert(fl::stage_for<decltype(fl::enumerate()), std::unique_ptr<int>>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::enumerate()), short>, fl::enumerated<short>>);

namespace {

using numbered = std::vector<std::pair<std::uint64_t, int>>;

constexpr auto as_pair = [](const fl::enumerated<int>& e) { return std::pair(e.number, e.value); };

} // namespace

TEST_CASE("enumerate numbers the items of each epoch from 0 in arrival order") {
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::from(count_to(6)) |
                   fl::filter([](int i) { return i % 2 == 1; }, fl::workers{workers}) | fl::enumerate() |
                   fl::map(as_pair);
    CHECK(collect(p.finite({.epochs = 2})) == numbered{{0, 1}, {1, 3}, {2, 5}, {0, 1}, {1, 3}, {2, 5}});
    CHECK(collect(p.infinite(), 4) == numbered{{0, 1}, {1, 3}, {2, 5}, {0, 1}});
  }
}

TEST_CASE("a failed item gets no number") {
  const auto p =
      fl::from(count_to(4)) | fl::map(fl::test::refusing{{1}}) | fl::enumerate() | fl::map(as_pair);
  CHECK(run_to_end(p.finite({.on_error = fl::on_error::skip})).items == numbered{{0, 0}, {1, 2}, {2, 3}});
  const auto result = run_to_end(p.finite());
  CHECK(result.items == numbered{{0, 0}});
  REQUIRE(result.failed);
  CHECK(result.failed->index == 1);
}

TEST_CASE("enumerate of an empty source yields nothing") {
  CHECK(collect((fl::from(count_to(0)) | fl::enumerate()).finite()).empty());
}
