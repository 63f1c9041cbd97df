// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/jpeg_error.hpp>

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
