// SPDX-License-Identifier: MIT
#pragma once
// The exception for JPEGs, and how libjpeg's error callbacks throw it.
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>

// These headers need size_t and FILE declared first; version 6b lacks the extern "C".
extern "C" {
#include <jpeglib.h>

#include <jerror.h>

#include <feedline/version.hpp>
}

namespace feedline::inline FEEDLINE_ABI {

/// A JPEG that can't be decoded or encoded. what() contains libjpeg's message where there is one.
class jpeg_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// libjpeg's error manager. libjpeg is compiled as C, so exceptions can't pass through it: the error callback
/// jumps out of libjpeg with longjmp, and run() then throws. Nothing is ever printed.
class libjpeg_errors : public jpeg_error_mgr {
 public:
  libjpeg_errors() noexcept;

  libjpeg_errors(const libjpeg_errors&) = delete;
  libjpeg_errors& operator=(const libjpeg_errors&) = delete;

  /// Forgets earlier warnings. From now on a warning is counted, or is an error whose message ends with the advice, if
  /// there is one, and the value of on_corrupt that accepts it. Harmless ones are about files whose pixels are all there.
  void start(bool harmless_fail, bool others_fail, const char* advice = nullptr) noexcept {
    harmless_fail_ = harmless_fail;
    others_fail_ = others_fail;
    advice_ = advice;
    num_warnings = 0;
  }

  /// Calls `step`, which calls libjpeg. Throws jpeg_error with a message that starts with `who`. A step must
  /// not hold anything with a destructor, because the jump doesn't run it.
  template <class Step>
  void run(const char* who, Step step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    if (!attempt(step)) throw jpeg_error(std::string(who) + ": " + message_);
  }

  /// For callbacks, which only receive the codec: returns its error manager.
  template <class Codec>
  static libjpeg_errors& of(const Codec* codec) noexcept {
    return static_cast<libjpeg_errors&>(*codec->err);
  }

  /// For callbacks: ends the step with an error message in printf's format.
  [[noreturn, gnu::format(printf, 2, 3)]] void fail(const char* format, ...) noexcept {
    std::va_list values;
    va_start(values, format);
    std::vsnprintf(message_, sizeof message_, format, values);
    va_end(values);
    jump();
  }

  /// For callbacks: counts a warning, which ends the step if warnings are errors.
  void warn(const char* message, bool is_harmless = false) noexcept {
    ++num_warnings;
    if (!fails(is_harmless)) return;
    if (advice_) fail("%s%s%s", message, advice_, is_harmless ? "keep_whole" : "keep");
    fail("%s", message);
  }

  /// Names a kind of JPEG that libjpeg may not support, by the byte of the frame's marker; otherwise null.
  static const char* unsupported_kind(int marker) noexcept;

 private:
  bool fails(bool is_harmless) const noexcept { return is_harmless ? harmless_fail_ : others_fail_; }

  // Whether a warning is about something that libjpeg doesn't use, or skips, without a loss of pixels. Many bytes that
  // are skipped may be rows of pixels, if the height in the header is too small.
  static bool is_harmless(int code, int first_parameter) noexcept {
    constexpr int most_extraneous = 16;
    if (code == JWRN_EXTRANEOUS_DATA) return first_parameter <= most_extraneous;
    return code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM || code == JWRN_NOT_SEQUENTIAL;
  }

  // Names the kind of JPEG if libjpeg doesn't support the kind that the frame's marker says. After the frame,
  // such a marker means damage, and the result is null.
  static const char* unsupported_kind(j_common_ptr codec) noexcept {
    const int code = codec->err->msg_code;
    if (code != JERR_SOF_UNSUPPORTED && code != JERR_UNKNOWN_MARKER) return nullptr;
    if (reinterpret_cast<j_decompress_ptr>(codec)->comp_info) return nullptr; // after the frame
    return unsupported_kind(codec->err->msg_parm.i[0]);
  }

  // Not inlined, so that no variable of a caller is in a register that the jump restores.
  template <class Step>
  [[gnu::noinline]] bool attempt(Step& step) {
    if (setjmp(landing_) != 0) return false; // NOLINT(cert-err52-cpp): see above
    step();
    return true;
  }

  [[noreturn]] void jump() noexcept { std::longjmp(landing_, 1); } // NOLINT(cert-err52-cpp)

  std::jmp_buf landing_;
  char message_[JMSG_LENGTH_MAX + 100] = {}; // with the advice
  const char* advice_ = nullptr;
  bool harmless_fail_ = true;
  bool others_fail_ = true;
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/image/jpeg_error.ipp>
#endif
