// SPDX-License-Identifier: MIT
#pragma once
// Writes small Arrow streams and files, both valid and malformed.
#include <feedline/arrow/detail/format_tables.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <flatbuffers/flatbuffers.h>

namespace feedline::test {

using detail::message_kind;
using detail::type_kind;

/// The type of a column, or of a part of a column.
struct arrow_part {
  std::string name;
  type_kind kind = type_kind::null;
  int size =
      0; ///< bits of an integer, decimal or time; bytes of a fixed_size_binary; elements of a fixed_size_list;
         ///< precision of floating point
  bool is_signed = true;
  std::vector<arrow_part> children{};
  std::optional<std::int64_t>
      dictionary{}; ///< the dictionary's number, if the values are 32-bit indices into it
  int unit = 0;     ///< of a date or time, as the format numbers them
  std::string timezone{};
  int precision = 0; ///< of a decimal
  int scale = 0;
};

/// The data of a column, or of a part of a column, in a batch.
struct arrow_data {
  std::int64_t rows = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> nodes; ///< length and number of nulls
  std::vector<std::string> buffers;
  std::vector<std::int64_t> variadic_counts{}; ///< for each view column

  arrow_data& append(const arrow_data& other) {
    nodes.insert(nodes.end(), other.nodes.begin(), other.nodes.end());
    buffers.insert(buffers.end(), other.buffers.begin(), other.buffers.end());
    variadic_counts.insert(variadic_counts.end(), other.variadic_counts.begin(), other.variadic_counts.end());
    return *this;
  }
};

inline arrow_part int64_part(std::string name) { return {std::move(name), type_kind::integer, 64}; }

inline arrow_part text_part(std::string name) { return {std::move(name), type_kind::utf8}; }

inline arrow_part binary_part(std::string name) { return {std::move(name), type_kind::binary}; }

inline arrow_part list_part(std::string name, arrow_part element) {
  return {std::move(name), type_kind::list, 0, true, {std::move(element)}};
}

inline arrow_part struct_part(std::string name, std::vector<arrow_part> children) {
  return {std::move(name), type_kind::structure, 0, true, std::move(children)};
}

template <class T>
std::string raw_bytes(const std::vector<T>& numbers) {
  std::string all(numbers.size() * sizeof(T), '\0');
  if (!numbers.empty()) std::memcpy(all.data(), numbers.data(), all.size());
  return all;
}

inline std::string bits_of(const std::vector<bool>& bits) {
  std::string all((bits.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (bits[i]) all[i / 8] = static_cast<char>(all[i / 8] | 1 << i % 8);
  return all;
}

/// The node and the bitmap of valid values.
inline arrow_data data_of_validity(const std::vector<bool>& valid) {
  std::int64_t nulls = 0;
  for (const bool v : valid) nulls += !v;
  const auto rows = static_cast<std::int64_t>(valid.size());
  return {rows, {{rows, nulls}}, {nulls > 0 ? bits_of(valid) : std::string()}};
}

template <class T>
arrow_data data_of_optionals(const std::vector<std::optional<T>>& values) {
  std::vector<bool> valid;
  for (const auto& v : values) valid.push_back(v.has_value());
  return data_of_validity(valid);
}

/// Numbers of any type.
template <class T>
arrow_data number_data(const std::vector<std::optional<T>>& values) {
  arrow_data data = data_of_optionals(values);
  std::vector<T> numbers;
  for (const auto& v : values) numbers.push_back(v.value_or(T()));
  data.buffers.push_back(raw_bytes(numbers));
  return data;
}

inline arrow_data bool_data(const std::vector<std::optional<bool>>& values) {
  arrow_data data = data_of_optionals(values);
  std::vector<bool> bits;
  for (const auto& v : values) bits.push_back(v.value_or(false));
  data.buffers.push_back(bits_of(bits));
  return data;
}

/// The numbers from begin to end - 1.
inline arrow_data counted(std::int64_t begin, std::int64_t end) {
  std::vector<std::optional<std::int64_t>> all;
  for (; begin < end; ++begin) all.emplace_back(begin);
  return number_data(all);
}

/// Columns utf8 and binary; with 64-bit offsets large_utf8 and large_binary.
template <class Offset = std::int32_t>
arrow_data text_data(const std::vector<std::optional<std::string>>& values) {
  arrow_data data = data_of_optionals(values);
  std::vector<Offset> offsets{0};
  std::string all;
  for (const auto& v : values) {
    all += v.value_or("");
    offsets.push_back(static_cast<Offset>(all.size()));
  }
  data.buffers.push_back(raw_bytes(offsets));
  data.buffers.push_back(std::move(all));
  return data;
}

/// Columns utf8_view and binary_view. Long values are in two further buffers in turn.
inline arrow_data view_data(const std::vector<std::optional<std::string>>& values) {
  arrow_data data = data_of_optionals(values);
  std::string views, further[2];
  std::size_t next = 0;
  for (const auto& v : values) {
    const std::string text = v.value_or("");
    std::string view = raw_bytes(std::vector{static_cast<std::int32_t>(text.size())});
    if (text.size() <= 12) {
      view += text;
    } else {
      std::string& to = further[next];
      view += text.substr(0, 4) +
              raw_bytes(std::vector{static_cast<std::int32_t>(next), static_cast<std::int32_t>(to.size())});
      to += text;
      next = 1 - next;
    }
    view.resize(16, '\0');
    views += view;
  }
  for (std::string* part : {&views, &further[0], &further[1]}) data.buffers.push_back(std::move(*part));
  data.variadic_counts.push_back(2);
  return data;
}

/// A fixed_size_list of the elements.
inline arrow_data fixed_list_data(const std::vector<bool>& valid, const arrow_data& elements) {
  return data_of_validity(valid).append(elements);
}

template <class T>
arrow_data list_data(const std::vector<std::optional<std::vector<T>>>& values) {
  arrow_data data = data_of_optionals(values);
  std::vector<std::int32_t> offsets{0};
  std::vector<std::optional<T>> elements;
  for (const auto& v : values) {
    if (v) elements.insert(elements.end(), v->begin(), v->end());
    offsets.push_back(static_cast<std::int32_t>(elements.size()));
  }
  data.buffers.push_back(raw_bytes(offsets));
  return data.append(number_data(elements));
}

inline arrow_data struct_data(const std::vector<bool>& valid, const std::vector<arrow_data>& children) {
  arrow_data data = data_of_validity(valid);
  for (const arrow_data& child : children) data.append(child);
  return data;
}

inline arrow_data null_data(std::int64_t rows) { return {rows, {{rows, rows}}, {}}; }

/// Writes a stream or a file step by step. It checks nothing, so that tests can write malformed data.
class arrow_writer {
 public:
  /// Compresses a buffer and puts its uncompressed size first.
  using compressor = std::string (*)(const std::string&);

  explicit arrow_writer(std::vector<arrow_part> columns) : columns_(std::move(columns)) {
    add_message(message_kind::schema, schema(), {});
    schema_size_ = text_.size();
  }

  /// 0: LZ4, 1: ZSTD.
  arrow_writer& compress(int codec, compressor with) {
    codec_ = codec;
    with_ = with;
    return *this;
  }

  /// Adds extra bytes after the metadata of all further messages, so that bodies aren't aligned to 8 bytes.
  arrow_writer& shift(std::size_t by) {
    shift_ = by;
    return *this;
  }

  /// Stores equal buffers of a batch once, so that they overlap.
  arrow_writer& share_equal_buffers() {
    shares_ = true;
    return *this;
  }

  arrow_writer& batch(const std::vector<arrow_data>& columns) {
    arrow_data all;
    for (const arrow_data& c : columns) all.append(c);
    all.rows = columns.empty() ? 0 : columns.front().rows;
    return batch(all);
  }

  /// Adds a batch. Its parts need not match the schema.
  arrow_writer& batch(const arrow_data& data) {
    const auto [header, body] = record_batch(data);
    batches_.push_back(add_message(message_kind::record_batch, header, body));
    return *this;
  }

  arrow_writer& dictionary(std::int64_t id, const arrow_data& values, bool is_delta = false) {
    const auto [data, body] = record_batch(values);
    const auto begin = builder_.StartTable();
    builder_.AddElement<std::int64_t>(slot(0), id, 0);
    builder_.AddOffset(slot(1), data);
    builder_.AddElement<std::uint8_t>(slot(2), is_delta, 0);
    dictionaries_.push_back(add_message(message_kind::dictionary_batch, builder_.EndTable(begin), body));
    return *this;
  }

  /// Names the last batch once more in a file's footer.
  arrow_writer& name_twice() {
    batches_.push_back(batches_.back());
    return *this;
  }

  /// The stream so far, without its end.
  const std::string& open() const { return text_; }

  std::string stream() const { return text_ + end(); }

  /// The same as a file with a footer. The footer repeats the schema, or has the only one.
  std::string file(bool begins_with_schema = true) {
    constexpr std::string_view magic = "ARROW1";
    const std::size_t left_out = begins_with_schema ? 0 : schema_size_;
    for (auto* blocks : {&dictionaries_, &batches_})
      for (block& b : *blocks) b.offset -= static_cast<std::int64_t>(left_out);
    std::string all = std::string(magic) + std::string(2, '\0') + text_.substr(left_out) + end();
    const auto fields = schema();
    const auto dictionaries = builder_.CreateVectorOfStructs(dictionaries_.data(), dictionaries_.size());
    const auto batches = builder_.CreateVectorOfStructs(batches_.data(), batches_.size());
    const auto begin = builder_.StartTable();
    builder_.AddElement<std::int16_t>(slot(0), 4, 0);
    builder_.AddOffset(slot(1), flatbuffers::Offset<void>(fields));
    builder_.AddOffset(slot(2), dictionaries);
    builder_.AddOffset(slot(3), batches);
    const std::string footer = finish(builder_.EndTable(begin));
    return all + footer + raw_bytes(std::vector{static_cast<std::int32_t>(footer.size())}) +
           std::string(magic);
  }

 private:
  struct block {
    std::int64_t offset;
    std::int64_t metadata_size; // 4 bytes of it, and 4 unused
    std::int64_t body_size;
  };

  struct pair_of_words {
    std::int64_t first, second;
  };

  static constexpr std::int64_t magic_size = 8;

  static flatbuffers::voffset_t slot(unsigned field) {
    return static_cast<flatbuffers::voffset_t>(4 + 2 * field);
  }

  static std::string end() { return raw_bytes(std::vector<std::uint32_t>{0xffffffff, 0}); }

  std::string finish(flatbuffers::uoffset_t table) {
    builder_.Finish(flatbuffers::Offset<void>(table));
    std::string all(reinterpret_cast<const char*>(builder_.GetBufferPointer()), builder_.GetSize());
    builder_.Clear();
    return all;
  }

  flatbuffers::uoffset_t type(const arrow_part& part) {
    const auto timezone = builder_.CreateString(part.timezone);
    const auto begin = builder_.StartTable();
    switch (part.kind) {
    case type_kind::integer:
      builder_.AddElement<std::int32_t>(slot(0), part.size, 0);
      builder_.AddElement<std::uint8_t>(slot(1), part.is_signed, 0);
      break;
    case type_kind::floating_point:
      builder_.AddElement<std::int16_t>(slot(0), static_cast<std::int16_t>(part.size), 0);
      break;
    case type_kind::decimal:
      builder_.AddElement<std::int32_t>(slot(0), part.precision, 0);
      builder_.AddElement<std::int32_t>(slot(1), part.scale, 0);
      builder_.AddElement<std::int32_t>(slot(2), part.size, 128);
      break;
    case type_kind::date:
    case type_kind::duration:
      builder_.AddElement<std::int16_t>(slot(0), static_cast<std::int16_t>(part.unit), 1);
      break;
    case type_kind::time:
      builder_.AddElement<std::int16_t>(slot(0), static_cast<std::int16_t>(part.unit), 1);
      builder_.AddElement<std::int32_t>(slot(1), part.size, 32);
      break;
    case type_kind::timestamp:
      builder_.AddElement<std::int16_t>(slot(0), static_cast<std::int16_t>(part.unit), 0);
      if (!part.timezone.empty()) builder_.AddOffset(slot(1), timezone);
      break;
    case type_kind::fixed_size_binary:
    case type_kind::fixed_size_list:
      builder_.AddElement<std::int32_t>(slot(0), part.size, 0);
      break;
    default:
      break;
    }
    return builder_.EndTable(begin);
  }

  flatbuffers::uoffset_t field(const arrow_part& part) {
    std::vector<flatbuffers::Offset<void>> children;
    for (const arrow_part& child : part.children) children.emplace_back(field(child));
    const auto list = builder_.CreateVector(children);
    const auto name = builder_.CreateSharedString(part.name);
    const auto of = type(part);
    flatbuffers::uoffset_t dictionary = 0;
    if (part.dictionary) {
      const auto index = type({"", type_kind::integer, 32});
      const auto begin = builder_.StartTable();
      builder_.AddElement<std::int64_t>(slot(0), *part.dictionary, 0);
      builder_.AddOffset(slot(1), flatbuffers::Offset<void>(index));
      dictionary = builder_.EndTable(begin);
    }
    const auto begin = builder_.StartTable();
    builder_.AddOffset(slot(0), name);
    builder_.AddElement<std::uint8_t>(slot(1), 1, 0);
    builder_.AddElement<std::uint8_t>(slot(2), static_cast<std::uint8_t>(part.kind), 0);
    builder_.AddOffset(slot(3), flatbuffers::Offset<void>(of));
    if (part.dictionary) builder_.AddOffset(slot(4), flatbuffers::Offset<void>(dictionary));
    builder_.AddOffset(slot(5), list);
    return builder_.EndTable(begin);
  }

  flatbuffers::uoffset_t schema() {
    std::vector<flatbuffers::Offset<void>> fields;
    for (const arrow_part& column : columns_) fields.emplace_back(field(column));
    const auto list = builder_.CreateVector(fields);
    const auto begin = builder_.StartTable();
    builder_.AddOffset(slot(1), list);
    return builder_.EndTable(begin);
  }

  std::pair<flatbuffers::Offset<void>, std::string> record_batch(const arrow_data& data) {
    std::string body;
    std::vector<pair_of_words> nodes, buffers;
    for (const auto& [length, nulls] : data.nodes) nodes.push_back({length, nulls});
    for (const std::string& buffer : data.buffers) {
      const std::string content = with_ && !buffer.empty() ? with_(buffer) : buffer;
      const std::size_t same = shares_ ? body.find(content) : std::string::npos;
      buffers.push_back({static_cast<std::int64_t>(std::min(same, body.size())),
                         static_cast<std::int64_t>(content.size())});
      if (same != std::string::npos) continue;
      body += content;
      body.resize((body.size() + 7) / 8 * 8, '\0');
    }
    const auto node_list = builder_.CreateVectorOfStructs(nodes.data(), nodes.size());
    const auto buffer_list = builder_.CreateVectorOfStructs(buffers.data(), buffers.size());
    const auto counts = builder_.CreateVector(data.variadic_counts);
    flatbuffers::uoffset_t compression = 0;
    if (with_) {
      const auto begin = builder_.StartTable();
      builder_.AddElement<std::int8_t>(slot(0), static_cast<std::int8_t>(codec_), 0);
      compression = builder_.EndTable(begin);
    }
    const auto begin = builder_.StartTable();
    builder_.AddElement<std::int64_t>(slot(0), data.rows, 0);
    builder_.AddOffset(slot(1), node_list);
    builder_.AddOffset(slot(2), buffer_list);
    if (with_) builder_.AddOffset(slot(3), flatbuffers::Offset<void>(compression));
    if (!data.variadic_counts.empty()) builder_.AddOffset(slot(4), counts);
    return {flatbuffers::Offset<void>(builder_.EndTable(begin)), std::move(body)};
  }

  template <class Header>
  block add_message(message_kind kind, Header header, const std::string& body) {
    const auto begin = builder_.StartTable();
    builder_.AddElement<std::int16_t>(slot(0), 4, 0); // V5
    builder_.AddElement<std::uint8_t>(slot(1), static_cast<std::uint8_t>(kind), 0);
    builder_.AddOffset(slot(2), flatbuffers::Offset<void>(header));
    builder_.AddElement<std::int64_t>(slot(3), static_cast<std::int64_t>(body.size()), 0);
    std::string metadata = finish(builder_.EndTable(begin));
    metadata.resize((metadata.size() + 7) / 8 * 8 + shift_, '\0');
    const auto size = static_cast<std::uint32_t>(metadata.size());
    const block b{magic_size + static_cast<std::int64_t>(text_.size()), static_cast<std::int64_t>(size) + 8,
                  static_cast<std::int64_t>(body.size())};
    text_ += raw_bytes(std::vector<std::uint32_t>{0xffffffff, size}) + metadata + body;
    return b;
  }

  std::vector<arrow_part> columns_;
  flatbuffers::FlatBufferBuilder builder_;
  std::string text_;
  std::size_t schema_size_ = 0;
  std::vector<block> dictionaries_;
  std::vector<block> batches_;
  int codec_ = 0;
  compressor with_ = nullptr;
  std::size_t shift_ = 0;
  bool shares_ = false;
};

} // namespace feedline::test
