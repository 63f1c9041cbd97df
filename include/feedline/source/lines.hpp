// SPDX-License-Identifier: MIT
#pragma once
// lines: a source of the lines of text files.
#include <cstring>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

class lines_source {
 public:
  static constexpr source_traits traits{.kind = "lines", .splits_files_by_rank = true};

  lines_source(const file_patterns& files, lines_options options)
      : files_(files, traits.kind), options_(std::move(options)) {
    refuse_negative(options_.max_line_bytes, "feedline::lines: max_line_bytes");
    if (options_.max_line_bytes == 0 && !options_.decompress.empty()) options_.max_line_bytes = usual_line;
  }

  lines_source(const lines_source&);
  lines_source(lines_source&&) noexcept;
  lines_source& operator=(const lines_source&);
  lines_source& operator=(lines_source&&) noexcept;
  ~lines_source();

  void start_epoch(const epoch& e) {
    files_.start(e);
    stop_ = e.stop;
    ahead_ = {};
  }

  std::optional<std::string> next();

  std::uint64_t index() const noexcept { return index_; }

  void state(auto& archive) {
    files_.state(archive);
    archive(at_, line_);
  }

  void resumed();

  void seek(std::uint64_t index);

  std::optional<std::size_t> max_item_bytes() const noexcept;

  /// What decompressing takes.
  std::size_t bytes_held() const noexcept;

  /// The files and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return files_.fingerprint(extent); }

  std::string origin(std::uint64_t index) const;

 private:
  static constexpr std::size_t closed = ~std::size_t{0};
  static constexpr std::size_t step = std::size_t{64} << 10;       // bytes that are decompressed at once
  static constexpr std::size_t usual_line = std::size_t{64} << 20; // the longest of a compressed file

  struct zipped_line {
    std::string_view text; // without the line feed; of a line that is too long, the end
    bool has_end;
    std::size_t dropped; // bytes before the text
  };

  /// A compressed file at work; a copy opens it again.
  struct unzipped {
    unzipped() = default;

    unzipped(const unzipped&) noexcept {}

    unzipped(unzipped&&) noexcept = default;

    unzipped& operator=(const unzipped& other) { return *this = unzipped(other); }

    unzipped& operator=(unzipped&&) noexcept = default;

    ~unzipped() = default;

    std::shared_ptr<text_stream> stream{};
    std::string text{}; // not yet yielded from `begin` on
    std::size_t begin = 0;
    bool has_all = false; // nothing follows the text
  };

  // Looks at the beginning of the file that was opened: is it text?
  void begin_file();

  void close();

  // Counts a line, and returns it without its carriage return.
  std::string yielded(std::string_view text, bool has_end, std::size_t dropped);

  // The next line of a compressed file; nothing at its end.
  std::optional<zipped_line> read_zipped_line();

  // Opens the compressed file at at_.
  void unzip();

  // Decompresses more of it.
  void unzip_more();

  file_order files_;
  lines_options options_;
  std::shared_ptr<const mapped_file> file_;
  read_ahead ahead_;
  std::stop_token stop_;
  decltype(text_opener::open) open_text_ = nullptr; // of a compressed file
  unzipped zipped_;
  std::size_t number_ = 0;
  std::size_t at_ = closed; // offset in the file, or in its decompressed text
  std::uint64_t line_ = 0;
  std::uint64_t index_ = 0;
};

} // namespace detail

