// SPDX-License-Identifier: MIT
// A part of the program that is header-only even if the rest isn't, and has the sanitizer that forbids most in constants.
#undef FEEDLINE_COMPILED
#include <cstdint>
#include <typeinfo>

#include <feedline/feedline.hpp>

const std::type_info& header_only_error() { return typeid(feedline::pipeline_error); }

struct squares {
  std::uint64_t size() const { return 4; }

  int at(std::uint64_t i) const { return static_cast<int>(i * i); }
};

std::uint64_t number_of_squares() { return feedline::from(squares()).finite().metrics().total.stages.size(); }
