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

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/piped_table.ipp>
#endif
