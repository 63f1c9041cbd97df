// SPDX-License-Identifier: MIT
// Files of other implementations: their contents, and files that were made to break a reader.
#include <feedline/arrow.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/arrow_values.hpp"
#include "support/catch.hpp"
#include "support/json.hpp"
#include "support/test_data.hpp"

namespace fl = feedline;
using fl::test::json;
using fl::test::test_data;

namespace {

std::string gunzip(const std::string& path) {
  std::FILE* const pipe = ::popen(("gzip -dc '" + path + "'").c_str(), "r");
  REQUIRE(pipe);
  std::string text;
  char block[1 << 16];
  while (const std::size_t got = std::fread(block, 1, sizeof block, pipe)) text.append(block, got);
  REQUIRE(::pclose(pipe) == 0);
  return text;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all.push_back(entry.path().string());
  std::sort(all.begin(), all.end());
  return all;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02X", std::to_integer<unsigned>(b));
    text += digits;
  }
  return text;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'f') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

/// A column as described by Arrow's integration tests.
class description {
 public:
  explicit description(const json& whole) : whole_(whole) {
    if (const json* all = whole.find("dictionaries"))
      for (const json& d : all->elements) dictionaries_[d["id"].integer()] = &d["data"]["columns"][0];
  }

  const std::vector<json>& columns() const { return whole_["schema"]["fields"].elements; }

  /// Whether feedline reads this type.
  static bool is_wanted(const json& field) {
    static const std::vector<std::string_view> unwanted{"interval", "union", "listview", "largelistview",
                                                        "runendencoded"};
    const std::string& type = field["type"]["name"].text;
    if (std::find(unwanted.begin(), unwanted.end(), type) != unwanted.end()) return false;
    const auto& children = field["children"].elements;
    return std::all_of(children.begin(), children.end(), is_wanted);
  }

  /// Whether the rows are the column's rows of all batches.
  bool is_same(std::size_t number, const std::vector<fl::arrow_value>& rows) const {
    std::size_t row = 0;
    for (const json& batch : whole_["batches"].elements) {
      const json& column = batch["columns"][number];
      for (std::size_t i = 0; i < static_cast<std::size_t>(batch["count"].integer()); ++i, ++row) {
        if (row >= rows.size()) return false;
        if (is_same(columns()[number], column, i, rows[row])) continue;
        UNSCOPED_INFO("row " << row);
        return false;
      }
    }
    return row == rows.size();
  }

 private:
  bool is_same(const json& field, const json& column, std::size_t i, const fl::arrow_value& value) const {
    const std::string& type = field["type"]["name"].text;
    const json* const valid = column.find("VALIDITY");
    if (type == "null" || (valid && (*valid)[i].integer() == 0)) return value.is_null();
    if (const json* dictionary = field.find("dictionary")) {
      return is_same(field.without("dictionary"), *dictionaries_.at((*dictionary)["id"].integer()),
                     static_cast<std::size_t>(column["DATA"][i].integer()), value);
    }
    if (value.is_null()) return false;
    if (type == "struct") {
      const auto& children = field["children"].elements;
      if (value.size() != children.size()) return false;
      for (std::size_t c = 0; c < children.size(); ++c)
        if (!is_same(children[c], column["children"][c], i, value[c])) return false;
      return true;
    }
    if (type == "list" || type == "largelist" || type == "map" || type == "fixedsizelist") {
      const auto offset = [&](std::size_t at) {
        if (type == "fixedsizelist")
          return at * static_cast<std::size_t>(field["type"]["listSize"].integer());
        return static_cast<std::size_t>(column["OFFSET"][at].integer());
      };
      const auto begin = offset(i), end = offset(i + 1);
      if (value.size() != end - begin) return false;
      for (std::size_t e = begin; e < end; ++e)
        if (!is_same(field["children"][0], column["children"][0], e, value[e - begin])) return false;
      return true;
    }
    if (type == "utf8view" || type == "binaryview") {
      const json& view = column["VIEWS"][i];
      const auto bytes = value.as<std::span<const std::byte>>();
      if (const json* inlined = view.find("INLINED"))
        return type == "utf8view" ? value.as<std::string_view>() == inlined->text
                                  : hex(bytes) == upper(inlined->text);
      const auto number = static_cast<std::size_t>(view["BUFFER_INDEX"].integer());
      return hex(bytes) == upper(column["VARIADIC_DATA_BUFFERS"][number].text.substr(
                               2 * static_cast<std::size_t>(view["OFFSET"].integer()), 2 * bytes.size())) &&
             std::to_string(bytes.size()) == view["SIZE"].text;
    }
    const json& expected = column["DATA"][i];
    if (type == "decimal") return is_same_decimal(field, expected.text, value);
    if (type == "date" || type == "time" || type == "timestamp" || type == "duration")
      return std::to_string(value.as<std::int64_t>()) == expected.text &&
             to_string(*value.field()).starts_with(type);
    if (type == "bool") return value.as<bool>() == (expected.text == "true" || expected.text == "1");
    if (type == "int") {
      if (field["type"]["isSigned"].text == "true")
        return std::to_string(value.as<std::int64_t>()) == expected.text;
      return std::to_string(value.as<std::uint64_t>()) == expected.text;
    }
    if (type == "floatingpoint") // three decimals
      return std::abs(value.as<double>() - expected.real()) <= 0.0006 + 1e-6 * std::abs(expected.real());
    if (type == "utf8" || type == "largeutf8") return value.as<std::string_view>() == expected.text;
    return hex(value.as<std::span<const std::byte>>()) == upper(expected.text);
  }

