// SPDX-License-Identifier: MIT
#pragma once
// The data of a column in one record batch, as views that stay within the batch's buffers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/type_layout.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct arrow_array;

/// A position in an array.
struct arrow_place {
  const arrow_array* array = nullptr;
  std::uint64_t at = 0;
};

struct arrow_dictionary;

/// The data of a column in a batch. Its reader checks that buffers and children are long enough for `length`.
/// Numbers in the buffers (offsets, dictionary indices) are checked when they are used. So every position is
/// below `length`.
struct arrow_array {
  const arrow_field* field = nullptr;
  std::uint64_t length = 0;
  std::span<const std::byte> valid; ///< a bit per value; empty: no value is null
  std::span<const std::byte> values;
  std::span<const std::byte> offsets;
  std::vector<std::span<const std::byte>> further; ///< the buffers that views refer to
  std::vector<arrow_array> children;               ///< for a struct of which one part is read, only that part
  std::shared_ptr<const arrow_dictionary> dictionary;

  static constexpr std::size_t view_size = 16; ///< bytes

  static bool bit(std::span<const std::byte> bits, std::uint64_t at) noexcept {
    return (std::to_integer<unsigned>(bits[static_cast<std::size_t>(at / 8)]) >> (at % 8) & 1) != 0;
  }

  bool is_null(std::uint64_t at) const noexcept {
    return field->type == arrow_type::null || (!valid.empty() && !bit(valid, at));
  }

  template <class T>
  T number(std::uint64_t at) const noexcept {
    return load<T>(values.data() + static_cast<std::size_t>(at) * sizeof(T));
  }

  /// The range of a list's elements or of a text's bytes. Throws arrow_error if it ends beyond `limit`.
  std::pair<std::uint64_t, std::uint64_t> range(std::uint64_t at, std::uint64_t limit) const {
    const auto [begin, end] =
        layout_of(field->type).offset_size == 8 ? range_of<std::int64_t>(at) : range_of<std::int32_t>(at);
    if (begin < 0 || end < begin || static_cast<std::uint64_t>(end) > limit) [[unlikely]]
      refuse_range(begin, end, limit);
    return {static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end)};
  }

  /// The bytes of a text or of a binary value.
  std::span<const std::byte> bytes(std::uint64_t at) const {
    if (field->type == arrow_type::fixed_size_binary)
      return values.subspan(static_cast<std::size_t>(at) * field->bytes, field->bytes);
    if (field->type == arrow_type::utf8_view || field->type == arrow_type::binary_view) return viewed(at);
    const auto [begin, end] = range(at, values.size());
    return values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  /// The range of a list's elements in its child.
  std::pair<std::uint64_t, std::uint64_t> elements(std::uint64_t at) const {
    if (field->type == arrow_type::fixed_size_list) return {at * field->elements, (at + 1) * field->elements};
    return range(at, children.front().length);
  }

 private:
  /// A view is a size and up to 12 bytes, or a size, the first 4 bytes, the number of a buffer and an offset.
  std::span<const std::byte> viewed(std::uint64_t at) const {
    const std::byte* const view = values.data() + static_cast<std::size_t>(at) * view_size;
    const auto size = load<std::int32_t>(view);
    if (size >= 0 && size <= 12) return {view + 4, static_cast<std::size_t>(size)};
    // As std::size_t, a negative number is larger than any buffer.
    const auto number = static_cast<std::size_t>(load<std::int32_t>(view + 8));
    const auto begin = static_cast<std::size_t>(load<std::int32_t>(view + 12));
    const auto count = static_cast<std::size_t>(size);
    if (number >= further.size()) refuse_view(at);
    const auto buffer = further[number];
    if (begin > buffer.size() || count > buffer.size() - begin) refuse_view(at);
    return {buffer.data() + begin, count};
  }

  [[noreturn]] void refuse_view(std::uint64_t at) const;

  [[noreturn]] static void refuse_range(std::int64_t begin, std::int64_t end, std::uint64_t limit);

  template <class Offset>
  std::pair<std::int64_t, std::int64_t> range_of(std::uint64_t at) const noexcept {
    const std::byte* const begin = offsets.data() + static_cast<std::size_t>(at) * sizeof(Offset);
    return {load<Offset>(begin), load<Offset>(begin + sizeof(Offset))};
  }
};

