// SPDX-License-Identifier: MIT
#pragma once
// The exception for JPEGs, and how libjpeg's error callbacks throw it.
#include <cstddef>
#include <cstdio>

#include <feedline/image/image_error.hpp>

// These headers need size_t and FILE declared first; version 6b lacks the extern "C".
extern "C" {
#include <jpeglib.h>

#include <jerror.h>
}

namespace feedline::inline FEEDLINE_ABI {

/// A JPEG that can't be decoded or encoded. what() contains libjpeg's message where there is one.
class jpeg_error : public image_error {
 public:
  using image_error::image_error;
};

namespace detail {

/// libjpeg's error manager. Nothing is ever printed.
class libjpeg_errors : public jpeg_error_mgr, public jumping_errors<jpeg_error> {
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

  /// For callbacks, which only receive the codec: returns its error manager.
  template <class Codec>
  static libjpeg_errors& of(const Codec* codec) noexcept {
    return static_cast<libjpeg_errors&>(*codec->err);
  }

  /// For callbacks: counts a warning, which ends the step if warnings are errors. `accepted_by` is the value of on_corrupt
  /// that the advice names.
  void warn(const char* message, bool is_harmless = false, const char* accepted_by = "keep") noexcept {
    ++num_warnings;
    if (!fails(is_harmless)) return;
    if (advice_) fail("%s%s%s", message, advice_, accepted_by);
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

  const char* advice_ = nullptr;
  bool harmless_fail_ = true;
  bool others_fail_ = true;
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE libjpeg_errors::libjpeg_errors() noexcept {
  jpeg_std_error(this);
  error_exit = [](j_common_ptr codec) {
    if (const char* kind = unsupported_kind(codec))
      of(codec).fail("%s (SOF type 0x%02x) isn't supported; save the image as a baseline or progressive JPEG",
                     kind, static_cast<unsigned>(codec->err->msg_parm.i[0]));
    codec->err->format_message(codec, of(codec).message_);
    of(codec).jump();
  };
  emit_message = [](j_common_ptr codec, int level) {
    if (level >= 0) return; // a trace message
    const bool harmless = is_harmless(codec->err->msg_code, codec->err->msg_parm.i[0]);
    char message[JMSG_LENGTH_MAX] = "";
    if (of(codec).fails(harmless)) codec->err->format_message(codec, message);
    of(codec).warn(message, harmless, harmless ? "keep_whole" : "keep");
  };
}

FEEDLINE_INLINE const char* libjpeg_errors::unsupported_kind(int marker) noexcept {
  switch (marker) {
  case 0xc3:
    return "Lossless JPEG";
  case 0xc5:
  case 0xc6:
    return "Hierarchical JPEG";
  case 0xc7:
    return "Hierarchical lossless JPEG";
  case 0xc8:
    return "An extension of JPEG";
  case 0xcb:
    return "Lossless JPEG with arithmetic coding";
  case 0xcd:
  case 0xce:
    return "Hierarchical JPEG with arithmetic coding";
  case 0xcf:
    return "Hierarchical lossless JPEG with arithmetic coding";
  case 0xf7:
    return "JPEG-LS";
  default:
    return nullptr;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
