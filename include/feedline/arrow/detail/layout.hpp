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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <algorithm>
#include <cstring>
#include <set>

#include <feedline/arrow/detail/read_schema.hpp>
#include <feedline/detail/file_kind.hpp>
#include <feedline/detail/utf8.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::uint64_t arrow_layout::rows() const noexcept { return ends.empty() ? 0 : ends.back(); }

FEEDLINE_INLINE std::uint64_t arrow_layout::first_of(std::size_t batch) const noexcept {
  return batch == 0 ? 0 : ends[batch - 1];
}

FEEDLINE_INLINE std::size_t arrow_layout::batch_of(std::uint64_t row) const noexcept {
  return static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
}

FEEDLINE_INLINE std::uint64_t arrow_layout::places() const noexcept { return rows() + !problem.empty(); }

FEEDLINE_INLINE bool arrow_layout::is_worth_announcing(std::uint64_t row) const noexcept {
  if (row >= rows()) return false;
  const batch_place& batch = batches[batch_of(row)];
  return batch.body_size / (batch.is_compressed ? 1 : batch.rows) >= few_bytes;
}

FEEDLINE_INLINE void arrow_layout::add(const batch_place& batch) {
  if (batch.rows > most_rows - rows()) throw arrow_error("there are more than 2^40 rows");
  batches.push_back(batch);
  ends.push_back(rows() + batch.rows);
}

FEEDLINE_INLINE void arrow_layout::add_dictionary(std::int64_t id, bool is_delta, const batch_place& values) {
  std::vector<std::size_t>& all = dictionaries_of[id];
  const bool continues = is_delta && !all.empty() && all.back() >= values.first_dictionary;
  const std::size_t first = continues ? dictionaries[all.back()].first_part : all.size();
  all.push_back(dictionaries.size());
  dictionaries.push_back({id, is_delta, values, first});
}

FEEDLINE_INLINE std::span<const std::size_t> arrow_layout::parts_of(std::int64_t id,
                                                                    const batch_place& place) const {
  if (const auto found = dictionaries_of.find(id); found != dictionaries_of.end()) {
    const std::vector<std::size_t>& all = found->second;
    const auto end = std::lower_bound(all.begin(), all.end(), place.dictionaries);
    if (end != all.begin() && end[-1] >= place.first_dictionary)
      return {all.begin() + static_cast<std::ptrdiff_t>(dictionaries[end[-1]].first_part), end};
  }
  throw arrow_error("dictionary " + std::to_string(id) + " is missing");
}

FEEDLINE_INLINE arrow_layout layout_reader::read(std::span<const std::byte> file, bool concatenated) {
  layout_reader reader(file);
  const bool is_file = reader.holds(0, arrow_file_name);
  try {
    if (is_file) reader.read_footer();
    else reader.read_stream(concatenated);
  } catch (const arrow_error& error) {
    reader.layout_.problem = error.what();
  }
  return std::move(reader.layout_);
}

FEEDLINE_INLINE bool layout_reader::holds(std::uint64_t at, std::string_view text) const {
  return file_.size() >= at + text.size() &&
         std::equal(text.begin(), text.end(), file_.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::byte b) { return a == static_cast<char>(b); });
}

/// ": it is JSON", or ": it is text, such as CSV"; empty for other bytes.
FEEDLINE_INLINE std::string what_text_it_is(std::string_view begin) {
  char32_t first = 0; // that isn't a space
  for (std::string_view rest = begin.substr(0, 512); !rest.empty();) {
    const bool may_be_cut_off = rest.size() < 4;
    const char32_t c = next_character(rest);
    if (c < 9 || (c > 13 && c < ' ') || (c == 0xfffd && !may_be_cut_off)) return {};
    if (first == 0 && c > ' ') first = c;
  }
  return first == '{' || first == '[' ? ": it is JSON" : ": it is text, such as CSV";
}

FEEDLINE_INLINE void refuse_other_kind(std::span<const std::byte> begin) {
  std::string other = what_it_is(begin);
  if (other.empty()) other = what_text_it_is({reinterpret_cast<const char*>(begin.data()), begin.size()});
  if (!other.empty()) throw arrow_error("this isn't an Arrow file" + other);
}

