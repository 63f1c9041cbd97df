// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::arrow: a source of typed rows from Arrow IPC files and streams.
#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/arrow_options.hpp>
#include <feedline/arrow/row.hpp>
#include <feedline/arrow/rows.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/arrow/value.hpp>
