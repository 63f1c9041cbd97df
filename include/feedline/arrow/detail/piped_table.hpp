// SPDX-License-Identifier: MIT
#pragma once
// Reads an Arrow stream from a pipe, one record batch after another.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/message.hpp>
#include <feedline/arrow/detail/pipe.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Each batch has its own memory, which lives as long as its rows. Only a file (not a stream) whose schema is
/// at its end alone is read into memory as a whole. For one thread.
class piped_table {
 public:
  /// Reads the schema. Throws arrow_error, or pipe_stopped.
  piped_table(const std::string& path, std::size_t number, std::shared_ptr<const wanted_rows> wanted,
              const std::stop_token& stop);

  /// The next batch; null at the end. Throws arrow_error, after which there are no more batches, or
  /// pipe_stopped.
  std::shared_ptr<const loaded_batch> next();

 private:
  struct owned_message {
    std::vector<std::byte> prefix;
    std::vector<std::byte> metadata;
    std::vector<std::byte> body;
  };

  template <class F>
  void named(F f) {
    try {
      f();
    } catch (const arrow_error& error) {
      throw arrow_error(readable(path_) + ": message at offset " + std::to_string(at_) + ": " + error.what());
    }
  }

  /// Reads the schema, or the whole file if it doesn't begin with one.
  arrow_layout read_layout();

  arrow_layout read_whole(const std::vector<std::byte>& head, const owned_message& first);

  std::shared_ptr<const loaded_batch> take_from_whole();

  /// Reads `count` bytes. Begins with those left in begin_.
  std::size_t read(std::byte* to, std::size_t count);

  /// Returns null at the end.
  std::shared_ptr<const owned_message> read_message();

  void read_part(std::vector<std::byte>& part, std::uint64_t size, const char* name);

  /// Returns the record batch of a message, or null for other messages.
  std::shared_ptr<const loaded_batch> take(const std::shared_ptr<const owned_message>& bytes);

  /// Begins a stream that follows another one.
  void begin_stream(const message& m, std::size_t metadata_size);

  void add_dictionary(const message& m, const std::shared_ptr<const owned_message>& bytes);

  static message_bytes bytes_of(const std::shared_ptr<const owned_message>& bytes);

  std::string path_;
  std::shared_ptr<const wanted_rows> wanted_;
  pipe pipe_;
  std::shared_ptr<const std::vector<std::byte>> whole_;
  std::size_t next_ = 0;         // next batch of whole_
  std::vector<std::byte> begin_; // first bytes, read to detect a file
  bool is_file_ = false;
  bool expects_schema_ = true; // at the beginning of a stream
  std::uint64_t at_ = 0;       // offset of the message
  std::uint64_t reached_ = 0;  // bytes read so far
  std::uint64_t rows_ = 0;
  std::shared_ptr<const arrow_file> file_;
  arrow_layout known_; // only its dictionaries
  batch_place place_;  // of the next batch: only its dictionaries
  std::vector<std::shared_ptr<const owned_message>> parts_;
  arrow_dictionaries dictionaries_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <algorithm>
#include <utility>

#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/detail/read_schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE piped_table::piped_table(const std::string& path, std::size_t number,
                                         std::shared_ptr<const wanted_rows> wanted,
                                         const std::stop_token& stop)
    : path_(path),
      wanted_(std::move(wanted)),
      pipe_(path, stop),
      dictionaries_(wanted_->options.max_batch_bytes) {
  auto described = std::make_shared<arrow_file>();
  described->origin = {path, number, 0, 0};
  named([&] {
    described->layout = std::make_shared<arrow_layout>(read_layout());
    described->find(*wanted_);
  });
  file_ = std::move(described);
}

FEEDLINE_INLINE std::shared_ptr<const loaded_batch> piped_table::next() {
  std::shared_ptr<const loaded_batch> batch;
  named([&] {
    if (whole_) return void(batch = take_from_whole());
    while (!batch)
      if (const auto bytes = read_message()) batch = take(bytes);
      else break;
  });
  return batch;
}