/// Reads the lines of text files.
///
/// Takes:   file names; each may be a pattern: `corpus/*.txt`, `part-{00..15}.txt`. Those that are compressed
///          need lines_options::decompress; a resumed run decompresses the current one from its beginning
/// Gives:   each line as a std::string without its end (`\n` or `\r\n`). The last line needs no end; it is left
///          out if it is empty. A byte order mark of UTF-8 is dropped. A line's index is
///          `number of its file << 40 | line in the file`, both from 0
/// Order:   file by file as listed; in infinite mode, or with several epochs, each epoch has a new file order.
///          For a random order of all lines see indexed_lines()
/// Throws:  when called, std::invalid_argument for an empty list and a file that is listed twice (two patterns may
///          match it; a link with another name is another file), and std::runtime_error for wildcards that
///          match nothing; when a run starts, std::system_error for a file that doesn't exist, and
///          std::runtime_error for a directory; in the run, when it reaches them (the next file follows):
///          std::system_error for a file that can't be read, std::runtime_error for one that is compressed in
///          another way or UTF-16, or whose compressed data are damaged, after the lines before that;
///          std::length_error for a line that is too long
/// Limits:  files are mapped: shortening one in place during a run (as logrotate's copytruncate does) ends the process with
///          SIGBUS. To replace a file, write another one and rename it
/// Example: `lines("corpus/*.txt") | map(tokenize, workers{4}) | batch(32, padded{})`
inline auto lines(const file_patterns& files, lines_options options = {}) {
  return detail::as_pipeline(detail::lines_source(files, std::move(options)));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/line_index.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE lines_source::lines_source(const lines_source&) = default;
FEEDLINE_INLINE lines_source::lines_source(lines_source&&) noexcept = default;
FEEDLINE_INLINE lines_source& lines_source::operator=(const lines_source&) = default;
FEEDLINE_INLINE lines_source& lines_source::operator=(lines_source&&) noexcept = default;
FEEDLINE_INLINE lines_source::~lines_source() = default;

FEEDLINE_INLINE std::optional<std::string> lines_source::next() {
  for (;;) {
    if (!file_) {
      const auto number = files_.next();
      if (!number) return std::nullopt;
      number_ = *number;
      index_ = file_order::index_of(number_, 0); // also of a file that can't be read
      file_ = ahead_.open(files_, number_);
      begin_file();
    }
    if (open_text_) [[unlikely]] {
      if (const auto line = read_zipped_line()) return yielded(line->text, line->has_end, line->dropped);
      close();
      continue;
    }
    const char* const begin = reinterpret_cast<const char*>(file_->bytes().data()) + at_;
    const std::size_t left = file_->bytes().size() - at_;
    if (left == 0) {
      close();
      continue;
    }
    ahead_.announce(files_, file_, at_);
    const void* const end = std::memchr(begin, '\n', left);
    const std::size_t length = end ? static_cast<std::size_t>(static_cast<const char*>(end) - begin) : left;
    at_ += end ? length + 1 : length;
    return yielded({begin, length}, end != nullptr, 0);
  }
}

FEEDLINE_INLINE std::string lines_source::yielded(std::string_view text, bool has_end, std::size_t dropped) {
  index_ = file_order::index_of(number_, line_++);
  return finished_line(text, has_end, dropped, options_.max_line_bytes, files_, index_);
}

FEEDLINE_INLINE void lines_source::begin_file() {
  line_ = 0;
  try {
    const auto [compression, begin] = kind_of_text(*file_);
    at_ = begin;
    open_text_ = nullptr;
    for (const text_opener& o : options_.decompress)
      if (o.kind == compression) open_text_ = o.open;
    if (open_text_ || compression.empty()) return;
    throw_compressed(*file_, compression);
  } catch (...) {
    close();
    throw;
  }
}

FEEDLINE_INLINE void lines_source::close() {
  file_.reset();
  zipped_ = {};
  at_ = closed;
}

FEEDLINE_INLINE std::optional<lines_source::zipped_line> lines_source::read_zipped_line() {
  unzipped& z = zipped_;
  if (!z.stream) unzip();
  ahead_.announce(files_, file_, z.stream->offset());
  std::size_t dropped = 0; // of a line that is too long
  for (std::size_t searched = z.begin;;) {
    const std::size_t end = z.text.find('\n', searched);
    const bool has_end = end != std::string::npos;
    if (has_end || z.has_all) {
      const std::string_view text = std::string_view(z.text).substr(z.begin, has_end ? end - z.begin : end);
      if (!has_end && !z.stream->problem().empty()) {
        const std::string message = readable(file_->path()) + ": " + z.stream->problem();
        close();
        throw std::runtime_error(message);
      }
      if (!has_end && dropped + text.size() == 0) return {};
      z.begin += text.size() + has_end;
      at_ += dropped + text.size() + has_end;
      return zipped_line{text, has_end, dropped};
    }
    z.text.erase(0, z.begin);
    z.begin = 0;
    if (options_.max_line_bytes > 0 && z.text.size() > options_.max_line_bytes + 1) {
      dropped += z.text.size() - 1; // the last byte may be a carriage return
      z.text.erase(0, z.text.size() - 1);
    }
    searched = z.text.size();
    if (stop_.stop_requested()) return {};
    unzip_more();
  }
}

FEEDLINE_INLINE void lines_source::unzip() {
  zipped_.stream = open_text_(file_->bytes(), {});
  unzip_more();
  if (at_ == 0 && zipped_.text.starts_with("\xef\xbb\xbf")) at_ = 3; // a byte order mark of UTF-8
  for (std::size_t left = at_;;) {
    zipped_.begin = std::min(left, zipped_.text.size());
    left -= zipped_.begin;
    if (left == 0 || stop_.stop_requested()) return;
    if (zipped_.has_all)
      throw std::runtime_error(readable(file_->path()) +
                               " has become shorter since the checkpoint was taken");
    zipped_.text.clear();
    unzip_more();
  }
}

FEEDLINE_INLINE void lines_source::unzip_more() {
  const std::size_t before = zipped_.text.size();
  zipped_.text.resize(before + step);
  std::size_t got = 0;
  try {
    got = zipped_.stream->read(reinterpret_cast<std::byte*>(zipped_.text.data() + before), step);
  } catch (...) {
    zipped_.text.resize(before);
    throw;
  }
  zipped_.text.resize(before + got);
  zipped_.has_all = got < step;
}

FEEDLINE_INLINE void lines_source::resumed() {
  if (at_ == closed) return;
  number_ = files_.last();
  const std::size_t at = at_;
  const std::uint64_t line = line_;
  file_ = files_.map_last(0);
  begin_file();
  if (!open_text_) file_ = files_.map_last(at);
  at_ = at;
  line_ = line;
}

FEEDLINE_INLINE void lines_source::seek(std::uint64_t index) {
  if (file_ && number_ == file_order::file_of(index) && line_ <= file_order::place_of(index)) return;
  files_.go_to(file_order::file_of(index));
  close();
}

FEEDLINE_INLINE std::optional<std::size_t> lines_source::max_item_bytes() const noexcept {
  if (options_.max_line_bytes == 0) return std::nullopt;
  return sizeof(std::string) + options_.max_line_bytes + 1;
}

FEEDLINE_INLINE std::size_t lines_source::bytes_held() const noexcept {
  std::size_t most = 0;
  for (const text_opener& o : options_.decompress)
    most = std::max(most, 2 * (step + options_.max_line_bytes) + o.bytes_held); // the text's capacity doubles
  return most;
}

FEEDLINE_INLINE std::string lines_source::origin(std::uint64_t index) const {
  return origin_of_line(files_, index);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
