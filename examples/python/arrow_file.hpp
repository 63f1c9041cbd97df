// SPDX-License-Identifier: MIT
#pragma once
// Rows of Arrow files, and the encoded files in them as Hugging Face's data sets have them: bytes, or structs {bytes, path}.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <feedline/arrow.hpp>
#include <feedline/feedline.hpp>

#include "composed.hpp"
#include "parts.hpp"

using arrow_record_row = feedline::arrow_row<feedline::arrow_record>;

/// The first of the columns that a row has, and its value: names are separated by ";".
inline std::pair<std::string_view, const feedline::arrow_value&> column_of(const arrow_record_row& row,
                                                                           std::string_view names) {
  std::string_view column;
  const auto* const found = first_of(names, [&](std::string_view name) { return row->find(column = name); });
  if (found) return {column, *found};
  std::string there;
  for (const auto& [name, value] : *row) there += (there.empty() ? "" : ", ") + std::string(name);
  throw std::runtime_error("the row has no column `" + std::string(names) + "`, only " + there);
}

inline bool is_text(feedline::arrow_type type) {
  using enum feedline::arrow_type;
  return type == utf8 || type == large_utf8 || type == utf8_view;
}

/// The name of a file that a row has instead of its contents; relative ones begin in the folder of the Arrow file.
inline std::string path_in_row(std::string_view path, const std::string& arrow_file) {
  return (std::filesystem::path(arrow_file).parent_path() / path).string();
}

/// The contents of a file in a column: bytes, a struct {bytes, path}, or a text that names the file. What is only named is read.
class file_in_row {
 public:
  file_in_row(const feedline::arrow_value& value, const std::string& arrow_file) {
    using bytes = std::optional<std::span<const std::byte>>;
    using text = std::optional<std::string_view>;
    bytes there;
    text path;
    if (value.type() == feedline::arrow_type::structure) {
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string& name = value.field()->children[i].name;
        if (name == "bytes") there = value[i].as<bytes>();
        else if (name == "path") path = value[i].as<text>();
      }
    } else if (is_text(value.type())) {
      path = value.as<text>();
    } else {
      there = value.as<bytes>();
    }
    if (there) {
      view_ = *there;
    } else {
      if (!path) throw std::runtime_error("the row has neither the file's bytes nor its path");
      const std::string name = path_in_row(*path, arrow_file);
      if (path->empty()) throw std::runtime_error("the row's path is empty");
      read_ = read_named_file(name);
      view_ = read_;
    }
  }

  file_in_row(file_in_row&&) = delete;

  std::span<const std::byte> bytes() const noexcept { return view_; }

 private:
  std::span<const std::byte> view_;
  std::vector<std::byte> read_;
};

/// The Arrow files in a folder, as Hugging Face's save_to_disk() writes them: data-*.arrow, or else *.arrow. Empty if there are none.
inline std::string arrow_files_in(const std::string& folder) {
  std::error_code error;
  std::string escaped, found; // wildcards in the folder's name stand for themselves
  for (const char c : folder)
    escaped += std::string_view("*?[").find(c) != std::string_view::npos ? std::string{'[', c, ']'}
                                                                         : std::string(1, c);
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() != ".arrow") continue;
    if (entry->path().filename().string().starts_with("data-")) return escaped + "/data-*.arrow";
    found = escaped + "/*.arrow";
  }
  return found;
}

/// Names of Arrow files, in which a folder stands for the files in it.
inline feedline::file_patterns arrow_files_of(const feedline::file_patterns& names) {
  std::vector<std::string> all;
  for (const std::string& name : names.names()) {
    std::string inside = arrow_files_in(name);
    all.push_back(inside.empty() ? name : std::move(inside));
  }
  return feedline::file_patterns(all);
}

/// A row as Python has it, without the column `without`.
pybind11::dict dict_of(const arrow_record_row& row, std::string_view without = {});

/// A source of rows.
composed arrow_rows(const feedline::file_patterns& files, const std::vector<std::string>& columns,
                    bool shuffle, const feedline::callback<std::string>& on_notice,
                    std::size_t max_row_bytes = feedline::arrow_options().max_row_bytes);
