// SPDX-License-Identifier: MIT
#include <cstddef>
#include <typeinfo>
#include <vector>

#include <feedline/feedline.hpp>

#if defined(WITHOUT_LIBRARY) && defined(FEEDLINE_COMPILED)
#error "feedline::header_only isn't header-only"
#endif

const std::type_info& header_only_error();

#ifdef WITHOUT_LIBRARY
feedline::finite_options chosen_options();
#else
feedline::finite_options chosen_options() { return {}; }
#endif

int main() {
#ifdef FEEDLINE_COMPILED // a part of the program that is header-only shares nothing with the compiled one
  if (header_only_error() == typeid(feedline::pipeline_error)) return 2;
#endif
  const auto pipeline =
      feedline::from(std::vector{1, 2, 3}) | feedline::map([](int i) { return 2 * i; }) | feedline::batch(2);
  std::size_t samples = 0;
  for (const auto& batch : pipeline.finite(chosen_options())) samples += batch.size();
  return samples == 3 ? 0 : 1;
}
