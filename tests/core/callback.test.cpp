// SPDX-License-Identifier: MIT
#include <feedline/core/callback.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;

namespace {

void ignore(const std::string&) {}

} // namespace

TEST_CASE("A callback calls its function, which copies share") {
  std::vector<std::string> said;
  const fl::callback<std::string> say = [&](const std::string& sentence) { said.push_back(sentence); };
  CHECK(say);
  const auto copy = say;
  say("one");
  copy("two");
  CHECK(said == std::vector<std::string>{"one", "two"});
  int count = 0;
  const fl::callback<std::string> counts =
      [&count, own = std::make_unique<int>(0)](const std::string&) mutable { count = ++*own; };
  const auto counts_too = counts;
  counts("");
  counts_too("");
  CHECK(count == 2);
}

TEST_CASE("A callback without a function is empty") {
  CHECK(!fl::callback<std::string>());
  CHECK(!fl::callback<std::string>(std::function<void(const std::string&)>()));
  CHECK(!fl::callback<std::string>(static_cast<void (*)(const std::string&)>(nullptr)));
  CHECK(fl::callback<std::string>(&ignore));
}
