// SPDX-License-Identifier: MIT
// Reads libFuzzer's bytes as a file, by position, and through a pipe. Start it with the files of data/arrow
// as its corpus: fuzz_arrow NEW_FOLDER data/arrow/golden/* data/arrow/corrupt-* data/arrow/audio
#include <feedline/arrow.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/arrow_values.hpp"

namespace fl = feedline;

namespace {

constexpr int most_rows = 200;

std::string name_of(int file) { return "/proc/self/fd/" + std::to_string(file); }

template <class Row, class Look>
void go_through(const std::string& path, const std::vector<std::string>& columns, Look look) {
  auto source = fl::arrow_rows<Row>({path}, columns, {.concatenated = true}).source();
  source.start_epoch({});
  for (int left = most_rows; left > 0; --left) {
    try {
      const auto row = source.next();
      if (!row) break;
      look(**&*row);
    } catch (const fl::arrow_error&) {
    }
  }
}

template <class T>
void go_through_as(const std::string& path, const std::string& column) {
  static volatile std::uint64_t sum = 0;
  go_through<std::optional<T>>(path, {column}, [&](const std::optional<T>& value) {
    if constexpr (requires { value->size(); }) {
      if (value)
        for (const auto& element : *value)
          sum = sum + static_cast<std::uint64_t>(element != std::ranges::range_value_t<T>());
    } else {
      sum = sum + (value ? static_cast<std::uint64_t>(*value != T()) : 0);
    }
  });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto layout = fl::detail::layout_reader::read(std::as_bytes(std::span(data, size)));
  if (layout.schema.columns.empty()) return 0;

  static const int file = ::memfd_create("fuzz", 0);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<::ssize_t>(size)) return 0;
  const std::string path = name_of(file);
  std::size_t values = 0;
  const auto look = [&](const fl::arrow_value& value) { fl::test::look_at_all(value, values); };

  go_through<fl::arrow_record>(path, {}, [&](const fl::arrow_record& record) {
    for (const auto& [name, value] : record) look(value);
  });
  for (std::size_t i = 0; i < std::min<std::size_t>(layout.schema.columns.size(), 4); ++i) {
    const fl::arrow_field& column = layout.schema.columns[i];
    go_through<fl::arrow_value>(path, {column.name}, look);
    const auto rows = fl::arrow_rows<fl::arrow_value>({path}, {column.name}).source().indexed();
    const std::uint64_t step = std::max<std::uint64_t>(1, rows.size() / 20);
    for (std::uint64_t place = 0; place < rows.size(); place += step) {
      try {
        const auto row = rows.at(place);
        look(**&row);
      } catch (const fl::arrow_error&) {
      }
    }
    go_through_as<std::int64_t>(path, column.name);
    go_through_as<double>(path, column.name);
    go_through_as<std::string_view>(path, column.name);
    go_through_as<std::span<const std::int32_t>>(path, column.name);
    go_through_as<std::span<const std::byte>>(path, column.name);
    go_through_as<std::string>(path, column.name);
    go_through_as<std::vector<double>>(path, column.name);
    go_through_as<std::vector<std::vector<std::optional<std::int64_t>>>>(path, column.name);
    go_through_as<std::vector<std::pair<std::string, std::optional<std::int64_t>>>>(path, column.name);
    go_through_as<std::array<std::int32_t, 4>>(path, column.name);
    go_through_as<std::chrono::sys_time<std::chrono::nanoseconds>>(path, column.name);
    go_through_as<std::chrono::local_time<std::chrono::nanoseconds>>(path, column.name);
    go_through_as<std::chrono::nanoseconds>(path, column.name);
    if (!column.children.empty())
      go_through<fl::arrow_value>(path, {column.name + "." + column.children[0].name}, look);
  }

  int ends[2];
  if (size <= 65536 && ::pipe(ends) == 0) {
    const bool is_written = ::write(ends[1], data, size) == static_cast<::ssize_t>(size);
    const std::string pipe = name_of(ends[0]);
    auto source = fl::arrow_rows<fl::arrow_value>({pipe}, {layout.schema.columns[0].name}).source();
    source.start_epoch({});
    ::close(ends[1]);
    for (int left = is_written ? most_rows : 0; left > 0; --left) {
      try {
        const auto row = source.next();
        if (!row) break;
        look(**&*row);
      } catch (const fl::arrow_error&) {
      }
    }
    ::close(ends[0]);
  }
  return 0;
}
