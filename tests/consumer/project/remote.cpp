// SPDX-License-Identifier: MIT
#include <feedline/feedline.hpp>
#include <feedline/remote.hpp>

namespace fl = feedline;

int main() {
  const auto store = fl::remote({.in_flight = 4});
  return store->shown("https://user:hush@host/a.tar") == "https://host/a.tar" ? 0 : 1;
}
