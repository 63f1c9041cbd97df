// SPDX-License-Identifier: MIT
#pragma once
// All definitions of arrow/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/arrow/detail/array.ipp>
#include <feedline/arrow/detail/decimal.ipp>
#include <feedline/arrow/detail/format_tables.ipp>
#include <feedline/arrow/detail/indexed_rows.ipp>
#include <feedline/arrow/detail/layout.ipp>
#include <feedline/arrow/detail/loaded_batch.ipp>
#include <feedline/arrow/detail/mapped_table.ipp>
#include <feedline/arrow/detail/message.ipp>
#include <feedline/arrow/detail/pipe.ipp>
#include <feedline/arrow/detail/piped_table.ipp>
#include <feedline/arrow/detail/read_array.ipp>
#include <feedline/arrow/detail/type_layout.ipp>
#include <feedline/arrow/detail/wanted_columns.ipp>
#include <feedline/arrow/row.ipp>
#include <feedline/arrow/schema.ipp>
#include <feedline/arrow/value.ipp>
