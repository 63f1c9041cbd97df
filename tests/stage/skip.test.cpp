// SPDX-License-Identifier: MIT
#include <feedline/stage/skip.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/take.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::worker_counts;

static_assert(fl::stage_for<decltype(fl::skip(1)), std::unique_ptr<int>>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::skip(1)), short>, short>);

TEST_CASE("skip leaves out the first items of each epoch") {
  for (const std::size_t workers : worker_counts) {
    const auto p =
        fl::from(count_to(5)) | fl::map([](int i) { return i; }, fl::workers{workers}) | fl::skip(3);
    CHECK(collect(p.finite()) == std::vector{3, 4});
    CHECK(collect(p.finite({.epochs = 2})) == std::vector{3, 4, 3, 4});
    CHECK(collect(p.infinite(), 5) == std::vector{3, 4, 3, 4, 3});
  }
}

TEST_CASE("skip leaves nothing of an epoch that is too short, and everything if it skips 0") {
  CHECK(collect((fl::from(count_to(2)) | fl::skip(3)).finite({.epochs = 2})).empty());
  CHECK(collect((fl::from(count_to(0)) | fl::skip(3)).finite()).empty());
  CHECK(collect((fl::from(count_to(2)) | fl::skip(0)).finite()) == count_to(2));
}

TEST_CASE("skip and take select a window of each epoch") {
  const auto p = fl::from(count_to(10)) | fl::skip(2) | fl::take(3);
  CHECK(collect(p.finite({.epochs = 2})) == std::vector{2, 3, 4, 2, 3, 4});
}

TEST_CASE("skip doesn't count a failed item, and an error among the first items is still an error") {
  const auto p = fl::from(count_to(6)) | fl::map(fl::test::refusing{{1}}) | fl::skip(2);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == std::vector{3, 4, 5});
  CHECK(result.skipped_indices() == std::vector<std::uint64_t>{1});
  const auto failing = run_to_end(p.finite());
  CHECK(failing.items.empty());
  REQUIRE(failing.failed);
  CHECK(failing.failed->index == 1);
}
