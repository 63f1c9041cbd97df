// SPDX-License-Identifier: MIT
#pragma once
// arrow_rows: the rows of Arrow files, with typed fields.
#include <string>
#include <vector>

#include <feedline/arrow/detail/rows_source.hpp>
#include <feedline/arrow/row.hpp>
#include <feedline/core/pipeline.hpp>

namespace feedline::inline v0 {

/// A source of the rows of Arrow IPC files and streams (Hugging Face's `data-*.arrow`, Feather V2, `.arrow`, `.arrows`),
/// one file after another; in a shuffled epoch the files come in an order of its own, the rows of each in the file's.
///
/// Takes:   names of files, each of which may be a pattern: `data-*.arrow`; and the name of a column for each field of
///          Row: `label`, or `audio.bytes` for a part of a struct. A Row is a plain struct, a pair or a tuple of at most
///          12 fields, or one such field alone:
///          - std::span<const std::byte> for binary, large_binary, fixed_size_binary and the texts; also for a struct
///            with such a part `bytes`, as Hugging Face keeps audio and images;
///          - std::string_view, or std::string, for utf8 and large_utf8;
///          - integers, float, double and float16 for columns of numbers, all of which they hold exactly (so an int32
///            can be read as std::int64_t, std::int32_t and double, but not as float); bool for bool;
///          - std::span<const T> for list and large_list of just that number;
///          - std::array<std::byte, N> for fixed_size_binary<N>;
///          - arrow_value for any of these, for structs, and for lists of anything;
///          - std::optional of any of these where the column may have nulls; also for a column of type null.
///
///          A dictionary is read as what its values are. What else the file has isn't looked at; it may be of any type
///          that the format had in 2025
/// Gives:   arrow_row<Row>. index() is `number of its file << 40 | row in the file`. Texts, bytes and lists are views of
///          the mapped file; where it is compressed, of the decompressed record batch
/// Order:   file by file as listed; in infinite mode, and with several epochs, files in a new order in each epoch. With
///          shuffled() behind it, over all rows of all files: only message headers are read to find their places. (For
///          compressed files that means a decompression of a whole record batch for nearly every row.)
/// Throws:  at once std::invalid_argument for an empty list of files or another number of columns than fields,
///          std::runtime_error for wildcards that match nothing. next() throws arrow_error, each in its place:
///          - for a file that can't be opened, is no Arrow data, is big-endian, or has no such column or one of
///            another type, which lists the columns that there are: then comes the next file;
///          - for a row that has a null where Row has no std::optional, or whose data is damaged: then the next row;
///          - for a damaged or cut off file, once all complete record batches before that have come
/// Stops:   at once, also while it waits for a pipe
/// Example: `struct clip { std::span<const std::byte> audio; std::optional<std::int64_t> label; };`
///          `arrow_rows<clip>({"digits-*.arrow"}, {"audio.bytes", "label"}) | map([](const auto& row) {
///          return decode(row->audio); }, workers{8})`
///
/// Pipes and /dev/stdin are read from beginning to end; each row then keeps its record batch in memory, and a run that
/// is resumed reads what came before again. Files are opened when they are reached, and mapped: don't shorten one in place
/// meanwhile (SIGBUS). Whether texts are valid UTF-8 isn't checked.
template <class Row>
auto arrow_rows(const std::vector<std::string>& files, const std::vector<std::string>& columns) {
  constexpr bool row_has_fields_that_columns_can_be_read_as = detail::row_fields<Row>::exist;
  static_assert(
      row_has_fields_that_columns_can_be_read_as,
      "feedline: a field of `Row` is of a type that no column of an Arrow file is read as: see arrow_rows");
  if constexpr (row_has_fields_that_columns_can_be_read_as)
    return detail::as_pipeline(detail::rows_source<Row>(files, columns));
}

} // namespace feedline::inline v0
