// SPDX-License-Identifier: MIT
#pragma once
// Writes zstd files.
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <zstd.h>

namespace feedline::test {

/// One frame with a checksum and without its size, as zstd writes what it reads from a pipe.
inline std::string zstd(std::string_view contents, int level = 3) {
  const std::unique_ptr<ZSTD_CCtx, decltype(&::ZSTD_freeCCtx)> context(::ZSTD_createCCtx(), ::ZSTD_freeCCtx);
  ::ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ::ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  ::ZSTD_CCtx_setParameter(context.get(), ZSTD_c_contentSizeFlag, 0);
  std::string frame(::ZSTD_compressBound(contents.size()) + 64, '\0');
  ZSTD_outBuffer out{frame.data(), frame.size(), 0};
  ZSTD_inBuffer in{contents.data(), contents.size(), 0};
  if (::ZSTD_compressStream2(context.get(), &out, &in, ZSTD_e_end) != 0)
    throw std::runtime_error("zstd didn't compress");
  frame.resize(out.pos);
  return frame;
}

/// The same frame as if it had a window of 2^logarithm bytes.
inline std::string with_window(std::string frame, int logarithm) {
  frame[5] = static_cast<char>((logarithm - 10) << 3);
  return frame;
}

inline std::string skippable(std::string_view contents) {
  std::string frame = "\x53\x2a\x4d\x18";
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(contents.size() >> (8 * i) & 0xff);
  return frame += contents;
}

} // namespace feedline::test