FEEDLINE_INLINE arrow_layout piped_table::read_layout() {
  begin_.resize(8);
  begin_.resize(pipe_.read(begin_.data(), 8));
  is_file_ =
      begin_.size() == 8 && std::memcmp(begin_.data(), arrow_file_name.data(), arrow_file_name.size()) == 0;
  const std::vector<std::byte> head = begin_;
  if (is_file_) {
    at_ = reached_ = begin_.size();
    begin_.clear();
  }
  const auto bytes = [&] {
    try {
      return read_message();
    } catch (const arrow_error&) {
      if (!is_file_ && !head.empty()) refuse_other_kind(head);
      throw;
    }
  }();
  if (!bytes) throw arrow_error("there is no schema");
  const message m(bytes->metadata);
  if (m->kind() == message_kind::schema) {
    expects_schema_ = false;
    arrow_layout layout;
    layout.schema = schema_reader::read(m.header<schema_table>(), m->version(), bytes->metadata.size());
    return layout;
  }
  if (!is_file_) throw arrow_error("this isn't an Arrow stream: it doesn't begin with a schema");
  return read_whole(head, *bytes);
}

FEEDLINE_INLINE arrow_layout piped_table::read_whole(const std::vector<std::byte>& head,
                                                     const owned_message& first) {
  auto all = std::make_shared<std::vector<std::byte>>(head);
  for (const auto* part : {&first.prefix, &first.metadata, &first.body})
    all->insert(all->end(), part->begin(), part->end());
  pipe_.append(*all, ~std::uint64_t{0});
  arrow_layout layout = layout_reader::read(*all);
  if (layout.batches.empty() && !layout.problem.empty()) throw arrow_error(layout.problem);
  whole_ = std::move(all);
  return layout;
}

FEEDLINE_INLINE std::shared_ptr<const loaded_batch> piped_table::take_from_whole() {
  const arrow_layout& layout = *file_->layout;
  if (next_ == layout.batches.size()) {
    if (!layout.problem.empty()) throw arrow_error(layout.problem);
    return nullptr;
  }
  const auto bytes_of_part = [&](std::size_t part) {
    return bytes_at(layout.dictionaries[part].values, *whole_, whole_);
  };
  const batch_place& place = layout.batches[next_];
  at_ = place.metadata;
  const auto find_dictionary = [&](const arrow_field& field) {
    return dictionaries_.find(field, layout, place, bytes_of_part);
  };
  const std::uint64_t first_row = layout.first_of(next_++);
  return load_batch(file_, bytes_at(place, *whole_, whole_), first_row, place.rows, find_dictionary);
}

FEEDLINE_INLINE std::size_t piped_table::read(std::byte* to, std::size_t count) {
  const std::size_t before = std::min(count, begin_.size());
  std::copy_n(begin_.begin(), before, to);
  begin_.erase(begin_.begin(), begin_.begin() + static_cast<std::ptrdiff_t>(before));
  const std::size_t got = before + (before < count ? pipe_.read(to + before, count - before) : 0);
  reached_ += got;
  return got;
}

FEEDLINE_INLINE std::shared_ptr<const piped_table::owned_message> piped_table::read_message() {
  std::byte prefix[8];
  std::size_t got = 0;
  std::int32_t size = 0;
  for (bool has_ended = false;;) {
    at_ = reached_;
    got = read(prefix, 4);
    if (got == 0) return nullptr;
    const bool has_marker = got == 4 && load<std::uint32_t>(prefix) == message_prefix::marker;
    if (has_marker) got += read(prefix + 4, 4);
    const bool is_whole = got == (has_marker ? 8 : 4);
    size = is_whole ? message_prefix::read(prefix).size : 0;
    if (is_whole && size == 0) { // the end mark
      has_ended = expects_schema_ = true;
      if (!is_file_) continue;
      pipe_.drain(); // the footer
      return nullptr;
    }
    if (has_ended && !wanted_->options.concatenated) {
      wanted_->notice(path_, got + pipe_.drain());
      return nullptr;
    }
    if (!is_whole) throw arrow_error("the message is cut off");
    break;
  }
  if (size < 0)
    throw arrow_error("this isn't Arrow data: the size of the metadata is " + std::to_string(size));
  auto bytes = std::make_shared<owned_message>();
  bytes->prefix.assign(prefix, prefix + got);
  read_part(bytes->metadata, static_cast<std::uint64_t>(size), "metadata");
  read_part(bytes->body, message(bytes->metadata).body_size(), "body");
  return bytes;
}

