// SPDX-License-Identifier: MIT
#pragma once
// A reference to a function, for parameters of functions that aren't templates.
#include <memory>
#include <type_traits>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class Signature>
class function_ref;

/// Refers to something that can be called, also a plain function; valid while that exists.
template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, function_ref>)
  function_ref(const F& f) noexcept
      : of_(reinterpret_cast<const void*>(std::addressof(f))),
        call_([](const void* of, Arguments... arguments) -> Result {
          return (*reinterpret_cast<const F*>(const_cast<void*>(of)))(std::forward<Arguments>(arguments)...);
        }) {}

  Result operator()(Arguments... arguments) const {
    return call_(of_, std::forward<Arguments>(arguments)...);
  }

 private:
  const void* of_;
  Result (*call_)(const void* of, Arguments... arguments);
};

} // namespace feedline::inline FEEDLINE_ABI::detail
