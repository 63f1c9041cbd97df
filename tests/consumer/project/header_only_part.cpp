// SPDX-License-Identifier: MIT
// A part of the program that is header-only even if the rest isn't.
#undef FEEDLINE_COMPILED
#include <typeinfo>

#include <feedline/feedline.hpp>

const std::type_info& header_only_error() { return typeid(feedline::pipeline_error); }
