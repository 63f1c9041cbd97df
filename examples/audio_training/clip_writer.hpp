// SPDX-License-Identifier: MIT
#pragma once
// Writes Arrow IPC streams of two columns: audio (binary) and label (int64).
//
// Field numbers are those of Message.fbs, Schema.fbs and the other schemas of the format's specification:
// https://arrow.apache.org/docs/format/Columnar.html#format-metadata-files
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <flatbuffers/flatbuffers.h>

class clip_writer {
 public:
  /// Throws std::runtime_error if the file can't be written; so do the other functions.
  explicit clip_writer(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    write_schema();
  }

  /// Adds a row.
  void add(std::span<const std::byte> audio, std::int64_t label) {
    audio_.append(reinterpret_cast<const char*>(audio.data()), audio.size());
    ends_.push_back(static_cast<std::int64_t>(audio_.size()));
    labels_.push_back(label);
    if (labels_.size() == rows_of_batch) write_batch();
  }

  /// Ends the stream.
  void finish() {
    if (!labels_.empty()) write_batch();
    const std::uint32_t end[] = {continues, 0};
    write(end, sizeof end);
    file_.close();
    check();
  }

 private:
  static constexpr std::size_t rows_of_batch = 256;
  static constexpr std::uint32_t continues = 0xffffffff;
  static constexpr std::uint8_t schema_header = 1, record_batch_header = 3; // of MessageHeader
  static constexpr std::uint8_t int_type = 2, large_binary_type = 19;       // of Type

  // The offset of a table's field in FlatBuffers' vtable.
  static constexpr flatbuffers::voffset_t field(flatbuffers::voffset_t number) {
    return static_cast<flatbuffers::voffset_t>(4 + 2 * number);
  }

  struct field_node {
    std::int64_t length, nulls;
  };

  struct buffer {
    std::int64_t begin, size;
  };

  using table = flatbuffers::Offset<flatbuffers::Table>;

  template <class Build>
  table make_table(Build build) {
    const flatbuffers::uoffset_t start = builder_.StartTable();
    build();
    return builder_.EndTable(start);
  }

  table make_field(const char* name, std::uint8_t type_number, table type) {
    const auto text = builder_.CreateString(name);
    const auto no_children = builder_.CreateVector(std::vector<table>());
    return make_table([&] {
      builder_.AddOffset(field(0), text);
      builder_.AddElement<std::uint8_t>(field(2), type_number, 0);
      builder_.AddOffset(field(3), type);
      builder_.AddOffset(field(5), no_children);
    });
  }

  void write_schema() {
    const table bytes = make_table([] {});
    const table number = make_table([&] {
      builder_.AddElement<std::int32_t>(field(0), 64, 0); // bits
      builder_.AddElement<std::uint8_t>(field(1), 1, 0);  // signed
    });
    const auto fields = builder_.CreateVector(std::vector<table>{
        make_field("audio", large_binary_type, bytes), make_field("label", int_type, number)});
    write_message(schema_header, make_table([&] { builder_.AddOffset(field(1), fields); }), 0);
  }

  void write_batch() {
    const auto rows = static_cast<std::int64_t>(labels_.size());
    std::int64_t size = 0;
    const auto add_buffer = [&](std::size_t bytes) {
      const buffer b{size, static_cast<std::int64_t>(bytes)};
      size += padded(b.size);
      return b;
    };
    // A column of bytes stores the offset of each value and the end of the last one. It has no bitmap,
    // because no value is null.
    const std::size_t ends = ends_.size() * sizeof ends_[0], labels = labels_.size() * sizeof labels_[0];
    const std::vector<buffer> buffers{add_buffer(0), add_buffer(ends), add_buffer(audio_.size()),
                                      add_buffer(0), add_buffer(labels)};
    const std::vector<field_node> nodes(2, {rows, 0});
    const auto written_nodes = builder_.CreateVectorOfStructs(nodes);
    const auto written_buffers = builder_.CreateVectorOfStructs(buffers);
    const table batch = make_table([&] {
      builder_.AddElement<std::int64_t>(field(0), rows, 0);
      builder_.AddOffset(field(1), written_nodes);
      builder_.AddOffset(field(2), written_buffers);
    });
    write_message(record_batch_header, batch, size);
    write_padded(ends_.data(), ends);
    write_padded(audio_.data(), audio_.size());
    write_padded(labels_.data(), labels);
    audio_.clear();
    ends_.assign(1, 0);
    labels_.clear();
  }

  void write_message(std::uint8_t kind, table header, std::int64_t body) {
    constexpr std::int16_t version_5 = 4;
    builder_.Finish(make_table([&] {
      builder_.AddElement<std::int16_t>(field(0), version_5, 0);
      builder_.AddElement<std::uint8_t>(field(1), kind, 0);
      builder_.AddOffset(field(2), header);
      builder_.AddElement<std::int64_t>(field(3), body, 0);
    }));
    const std::size_t size = builder_.GetSize();
    const std::uint32_t prefix[] = {continues,
                                    static_cast<std::uint32_t>(padded(static_cast<std::int64_t>(size)))};
    write(prefix, sizeof prefix);
    write_padded(builder_.GetBufferPointer(), size);
    builder_.Clear();
  }

  static constexpr std::int64_t padded(std::int64_t size) { return (size + 7) / 8 * 8; }

  void write_padded(const void* bytes, std::size_t size) {
    write(bytes, size);
    constexpr char zeros[8] = {};
    write(zeros, static_cast<std::size_t>(padded(static_cast<std::int64_t>(size))) - size);
  }

  void write(const void* bytes, std::size_t size) {
    file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    check();
  }

  void check() const {
    if (!file_) throw std::runtime_error("can't write " + path_);
  }

  std::string path_;
  std::ofstream file_;
  flatbuffers::FlatBufferBuilder builder_;
  std::string audio_; // of the unfinished batch, as are the next two
  std::vector<std::int64_t> ends_{0};
  std::vector<std::int64_t> labels_;
};
