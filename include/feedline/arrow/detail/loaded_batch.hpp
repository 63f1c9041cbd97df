// SPDX-License-Identifier: MIT
#pragma once
// A record batch with the columns that are read, and the memory that holds their values.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/detail/decompress.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/message.hpp>
#include <feedline/arrow/detail/read_array.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The file of a row.
struct arrow_origin {
  std::string path;
  std::size_t number = 0; ///< position in the list of files
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
};

/// What all batches of a file share.
struct arrow_file {
  arrow_origin origin;
  std::shared_ptr<const arrow_layout> layout; ///< for a pipe, only its schema
  std::vector<arrow_path> paths;              ///< of the columns to read
};

/// A column of a batch, with what is known of all of its rows.
struct loaded_column {
  arrow_array array;
  /// In the array, to the part that is read; empty if that is the array itself.
  std::span<const std::size_t> path;
  bool is_direct = false; ///< the array has the values
  /// Has the values at the beginning of a dictionary, of which none is null.
  const arrow_array* first = nullptr;
};

/// Values are views of `memory`, which is the file's mapping or the batch's body, and of `own`.
struct loaded_batch {
  std::shared_ptr<const arrow_file> file;
  std::uint64_t first_row = 0; ///< in the file
  std::uint64_t rows = 0;
  std::vector<loaded_column> columns; ///< the columns to read
  std::string problem;                ///< why none of its rows can be read
  std::shared_ptr<const void> memory;
  owned_bytes own;
  bool is_compressed = false;
};

/// The values of a part of a dictionary, and the memory that holds them.
struct loaded_values {
  arrow_array array;
  std::shared_ptr<const void> memory;
  owned_bytes own;
};

/// The bytes of a message.
struct message_bytes {
  std::span<const std::byte> metadata;
  std::span<const std::byte> body;
  std::shared_ptr<const void> memory; ///< owns the bytes
};

/// The dictionaries of a file, read from their batches on first use. Not thread-safe.
class arrow_dictionaries {
 public:
  /// `bytes_of(part)` returns the message of a dictionary batch.
  template <class BytesOf>
  class finder final : public dictionary_finder {
   public:
    finder(arrow_dictionaries& all, const arrow_layout& layout, std::size_t known, const BytesOf& bytes_of)
        : all_(all), layout_(layout), known_(known), bytes_of_(bytes_of) {}

    std::shared_ptr<const arrow_dictionary> find(const arrow_field& field) override {
      const std::vector<std::size_t> parts = layout_.parts_of(field.dictionary, known_);
      if (parts.empty()) throw arrow_error("dictionary " + std::to_string(field.dictionary) + " is missing");
      const auto& known = all_.whole_[{&field, parts.back(), has_dictionaries(field) ? known_ : 0}];
      if (known) return known;
      if (!all_.in_work_.insert(field.dictionary).second)
        throw arrow_error("the dictionaries contain each other");
      const done d{all_.in_work_, field.dictionary};
      auto whole = std::make_shared<arrow_dictionary>();
      for (const std::size_t part : parts) {
        whole->parts.push_back(values_of(part, field));
        whole->ends.push_back(whole->size() + whole->parts.back()->length);
      }
      return all_.whole_[{&field, parts.back(), has_dictionaries(field) ? known_ : 0}] = std::move(whole);
    }

   private:
    struct done {
      std::set<std::int64_t>& in_work;
      std::int64_t id;

      ~done() { in_work.erase(id); }
    };

    static bool has_dictionaries(const arrow_field& field) {
      for (const arrow_field& child : field.children)
        if (child.type == arrow_type::dictionary || has_dictionaries(child)) return true;
      return false;
    }

    std::shared_ptr<const arrow_array> values_of(std::size_t part, const arrow_field& field) {
      const arrow_field& values = field.children.front();
      const std::size_t known = has_dictionaries(field) ? known_ : 0;
      auto& loaded = all_.parts_[{&field, part, known}];
      if (!loaded) {
        const message_bytes bytes = bytes_of_(part);
        const message m(bytes.metadata);
        auto made = std::make_shared<loaded_values>();
        made->memory = bytes.memory;
        made->array = array_reader(m.batch(), bytes.body, *this, made->own).read(values, m.rows());
        made->array.length = m.rows();
        loaded = std::move(made);
      }
      return {loaded, &loaded->array};
    }

    arrow_dictionaries& all_;
    const arrow_layout& layout_;
    std::size_t known_;
    const BytesOf& bytes_of_;
  };

 private:
  // The field, the last part, and the number of known parts if the values contain dictionaries.
  using key = std::tuple<const arrow_field*, std::size_t, std::size_t>;

  std::map<key, std::shared_ptr<const arrow_dictionary>> whole_;
  std::map<key, std::shared_ptr<const loaded_values>> parts_;
  std::set<std::int64_t> in_work_;
};

/// Reads a column, or the part at `path` of it, of a batch of at least `rows` rows. Throws arrow_error.
loaded_column load_column(array_reader& reader, const arrow_field& field, std::uint64_t rows,
                          const arrow_path& path);

/// Reads the columns of a record batch. An error becomes its `problem`.
std::shared_ptr<const loaded_batch> load_batch(const std::shared_ptr<const arrow_file>& file,
                                               const message_bytes& bytes, std::uint64_t first_row,
                                               std::uint64_t rows, dictionary_finder& dictionaries);

/// The same as find_value(), for any column.
arrow_place find_inner_value(const loaded_column& column, std::uint64_t row);

/// The position of a column's value in a row; no array if the value is null.
inline arrow_place find_value(const loaded_column& column, std::uint64_t row) {
  const arrow_array& array = column.array;
  if (!array.valid.empty() && !arrow_array::bit(array.valid, row)) return {};
  if (column.is_direct) [[likely]]
    return {&array, row};
  if (column.first) {
    const auto index = static_cast<std::uint64_t>(dictionary_index(array, row));
    if (index < column.first->length) return {column.first, index};
  }
  return find_inner_value(column, row);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/loaded_batch.ipp>
#endif
