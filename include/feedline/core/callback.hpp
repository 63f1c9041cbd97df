// SPDX-License-Identifier: MIT
#pragma once
// A function that an option names, called with one argument.
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Any function that takes an Argument and returns a Result, or none, as an empty std::function is. Copies share the function.
template <class Argument, class Result = void>
class callback {
 public:
  callback() = default;

  /// Calls `f`, or nothing if it equals nullptr.
  template <class F>
    requires(std::is_invocable_r_v<Result, F&, const Argument&> && !std::is_same_v<F, callback>)
  callback(F f) {
    if constexpr (requires { f == nullptr; })
      if (f == nullptr) return;
    f_ = std::make_shared<F>(std::move(f));
    call_ = [](void* called, const Argument& argument) {
      return static_cast<Result>((*static_cast<F*>(called))(argument));
    };
  }

  /// Whether there is a function.
  explicit operator bool() const noexcept { return call_ != nullptr; }

  /// Calls the function, which must exist.
  Result operator()(const Argument& argument) const { return call_(f_.get(), argument); }

 private:
  std::shared_ptr<void> f_;
  Result (*call_)(void*, const Argument&) = nullptr;
};

namespace detail {

/// Passes a sentence for the user to the function, or prints it to stderr if there is none.
void notify(const callback<std::string>& on_notice, const std::string& sentence);

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <cstdio>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void notify(const callback<std::string>& on_notice, const std::string& sentence) {
  if (on_notice) on_notice(sentence);
  else std::fprintf(stderr, "%s\n", sentence.c_str());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
