// SPDX-License-Identifier: MIT
#pragma once
// The exception for images, and how the error callbacks of C libraries throw it.
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An image that can't be decoded or encoded. what() contains the library's message where there is one.
class image_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Errors of a C library. Exceptions can't pass through its functions: its error callback calls fail(), which jumps out
/// of the library with longjmp, and run() then throws an Error.
template <class Error>
class jumping_errors {
 public:
  /// Calls `step`, which calls the library. Throws an Error with a message that starts with `who`. A step must
  /// not hold anything with a destructor, because the jump doesn't run it.
  template <class Step>
  void run(const char* who, Step step) {
    if (!attempt(step)) throw Error(std::string(who) + ": " + message_);
  }

  /// The same without an exception: whether the step succeeded.
  template <class Step>
  bool attempt(Step&& step) {
    static_assert(std::is_trivially_destructible_v<std::remove_cvref_t<Step>>);
    return lands(step);
  }

  /// For callbacks: ends the step with an error message in printf's format.
  [[noreturn, gnu::format(printf, 2, 3)]] void fail(const char* format, ...) noexcept {
    std::va_list values;
    va_start(values, format);
    std::vsnprintf(message_, sizeof message_, format, values);
    va_end(values);
    jump();
  }

 protected:
  [[noreturn]] void jump() noexcept { std::longjmp(landing_, 1); } // NOLINT(cert-err52-cpp)

  char message_[300] = {};

 private:
  // Not inlined, so that no variable of a caller is in a register that the jump restores.
  template <class Step>
  [[gnu::noinline]] bool lands(Step& step) {
    if (setjmp(landing_) != 0) return false; // NOLINT(cert-err52-cpp): see above
    step();
    return true;
  }

  std::jmp_buf landing_;
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
