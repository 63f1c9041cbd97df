// SPDX-License-Identifier: MIT
#pragma once
// arrow_rows: a source of the rows of Arrow files, with typed fields.
#include <feedline/arrow/arrow_options.hpp>
#include <feedline/arrow/detail/rows_source.hpp>
#include <feedline/arrow/row.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Yields the rows of Arrow IPC files and streams (Hugging Face's `data-*.arrow`, Feather V2, `.arrow`,
/// `.arrows`), one file after another. Each shuffled epoch has its own order of files; the rows of a file
/// stay in order.
///
/// Takes:   names of files, each of which may be a pattern such as `data-*.arrow`; and for each field of Row
///          the name of a column: `label`, or `audio.bytes` for a part of a struct. A Row is a plain struct,
///          a pair or a tuple of at most 64 fields, or a single field:
///          - std::span<const std::byte> for binary, fixed_size_binary and the text types; also
///            for a struct with such a part `bytes`, as Hugging Face stores audio and images;
///          - std::string_view, or std::string, for utf8; also for large_utf8 and utf8_view, as all types of texts,
///            bytes and lists include their large forms and views;
///          - integers, float, double and float16 for columns of numbers, if they hold every value of the
///            column's type exactly (so an int32 can be read as std::int64_t, std::int32_t and double, but
///            not as float); bool for bool;
///          - for dates, times, timestamps and durations an integer that holds them, which counts the units of
///            the column's type (arrow_field::unit of an arrow_value); or the std::chrono type with that unit or a
///            finer one: sys_time for dates and timestamps with a timezone, which count in UTC, local_time for
///            dates and timestamps without one, a std::chrono::duration for times of the day and durations;
///          - for decimals std::string, their exact text, or double, the nearest number;
///          - std::span<const T> for lists of exactly that number type, std::vector<T> for lists of any of these types,
///            std::array<T, N> for fixed_size_list<T, N>; std::vector<std::pair<Key, Value>> for maps;
///          - std::array<std::byte, N> for fixed_size_binary<N>;
///          - arrow_value for any of these, for structs, and for lists of any type;
///          - std::optional of any of these if the column may have nulls; also for a column of type null.
///
///          An arrow_record has as many arrow_values as columns are named, or with an empty list all columns of each file.
///
///          A dictionary is read as the type of its values. Other columns of the file are ignored, also those of
///          other types (intervals, unions, run-end encoded values, list_view), and aren't decompressed
/// Gives:   arrow_row<Row>. index() is `position of its file in the list << 40 | row in the file`. std::string_view and
///          std::span are views of the mapped file, or of the decompressed record batch if the file is
///          compressed. std::string and std::vector are copies, which a memory_budget counts with their largest size
///          (max_row_bytes)
/// Order:   file by file as listed; in infinite mode, and with several epochs, a new order of files in each
///          epoch. With global_shuffle() downstream, a random order over all rows of all files: to find them,
///          only message headers are read. (With compressed files nearly every row then decompresses a whole
///          record batch.)
/// Throws:  immediately std::invalid_argument for an empty list of files, a file that is listed twice, a negative limit,
///          or if the number of columns isn't the number of fields, std::runtime_error for a pattern that matches no file.
///          next() throws arrow_error, each at the position of its cause:
///          - for a file that can't be opened, isn't Arrow data, is big-endian, or lacks a column or has it
///            with another type; the message lists the file's columns, and the next file follows;
///          - for a row with a null where Row has no std::optional, with damaged data, a time that the
///            std::chrono type can't hold, or data that would take more memory than the options allow; the next row follows;
///          - for a damaged or cut off file, after all complete record batches before the damage
///
///          The format has no checksums, but LZ4 and ZSTD may have them, which are compared for the columns that are
///          read: elsewhere a changed byte may give another value without an error
/// Stops:   immediately, also while it waits for a pipe
/// Example: `struct clip { std::span<const std::byte> audio; std::optional<std::int64_t> label; };`
///          `arrow_rows<clip>("digits-*.arrow", {"audio.bytes", "label"}) | map([](const auto& row) {
///          return decode(row->audio); }, workers{8})`
///
/// What follows the end mark of a stream is left out, with a notice, unless `concatenated` is set: see arrow_options, which
/// also limits the memory that batches and rows take.
///
/// Pipes and /dev/stdin are read from beginning to end, also after the end mark of a stream. Each of their rows keeps its
/// record batch in memory, and a resumed run reads the earlier rows again. Files are opened and mapped when the source reaches them:
/// don't shorten a file in place during a run (SIGBUS). The source doesn't check whether texts are valid
/// UTF-8.
template <class Row>
auto arrow_rows(const file_patterns& files, const std::vector<std::string>& columns,
                arrow_options options = {}) {
  constexpr bool row_has_fields_that_columns_can_be_read_as = detail::row_fields<Row>::exist;
  static_assert(
      row_has_fields_that_columns_can_be_read_as,
      "feedline: a field of `Row` has a type that no Arrow column can be read as; arrow_rows lists "
      "the types. (A `Row` of several fields is a plain struct: no constructor, at most 64 fields)");
  if constexpr (row_has_fields_that_columns_can_be_read_as)
    return detail::as_pipeline(detail::rows_source<Row>(files, columns, std::move(options)));
}

} // namespace feedline::inline FEEDLINE_ABI
