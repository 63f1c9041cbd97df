// SPDX-License-Identifier: MIT
#pragma once
// What goes wrong with a JPEG, and the way from libjpeg's error callbacks to a C++ exception.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>

// Wants size_t and FILE declared before it; version 6b doesn't say that it is C.
extern "C" {
#include <jpeglib.h>
}

namespace feedline {

/// A JPEG that can't be decoded or encoded. what() is a sentence that ends in libjpeg's own words.
class jpeg_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// libjpeg's error manager. libjpeg is compiled as C, which needn't let an exception through, so an error
/// jumps out of it and becomes an exception behind the jump. Nothing is ever printed.
class libjpeg_errors : public jpeg_error_mgr {
 public:
  libjpeg_errors() noexcept {
    jpeg_std_error(this);
    error_exit = [](j_common_ptr codec) {
      codec->err->format_message(codec, of(codec).message_);
      of(codec).jump();
    };
    emit_message = [](j_common_ptr codec, int level) {
      if (level >= 0) return; // a trace message
      ++codec->err->num_warnings;
      if (of(codec).warnings_fail_) codec->err->error_exit(codec);
    };
  }

  libjpeg_errors(const libjpeg_errors&) = delete;
  libjpeg_errors& operator=(const libjpeg_errors&) = delete;

  /// Forgets earlier warnings; from now on a warning is an error or is counted.
  void start(bool warnings_fail) noexcept {
    warnings_fail_ = warnings_fail;
    num_warnings = 0;
  }

  /// Calls `step`, which calls libjpeg. Throws jpeg_error, its sentence beginning with `who`. A step may hold
  /// nothing that has a destructor: the jump wouldn't run it.
  template <class Step>
  void run(const char* who, Step step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    if (!attempt(step)) throw jpeg_error(std::string(who) + ": " + message_);
  }

  /// For callbacks, which know only a codec: the error manager that they belong to.
  template <class Codec>
  static libjpeg_errors& of(const Codec* codec) noexcept {
    return static_cast<libjpeg_errors&>(*codec->err);
  }

  /// For callbacks: ends the step with an error of our own.
  [[noreturn]] void fail(const char* message) noexcept {
    std::snprintf(message_, sizeof message_, "%s", message);
    jump();
  }

  /// For callbacks: a warning of our own, which may end the step.
  void warn(const char* message) noexcept {
    ++num_warnings;
    if (warnings_fail_) fail(message);
  }

 private:
  // Not inlined, so that no variable of a caller lives in a register that the jump would restore.
  template <class Step>
  [[gnu::noinline]] bool attempt(Step& step) {
    if (setjmp(landing_) != 0) return false; // NOLINT(cert-err52-cpp): see above
    step();
    return true;
  }

  [[noreturn]] void jump() noexcept { std::longjmp(landing_, 1); } // NOLINT(cert-err52-cpp)

  std::jmp_buf landing_;
  char message_[JMSG_LENGTH_MAX] = {};
  bool warnings_fail_ = true;
};

} // namespace detail

} // namespace feedline
