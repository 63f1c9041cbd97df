// SPDX-License-Identifier: MIT
#pragma once
// All definitions of arrow/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_ARROW
#include <feedline/detail/definitions.hpp>

#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/detail/decimal.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/detail/indexed_rows.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/mapped_table.hpp>
#include <feedline/arrow/detail/message.hpp>
#include <feedline/arrow/detail/pipe.hpp>
#include <feedline/arrow/detail/piped_table.hpp>
#include <feedline/arrow/detail/read_array.hpp>
#include <feedline/arrow/detail/type_layout.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/arrow/row.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/arrow/value.hpp>
