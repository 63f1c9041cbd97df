// SPDX-License-Identifier: MIT
#pragma once
// Finds the record batches of an Arrow file without reading their bodies.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/detail/message.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The position of a record batch or a dictionary batch.
struct batch_place {
  std::uint64_t metadata = 0; ///< offset in the file
  std::uint64_t metadata_size = 0;
  std::uint64_t body = 0;
  std::uint64_t body_size = 0;
  std::uint64_t rows = 0;
  bool is_compressed = false;
  std::size_t first_dictionary = 0; ///< of the file's dictionary batches: the first one that applies …
  std::size_t dictionaries = 0;     ///< … and the number of those up to the last one
};

struct dictionary_place {
  std::int64_t id = 0;
  bool is_delta = false; ///< its values are appended to the earlier ones
  batch_place values{};
  std::size_t first_part = 0; ///< position of the dictionary's first part among the batches with this id
};

/// Throws arrow_error for the schema of a stream that follows one with other columns.
void check_schema_after(const arrow_schema& first, const arrow_schema& next);

/// Throws arrow_error, which says what the file is, if it begins as another known kind does.
void refuse_other_kind(std::span<const std::byte> begin);

inline constexpr std::string_view arrow_file_name = "ARROW1"; // at both ends of a file; not in a stream

/// The schema of a file and the positions of its batches.
struct arrow_layout {
  static constexpr std::uint64_t most_rows = (std::uint64_t{1} << 40) - 2; // limited by index()

  arrow_schema schema;
  std::vector<batch_place> batches;
  std::vector<std::uint64_t> ends; ///< for each batch, the number of rows up to its end
  std::vector<dictionary_place> dictionaries;
  std::map<std::int64_t, std::vector<std::size_t>> dictionaries_of; ///< the numbers of those with an id
  std::string problem;        ///< why the file can't be read after these batches
  std::uint64_t left_out = 0; ///< bytes after the end of the stream

  std::uint64_t rows() const noexcept;

  std::uint64_t first_of(std::size_t batch) const noexcept;

  /// The batch that contains a row.
  std::size_t batch_of(std::uint64_t row) const noexcept;

  /// The number of rows, plus one position for the error if the file can't be read to its end.
  std::uint64_t places() const noexcept;

  void add(const batch_place& batch);

  static constexpr std::uint64_t few_bytes = 16 << 10; ///< reading them costs less than announcing them

  /// Whether the row, or the compressed batch that contains it, is so large that the system should read it ahead.
  bool is_worth_announcing(std::uint64_t row) const noexcept;

  void add_dictionary(std::int64_t id, bool is_delta, const batch_place& values);

  /// The numbers of the dictionary batches that form a dictionary for a batch at this place. Throws arrow_error if there
  /// are none.
  std::span<const std::size_t> parts_of(std::int64_t id, const batch_place& place) const;
};

/// Reads the messages of a file.
class layout_reader {
 public:
  /// `concatenated`: see arrow_options.
  static arrow_layout read(std::span<const std::byte> file, bool concatenated = false);

 private:
  explicit layout_reader(std::span<const std::byte> file) : file_(file) {}

  bool holds(std::uint64_t at, std::string_view text) const;

  /// Calls f, and adds the offset to its errors.
  template <class F>
  static auto at_offset(std::uint64_t offset, F f) {
    try {
      return f();
    } catch (const arrow_error& error) {
      throw arrow_error("message at offset " + std::to_string(offset) + ": " + error.what());
    }
  }

  void read_stream(bool concatenated);

  /// Returns the offset of the next message, or 0 at the end of a stream.
  std::uint64_t read_message(std::uint64_t at);

  /// The offset after the end marks and zeros at `at`.
  std::uint64_t after_end(std::uint64_t at) const;

  /// The metadata of a message, and the offset of its body. `size` is the size of prefix and metadata; 0: as
  /// in the prefix.
  std::pair<std::span<const std::byte>, std::uint64_t> metadata_at(std::uint64_t at,
                                                                   std::uint64_t size) const;

  batch_place place_of(const message& m, std::span<const std::byte> metadata, std::uint64_t body) const;

  void add_dictionary(const message& m, std::span<const std::byte> metadata, std::uint64_t body);

  void read_footer();

  /// Throws arrow_error for a footer that names a message twice, as it could name one of many columns any number of times,
  /// and for the footer of a file that follows another one.
  void check_blocks(std::span<const std::byte> dictionaries, std::span<const std::byte> batches,
                    std::uint64_t footer) const;

  template <class F>
  void for_each_block(std::span<const std::byte> blocks, message_kind kind, F f) {
    for (; !blocks.empty(); blocks = blocks.subspan(footer_table::block_size)) {
      const auto offset = load<std::int64_t>(blocks.data());
      const auto metadata_size = load<std::int32_t>(blocks.data() + 8);
      const auto body_size = load<std::int64_t>(blocks.data() + 16);
      if (offset < 0 || metadata_size < 8 || body_size < 0 ||
          static_cast<std::uint64_t>(offset) > file_.size() ||
          static_cast<std::uint64_t>(metadata_size) > file_.size() - static_cast<std::uint64_t>(offset))
        throw arrow_error("the footer refers to a message outside the file");
      at_offset(static_cast<std::uint64_t>(offset), [&] {
        const auto [metadata, body] =
            metadata_at(static_cast<std::uint64_t>(offset), static_cast<std::uint64_t>(metadata_size));
        const message m(metadata);
        if (m->kind() != kind) throw arrow_error("the message isn't of the kind that the footer says");
        if (m.body_size() != static_cast<std::uint64_t>(body_size))
          throw arrow_error("the body isn't as large as the footer says");
        if (m.body_size() > file_.size() - body) throw arrow_error("the body is cut off");
        f(m, metadata, body);
      });
    }
  }

  std::span<const std::byte> file_;
  arrow_layout layout_;
  bool expects_schema_ = true;       // at the beginning of a stream
  std::size_t first_dictionary_ = 0; // of the stream
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/layout.ipp>
#endif