FEEDLINE_INLINE void check_schema_after(const arrow_schema& first, const arrow_schema& next) {
  if (first != next)
    throw arrow_error("the stream has other columns than the one before it: " + to_string(next) + ", not " +
                      to_string(first));
}

FEEDLINE_INLINE void layout_reader::read_stream(bool concatenated) {
  if (file_.empty()) throw arrow_error("the file is empty");
  bool has_schema = false;
  try {
    for (std::uint64_t at = 0; at < file_.size();) {
      std::uint64_t next = at_offset(at, [&] { return read_message(at); });
      has_schema = has_schema || next > 0; // as the first message is one
      if (next == 0) {
        if (!has_schema) throw arrow_error("there is no schema");
        next = after_end(at);
        expects_schema_ = true;
        first_dictionary_ = layout_.dictionaries.size();
        if (!concatenated) {
          layout_.left_out = file_.size() - next;
          break;
        }
      }
      at = next;
    }
  } catch (const arrow_error&) {
    if (!has_schema) refuse_other_kind(file_);
    throw;
  }
}

FEEDLINE_INLINE std::uint64_t layout_reader::after_end(std::uint64_t at) const {
  for (std::size_t zeros = 0;; at += zeros) {
    const auto rest =
        file_.subspan(static_cast<std::size_t>(at)).first(std::min<std::uint64_t>(8, file_.size() - at));
    const bool has_marker = rest.size() == 8 && load<std::uint32_t>(rest.data()) == message_prefix::marker;
    const auto size = has_marker ? rest.subspan(4) : rest.first(std::min<std::size_t>(4, rest.size()));
    if (size.empty() || std::ranges::any_of(size, [](std::byte b) { return b != std::byte(); })) return at;
    zeros = has_marker ? 8 : size.size();
  }
}

FEEDLINE_INLINE std::uint64_t layout_reader::read_message(std::uint64_t at) {
  const auto [metadata, body] = metadata_at(at, 0);
  if (metadata.empty()) return 0;
  const message m(metadata);
  if (expects_schema_ && m->kind() != message_kind::schema)
    throw arrow_error("this isn't an Arrow stream: it doesn't begin with a schema");
  const std::uint64_t left = file_.size() - body;
  if (m.body_size() > left)
    throw arrow_error("the body is cut off: " + std::to_string(m.body_size()) + " bytes announced, " +
                      std::to_string(left) + " left");
  switch (m->kind()) {
  case message_kind::schema: {
    if (!std::exchange(expects_schema_, false)) throw arrow_error("this is a second schema");
    arrow_schema schema = schema_reader::read(m.header<schema_table>(), m->version(), metadata.size());
    if (at == 0) layout_.schema = std::move(schema);
    else check_schema_after(layout_.schema, schema);
    break;
  }
  case message_kind::dictionary_batch:
    add_dictionary(m, metadata, body);
    break;
  case message_kind::record_batch:
    layout_.add(place_of(m, metadata, body));
    break;
  default:
    throw arrow_error("it is neither a schema, a record batch nor a dictionary batch");
  }
  return body + m.body_size();
}

FEEDLINE_INLINE std::pair<std::span<const std::byte>, std::uint64_t>
layout_reader::metadata_at(std::uint64_t at, std::uint64_t size) const {
  const std::uint64_t left = file_.size() - at;
  const std::byte* const begin = file_.data() + at;
  if (left < 4 || (load<std::uint32_t>(begin) == message_prefix::marker && left < 8))
    throw arrow_error("the message is cut off");
  const message_prefix prefix = message_prefix::read(begin);
  if (size == 0 && prefix.size == 0) return {{}, at};
  if (prefix.size < 0)
    throw arrow_error("this isn't Arrow data: the size of the metadata is " + std::to_string(prefix.size));
  const auto in_prefix = static_cast<std::uint64_t>(prefix.size);
  if (in_prefix > left - prefix.bytes)
    throw arrow_error("the metadata is cut off: " + std::to_string(prefix.size) + " bytes announced, " +
                      std::to_string(left - prefix.bytes) + " left");
  if (size == 0) size = prefix.bytes + in_prefix;
  if (size < prefix.bytes + in_prefix) throw arrow_error("the metadata is larger than the footer says");
  return {file_.subspan(static_cast<std::size_t>(at + prefix.bytes), static_cast<std::size_t>(in_prefix)),
          at + size};
}

