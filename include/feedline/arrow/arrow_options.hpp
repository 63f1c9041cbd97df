// SPDX-License-Identifier: MIT
#pragma once
// The options of arrow_rows.
#include <cstddef>
#include <string>

#include <feedline/core/callback.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of arrow_rows.
struct arrow_options {
  /// The most bytes that the columns of a record batch take in addition to the file: decompressed data, and copies of
  /// numbers that aren't aligned in the file. Also the limit for all dictionaries of a file together. The rows of a batch
  /// that needs more are errors.
  std::size_t max_batch_bytes = std::size_t{1} << 30;

  /// The most bytes that the std::string and std::vector fields of a row own together, for which a text of a dictionary
  /// counts each time that a list refers to it; a row with more is an error. Also the limit for a memory_budget.
  std::size_t max_row_bytes = std::size_t{1} << 28;

  /// Also read the streams that follow the end mark of the first one in a file or a pipe: those of `cat a.arrows b.arrows`.
  /// They must have the same columns. Without it they are left out, with a notice.
  bool concatenated = false;

  /// Called by a thread of the run if data follow the end mark of a stream (see `concatenated`), with a sentence that names
  /// the file and the number of bytes; for the first such file only. By default the sentence goes to stderr.
  callback<std::string> on_notice{};
};

} // namespace feedline::inline FEEDLINE_ABI
