// SPDX-License-Identifier: MIT
#pragma once
// Options of lines, and how compressed files are opened.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Decompresses a file piece by piece.
class text_stream {
 public:
  text_stream() = default;
  text_stream(const text_stream&) = delete;
  text_stream& operator=(const text_stream&) = delete;
  virtual ~text_stream() = default;

  /// Writes the next bytes and returns how many: fewer than `count` only at the end.
  virtual std::size_t read(std::byte* to, std::size_t count) = 0;

  /// How many bytes of the file were read.
  virtual std::size_t offset() const noexcept = 0;

  /// Why it ended early; empty if it didn't.
  virtual const std::string& problem() const noexcept = 0;
};

/// Returns the bytes of a compressed file that follow, valid until the next call, and none at its end. It may throw, which
/// ends the stream. Empty: nothing follows. Copies share the function. (std::function would do, but its header takes compilers
/// longer than most of feedline.)
class compressed_rest {
 public:
  compressed_rest() = default;

  /// Of a function object that returns such bytes.
  template <class Next>
    requires(!std::is_same_v<Next, compressed_rest> &&
             std::is_invocable_r_v<std::span<const std::byte>, Next&>)
  compressed_rest(Next next)
      : next_(std::make_shared<Next>(std::move(next))),
        call_([](void* called) -> std::span<const std::byte> { return (*static_cast<Next*>(called))(); }) {}

  /// Whether something follows.
  explicit operator bool() const noexcept { return call_ != nullptr; }

  /// The next bytes.
  std::span<const std::byte> operator()() const { return call_(next_.get()); }

 private:
  std::shared_ptr<void> next_;
  std::span<const std::byte> (*call_)(void*) = nullptr;
};

/// Opens compressed data: gunzip_stream of feedline/gzip.hpp, unzstd_stream of feedline/zstd.hpp.
struct text_opener {
  std::string_view kind;  ///< the data that it opens, as messages call them: "gzip data"
  std::size_t bytes_held; ///< the most memory that a stream takes

  /// Opens a file that begins with these bytes, which stay valid until the rest is asked for. Throws std::bad_alloc.
  std::unique_ptr<text_stream> (*open)(std::span<const std::byte> begin, compressed_rest rest);
};

/// Options of lines.
struct lines_options {
  /// The longest line; reading a longer one fails. Also the limit for a memory_budget. 0: no limit, or 64 MiB with openers in
  /// `decompress`, as a small compressed file may have a line of any length.
  std::size_t max_line_bytes = 0;

  /// Opens compressed files, each with the opener for its kind, which its first bytes show.
  std::vector<text_opener> decompress{};
};

} // namespace feedline::inline FEEDLINE_ABI