FEEDLINE_INLINE batch_place layout_reader::place_of(const message& m, std::span<const std::byte> metadata,
                                                    std::uint64_t body) const {
  return {static_cast<std::uint64_t>(metadata.data() - file_.data()),
          metadata.size(),
          body,
          m.body_size(),
          m.rows(),
          m.batch().compression() != nullptr,
          first_dictionary_,
          layout_.dictionaries.size()};
}

FEEDLINE_INLINE void layout_reader::add_dictionary(const message& m, std::span<const std::byte> metadata,
                                                   std::uint64_t body) {
  const auto& header = m.header<dictionary_batch_table>();
  layout_.add_dictionary(header.id(), header.is_delta(), place_of(m, metadata, body));
}

FEEDLINE_INLINE void layout_reader::check_blocks(std::span<const std::byte> dictionaries,
                                                 std::span<const std::byte> batches,
                                                 std::uint64_t footer) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> messages; // begin and end
  std::uint64_t end = 0;
  for (auto blocks : {dictionaries, batches})
    for (; !blocks.empty(); blocks = blocks.subspan(footer_table::block_size)) {
      const auto offset = load<std::uint64_t>(blocks.data());
      messages.emplace_back(offset, offset + load<std::uint32_t>(blocks.data() + 8));
      end = std::max(end, messages.back().second + load<std::uint64_t>(blocks.data() + 16));
    }
  std::ranges::sort(messages);
  for (std::size_t i = 1; i < messages.size(); ++i)
    if (messages[i].first < messages[i - 1].second)
      throw arrow_error("the footer refers twice to the message at offset " +
                        std::to_string(messages[i].first));
  for (const std::uint64_t mark :
       {0u, 4u, 8u}) // bytes of the end mark between the last message and the footer
    if (end < footer && mark < footer - end && holds(footer - end - mark, arrow_file_name))
      throw arrow_error("the file consists of several Arrow files, of which the first has " +
                        std::to_string(footer - end - mark) +
                        " bytes: only streams can be joined; write each of these to a file of its own");
}

FEEDLINE_INLINE void layout_reader::read_footer() {
  constexpr std::uint64_t tail = 4 + arrow_file_name.size(); // bytes: the footer's size and the name
  constexpr std::uint64_t head = 8;
  const std::uint64_t size = file_.size();
  if (size < head + tail || !holds(size - arrow_file_name.size(), arrow_file_name))
    throw arrow_error("the file is cut off: it begins with ARROW1 but doesn't end with it");
  const auto footer_size = load<std::int32_t>(file_.data() + (size - tail));
  if (footer_size <= 0 || static_cast<std::uint64_t>(footer_size) > size - head - tail)
    throw arrow_error("the footer has an invalid size of " + std::to_string(footer_size) + " bytes");
  const auto bytes =
      file_.subspan(static_cast<std::size_t>(size - tail) - static_cast<std::size_t>(footer_size),
                    static_cast<std::size_t>(footer_size));
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* const footer =
      verified<footer_table>({reinterpret_cast<const std::byte*>(aligned.data()), bytes.size()});
  if (!footer || !footer->schema()) throw arrow_error("the footer is damaged");
  message::check_version(footer->version());
  layout_.schema = schema_reader::read(*footer->schema(), footer->version(), bytes.size());
  check_blocks(footer->dictionaries(), footer->batches(), size - tail - bytes.size());
  for_each_block(footer->dictionaries(), message_kind::dictionary_batch,
                 [&](const auto&... at) { add_dictionary(at...); });
  std::set<std::int64_t> ids;
  for (const dictionary_place& part : layout_.dictionaries)
    if (!ids.insert(part.id).second && !part.is_delta)
      throw arrow_error("dictionary " + std::to_string(part.id) + " is replaced, which only a stream can do");
  for_each_block(footer->batches(), message_kind::record_batch,
                 [&](const auto&... at) { layout_.add(place_of(at...)); });
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
