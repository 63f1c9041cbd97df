// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/with_replacement.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  const auto numbers = fl::from(std::vector{1, 2, 3});
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::zip(numbers, numbers | fl::with_replacement()) | fl::prefetch(2);
#else
  auto p = fl::zip(numbers | fl::with_replacement(), numbers) | fl::prefetch(2);
  // expect: feedline::zip: the first source can yield a sample several times in an epoch
#endif
  static_cast<void>(p.finite().next());
}
