// SPDX-License-Identifier: MIT
#pragma once
// The data of a column in one record batch: views of the batch's buffers, none of which is left.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline v0::detail {

struct arrow_array;

/// The values that a dictionary has for a record batch, and what they lie in.
struct arrow_dictionary {
  std::vector<std::shared_ptr<const arrow_array>> parts;
  std::vector<std::uint64_t> ends; ///< of each part, the number of values up to there

  std::uint64_t size() const noexcept { return ends.empty() ? 0 : ends.back(); }
};

/// A place in an array.
struct arrow_place {
  const arrow_array* array = nullptr;
  std::uint64_t at = 0;
};

/// What a column has in a batch. When it is made its buffers are as long as its length needs, and its children as long
/// as it needs them; numbers that lie in the buffers (offsets, places in a dictionary) are checked when they are used.
/// So each place is below `length`.
struct arrow_array {
  const arrow_field* field = nullptr;
  std::uint64_t length = 0;
  std::span<const std::byte> valid; ///< a bit for each; empty: none is null
  std::span<const std::byte> values;
  std::span<const std::byte> offsets;
  std::vector<arrow_array> children; ///< of a struct that only a part is wanted of: that one
  std::shared_ptr<const arrow_dictionary> dictionary;

  static bool bit(std::span<const std::byte> bits, std::uint64_t at) noexcept {
    return (std::to_integer<unsigned>(bits[static_cast<std::size_t>(at / 8)]) >> (at % 8) & 1) != 0;
  }

  bool is_null(std::uint64_t at) const noexcept {
    return field->type == arrow_type::null || (!valid.empty() && !bit(valid, at));
  }

  bool has_large_offsets() const noexcept {
    return field->type == arrow_type::large_utf8 || field->type == arrow_type::large_binary ||
           field->type == arrow_type::large_list;
  }

  template <class T>
  T number(std::uint64_t at) const noexcept {
    return load<T>(values.data() + static_cast<std::size_t>(at) * sizeof(T));
  }

  /// Where a list's elements are, or a text's bytes. Throws arrow_error if that is beyond `limit`.
  std::pair<std::uint64_t, std::uint64_t> range(std::uint64_t at, std::uint64_t limit) const {
    const auto [begin, end] = has_large_offsets() ? range_of<std::int64_t>(at) : range_of<std::int32_t>(at);
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > limit)
      throw arrow_error("its offsets " + std::to_string(begin) + " and " + std::to_string(end) +
                        " aren't within the " + std::to_string(limit) + " that there are");
    return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)};
  }

  /// Those of a text, or of bytes.
  std::span<const std::byte> bytes(std::uint64_t at) const {
    if (field->type == arrow_type::fixed_size_binary)
      return values.subspan(static_cast<std::size_t>(at) * field->bytes, field->bytes);
    const auto [begin, end] = range(at, values.size());
    return values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  /// Of a list: where its elements are among its child's.
  std::pair<std::uint64_t, std::uint64_t> elements(std::uint64_t at) const {
    return range(at, children.front().length);
  }

 private:
  template <class Offset>
  std::pair<std::int64_t, std::int64_t> range_of(std::uint64_t at) const noexcept {
    const std::byte* const begin = offsets.data() + static_cast<std::size_t>(at) * sizeof(Offset);
    return {load<Offset>(begin), load<Offset>(begin + sizeof(Offset))};
  }
};

/// Which of a dictionary's values a row has.
inline std::int64_t dictionary_index(const arrow_array& array, std::uint64_t at) {
  const bool is_signed = array.field->is_signed;
  switch (array.field->bits) {
  case 8:
    return is_signed ? array.number<std::int8_t>(at) : array.number<std::uint8_t>(at);
  case 16:
    return is_signed ? array.number<std::int16_t>(at) : array.number<std::uint16_t>(at);
  case 32:
    return is_signed ? array.number<std::int32_t>(at) : std::int64_t{array.number<std::uint32_t>(at)};
  default:
    return array.number<std::int64_t>(at); // unsigned ones beyond it are negative, and refused as such
  }
}

/// Where the value is, which for a dictionary is elsewhere; no array: it is null.
inline arrow_place value_at(arrow_place place) {
  for (;;) {
    if (place.array->is_null(place.at)) return {};
    if (place.array->field->type != arrow_type::dictionary) return place;
    const arrow_dictionary& dictionary = *place.array->dictionary;
    const std::int64_t index = dictionary_index(*place.array, place.at);
    if (index < 0 || static_cast<std::uint64_t>(index) >= dictionary.size())
      throw arrow_error("it is value " + std::to_string(index) + " of a dictionary that has " +
                        std::to_string(dictionary.size()));
    const auto wanted = static_cast<std::uint64_t>(index);
    const auto part = static_cast<std::size_t>(
        std::upper_bound(dictionary.ends.begin(), dictionary.ends.end(), wanted) - dictionary.ends.begin());
    place = {dictionary.parts[part].get(), wanted - (part == 0 ? 0 : dictionary.ends[part - 1])};
  }
}

/// The type that values have, which for a dictionary is that of its values.
inline const arrow_field& value_field(const arrow_field& field) {
  return field.type == arrow_type::dictionary ? value_field(field.children.front()) : field;
}

} // namespace feedline::inline v0::detail