/// A dictionary up to one of its parts: each batch of values that a stream adds to it is one. The parts before it are
/// shared with the dictionaries of earlier record batches.
struct arrow_dictionary {
  arrow_array values;                         ///< of the last part
  std::uint64_t before = 0;                   ///< number of values in earlier parts
  const arrow_dictionary* first = this;       ///< the first part
  const arrow_dictionary* previous = nullptr; ///< null for the first part

  arrow_dictionary() = default;
  arrow_dictionary(const arrow_dictionary&) = delete;
  arrow_dictionary& operator=(const arrow_dictionary&) = delete;

  std::uint64_t size() const noexcept { return before + values.length; }

  void follow(const arrow_dictionary& earlier) noexcept;

  /// The position of a value. Throws arrow_error if the dictionary has no such value.
  arrow_place at(std::int64_t index) const;

 private:
  // Another earlier part, so that the search for a value takes logarithmic time: the parts form a skew-binary list.
  const arrow_dictionary* far_ = this;
  std::uint64_t depth_ = 0; // number of earlier parts
};

/// The index of a row's value in its dictionary.
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
    return array.number<std::int64_t>(at); // as a negative number, a larger index is refused
  }
}

/// The position of a value; for a dictionary, in the dictionary. No array if the value is null.
inline arrow_place value_at(arrow_place place) {
  for (;;) {
    if (place.array->is_null(place.at)) return {};
    if (place.array->field->type != arrow_type::dictionary) return place;
    place = place.array->dictionary->at(dictionary_index(*place.array, place.at));
  }
}

/// Whether the values are integers: also those that count days or units of time.
inline bool has_integers(const arrow_field& field) noexcept {
  return field.type == arrow_type::integer ||
         (field.type >= arrow_type::date && field.type <= arrow_type::duration);
}

/// The type of a field's values; for a dictionary, the type of the dictionary's values.
const arrow_field& value_field(const arrow_field& field);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <string>

#include <feedline/arrow/arrow_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void arrow_array::refuse_range(std::int64_t begin, std::int64_t end, std::uint64_t limit) {
  throw arrow_error("offsets " + std::to_string(begin) + " and " + std::to_string(end) +
                    " aren't within the data, which has a length of " + std::to_string(limit));
}

FEEDLINE_INLINE void arrow_array::refuse_view(std::uint64_t at) const {
  const std::byte* const view = values.data() + static_cast<std::size_t>(at) * view_size;
  throw arrow_error("the view of " + std::to_string(load<std::int32_t>(view)) + " bytes at offset " +
                    std::to_string(load<std::int32_t>(view + 12)) + " of buffer " +
                    std::to_string(load<std::int32_t>(view + 8)) + " isn't within the column's " +
                    std::to_string(further.size()) + " buffers");
}

FEEDLINE_INLINE arrow_place arrow_dictionary::at(std::int64_t index) const {
  const auto wanted = static_cast<std::uint64_t>(index); // a negative index is larger than any dictionary
  if (wanted >= size())
    throw arrow_error("the row refers to value " + std::to_string(index) + " of a dictionary that has only " +
                      std::to_string(size()));
  const arrow_dictionary* part = this;
  while (part->before > wanted) part = part->far_->before > wanted ? part->far_ : part->previous;
  return {&part->values, wanted - part->before};
}

FEEDLINE_INLINE void arrow_dictionary::follow(const arrow_dictionary& earlier) noexcept {
  before = earlier.size();
  first = earlier.first;
  previous = &earlier;
  depth_ = earlier.depth_ + 1;
  const arrow_dictionary& far = *earlier.far_;
  far_ = earlier.depth_ - far.depth_ == far.depth_ - far.far_->depth_ ? far.far_ : &earlier;
}

FEEDLINE_INLINE const arrow_field& value_field(const arrow_field& field) {
  return field.type == arrow_type::dictionary ? value_field(field.children.front()) : field;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
