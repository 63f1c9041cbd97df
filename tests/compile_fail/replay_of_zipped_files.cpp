// SPDX-License-Identifier: MIT
#include <feedline/core/pipeline.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  const auto p = fl::zip(fl::lines({"a.txt"}), fl::lines({"b.txt"})) | fl::prefetch(2);
#ifdef FEEDLINE_COMPILE_PASS
  static_cast<void>(p.replay(fl::finite_options{.seed = 1}, {0}));
#else
  static_cast<void>(p.replay(1, {0}));
  // expect: feedline: a zip of files pairs other samples in another mode
#endif
}