  /// `digits`: without the point.
  static bool is_same_decimal(const json& field, const std::string& digits, const fl::arrow_value& value) {
    std::string text = value.as<std::string>();
    const auto point = text.find('.');
    const auto scale = static_cast<std::size_t>(field["type"]["scale"].integer());
    if (scale > 0 && (point == std::string::npos || text.size() - point - 1 != scale)) return false;
    if (scale > 0) text.erase(point, 1);
    const std::size_t sign = text.front() == '-';
    text.erase(sign, std::min(text.find_first_not_of('0', sign), text.size() - 1) - sign);
    return text == digits && std::abs(value.as<double>() * std::pow(10.0, static_cast<double>(scale)) -
                                      std::stod(digits)) <= 1e-12 * std::abs(std::stod(digits));
  }

  const json& whole_;
  std::map<long long, const json*> dictionaries_;
};

/// All values of a column, with the rows that keep them.
struct column_values {
  std::vector<fl::arrow_row<fl::arrow_value>> rows;
  std::vector<fl::arrow_value> values;
};

column_values read_column(const std::string& file, const std::string& name) {
  auto source = fl::arrow_rows<fl::arrow_value>({file}, {name}).source();
  source.start_epoch({});
  column_values all;
  while (auto row = source.next()) {
    all.values.push_back(**&*row);
    all.rows.push_back(std::move(*row));
  }
  return all;
}

/// Reads the same values by position, from last to first.
std::size_t count_backwards(const std::string& file, const std::string& name) {
  const auto rows = fl::arrow_rows<fl::arrow_value>({file}, {name}).source().indexed();
  std::size_t count = 0;
  for (std::uint64_t place = rows.size(); place-- > 0; ++count) {
    const auto row = rows.at(place);
    CHECK(row.row() == place);
  }
  return count;
}

bool is_json(const std::string& path) { return path.ends_with(".json.gz"); }

} // namespace

TEST_CASE("Arrow's integration files have the contents of their descriptions", "[shared]") {
  const auto folder = test_data("arrow/golden");
  if (!folder) return;
  std::size_t columns = 0, refused = 0;
  for (const std::string& path : files_in(*folder)) {
    if (!is_json(path)) continue;
    const json whole = json::parse(gunzip(path));
    const description expected(whole);
    const std::string stem = path.substr(0, path.size() - std::string_view(".json.gz").size());
    for (const std::string& file : {stem + ".arrow_file", stem + ".stream"}) {
      if (!std::filesystem::exists(file)) continue;
      INFO(file);
      for (std::size_t c = 0; c < expected.columns().size(); ++c) {
        const std::string& name = expected.columns()[c]["name"].text;
        INFO("column " << name);
        const bool is_v1 = file.ends_with("0.14.1/generated_decimal.arrow_file");
        if (is_v1) {
          CHECK_THROWS_WITH(read_column(file, name), Catch::Contains("only V4 and V5 are"));
          ++refused;
        } else if (path.find("bigendian") != std::string::npos) {
          CHECK_THROWS_WITH(read_column(file, name), Catch::Contains("the data is big-endian"));
          ++refused;
        } else if (!description::is_wanted(expected.columns()[c])) {
          std::string message;
          try {
            read_column(file, name);
          } catch (const fl::arrow_error& error) {
            message = error.what();
          }
          CHECK_THAT(message, Catch::Contains("column `" + name + "` is of type"));
          ++refused;
        } else {
          const column_values read = read_column(file, name);
          CHECK(expected.is_same(c, read.values));
          CHECK(count_backwards(file, name) == read.values.size());
          ++columns;
        }
      }
    }
  }
  CHECK(columns > 550);
  CHECK(refused > 250);
}

TEST_CASE("files that once broke Arrow's readers are refused or read", "[shared]") {
  std::size_t files = 0, rows = 0, refusals = 0;
  for (const char* name : {"arrow/corrupt-file", "arrow/corrupt-stream"}) {
    const auto folder = test_data(name);
    if (!folder) return;
    for (const std::string& path : files_in(*folder)) {
      INFO(path);
      ++files;
      std::ifstream stream(path, std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
      const auto layout = fl::detail::layout_reader::read(std::as_bytes(std::span(bytes)));
      std::size_t problems = !layout.problem.empty();
      for (const fl::arrow_field& column : layout.schema.columns) {
        auto source = fl::arrow_rows<fl::arrow_value>({path}, {column.name}).source();
        source.start_epoch({});
        for (int left = 2000; left > 0; --left) {
          try {
            const auto row = source.next();
            if (!row) break;
            fl::test::look_at_all(**&*row, rows);
          } catch (const fl::arrow_error& error) {
            CHECK(std::string_view(error.what()).size() > 20);
            ++problems;
          }
        }
      }
      refusals += problems > 0;
    }
  }
  CHECK(files > 70);
  CHECK(rows > 50);
  CHECK(refusals > 60);
}
