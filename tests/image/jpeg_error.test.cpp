// SPDX-License-Identifier: MIT
#include <feedline/image/jpeg_error.hpp>

#include "support/catch.hpp"

namespace fl = feedline;

TEST_CASE("run() throws an exception for each error inside a step") {
  fl::detail::libjpeg_errors errors;
  jpeg_common_struct codec{};
  codec.err = &errors;
  for (int round = 0; round < 3; ++round) {
    CHECK_THROWS_WITH(errors.run("who", [&] { fl::detail::libjpeg_errors::of(&codec).fail("reason"); }),
                      "who: reason");
    errors.msg_code = 0;
    CHECK_THROWS_AS(errors.run("who", [&] { codec.err->error_exit(&codec); }), fl::jpeg_error);
    bool done = false;
    errors.run("who", [&] { done = true; });
    CHECK(done);
  }
}

TEST_CASE("a warning fails the step or is counted; a trace message is neither") {
  fl::detail::libjpeg_errors errors;
  jpeg_common_struct codec{};
  codec.err = &errors;
  const auto step = [&] {
    codec.err->emit_message(&codec, 1);
    codec.err->emit_message(&codec, -1);
    fl::detail::libjpeg_errors::of(&codec).warn("ours");
  };
  errors.start(false, false);
  errors.run("who", step);
  CHECK(errors.num_warnings == 2);
  errors.start(true, true);
  CHECK(errors.num_warnings == 0);
  CHECK_THROWS_AS(errors.run("who", step), fl::jpeg_error);
  CHECK(errors.num_warnings == 1);
}