FEEDLINE_INLINE void piped_table::read_part(std::vector<std::byte>& part, std::uint64_t size,
                                            const char* name) {
  const std::size_t before = static_cast<std::size_t>(std::min<std::uint64_t>(size, begin_.size()));
  part.resize(before);
  read(part.data(), before);
  reached_ += pipe_.append(part, size - before);
  if (part.size() < size)
    throw arrow_error(std::string("the ") + name + " is cut off: " + std::to_string(size) +
                      " bytes announced, " + std::to_string(part.size()) + " received");
}

FEEDLINE_INLINE std::shared_ptr<const loaded_batch>
piped_table::take(const std::shared_ptr<const owned_message>& bytes) {
  const message m(bytes->metadata);
  if (std::exchange(expects_schema_, false)) {
    begin_stream(m, bytes->metadata.size());
    return nullptr;
  }
  switch (m->kind()) {
  case message_kind::dictionary_batch:
    add_dictionary(m, bytes);
    return nullptr;
  case message_kind::record_batch:
    break;
  case message_kind::schema:
    throw arrow_error("this is a second schema");
  default:
    throw arrow_error("it is neither a schema, a record batch nor a dictionary batch");
  }
  const std::uint64_t rows = m.rows();
  if (rows > arrow_layout::most_rows - rows_) throw arrow_error("there are more than 2^40 rows");
  const auto bytes_of_part = [&](std::size_t part) { return bytes_of(parts_[part]); };
  const auto find_dictionary = [&](const arrow_field& field) {
    return dictionaries_.find(field, known_, place_, bytes_of_part);
  };
  return load_batch(file_, bytes_of(bytes), std::exchange(rows_, rows_ + rows), rows, find_dictionary);
}

FEEDLINE_INLINE void piped_table::begin_stream(const message& m, std::size_t metadata_size) {
  if (m->kind() != message_kind::schema)
    throw arrow_error("this isn't an Arrow stream: it doesn't begin with a schema");
  check_schema_after(file_->layout->schema,
                     schema_reader::read(m.header<schema_table>(), m->version(), metadata_size));
  for (std::size_t i = place_.first_dictionary; i < parts_.size(); ++i) parts_[i].reset();
  place_.first_dictionary = parts_.size();
  dictionaries_ = arrow_dictionaries(file_->max_batch_bytes);
}

FEEDLINE_INLINE void piped_table::add_dictionary(const message& m,
                                                 const std::shared_ptr<const owned_message>& bytes) {
  const auto& header = m.header<dictionary_batch_table>();
  const std::vector<std::size_t>& earlier = known_.dictionaries_of[header.id()];
  if (!header.is_delta() && !earlier.empty()) { // replaces earlier parts
    for (std::size_t i = known_.dictionaries[earlier.back()].first_part; i < earlier.size(); ++i)
      parts_[earlier[i]].reset();
    dictionaries_ = arrow_dictionaries(file_->max_batch_bytes);
  }
  known_.add_dictionary(header.id(), header.is_delta(), place_);
  parts_.push_back(bytes);
  place_.dictionaries = parts_.size();
}

FEEDLINE_INLINE message_bytes piped_table::bytes_of(const std::shared_ptr<const owned_message>& bytes) {
  return {bytes->metadata, bytes->body, bytes};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
