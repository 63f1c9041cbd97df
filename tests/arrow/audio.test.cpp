// SPDX-License-Identifier: MIT
// Tables of audio clips that another implementation wrote.
#include <feedline/arrow.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/source/files.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/testing.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/test_data.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

struct clip {
  std::span<const std::byte> audio;
  std::int64_t label;
  std::optional<std::string_view> name;
};

struct named_clip {
  std::span<const std::byte> audio;
  std::string_view path;
  std::int64_t label;
  std::optional<std::string_view> name;
};

std::string contents(const std::string& path) {
  const auto bytes = fl::read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string last_part(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

struct comparison {
  std::size_t rows = 0, nulls = 0;
};

/// Compares rows with their files, which the rows name.
comparison compare_with_files(const std::string& files, const std::string& folder) {
  comparison h;
  for (const auto& row :
       collect((fl::arrow_rows<named_clip>({files}, {"audio.bytes", "audio.path", "label", "name"}) |
                fl::prefetch(8))
                   .finite())) {
    INFO(row.origin());
    const std::string name = last_part(row->path);
    CHECK(text_of(row->audio) == contents(folder + "/" + name));
    CHECK(row->label == name[0] - '0');
    if (row->name) CHECK(last_part(*row->name) == name);
    h.nulls += !row->name;
    ++h.rows;
  }
  return h;
}

} // namespace

TEST_CASE("tables as Hugging Face writes them contain the exact bytes of the clips", "[shared]") {
  const auto tables = test_data("arrow/audio"), clips = test_data("audio/spoken-digits");
  if (!tables || !clips) return;
  for (const char* name : {"digits-hf-000.arrows", "digits-hf-000.arrow"}) {
    const comparison h = compare_with_files(*tables + "/" + name, *clips);
    CHECK(h.rows == 120);
    CHECK(h.nulls == 16);
  }
}

TEST_CASE("flat tables contain the exact bytes of the clips, and nulls for missing names", "[shared]") {
  const auto tables = test_data("arrow/audio"), clips = test_data("audio/spoken-digits");
  if (!tables || !clips) return;
  // Clips without a name must be among these.
  std::map<std::string, std::string> by_contents;
  for (const auto& path : collect((fl::files(*clips, "*.wav") | fl::prefetch(8)).finite()))
    by_contents[contents(path)] = last_part(path);
  const auto streams = fl::arrow_rows<clip>({*tables + "/digits-flat-*.arrows"}, {"audio", "label", "name"});
  std::size_t rows = 0, nulls = 0;
  for (const auto& row : collect((streams | fl::prefetch(8)).finite())) {
    INFO(row.origin());
    const auto found = by_contents.find(std::string(text_of(row->audio)));
    REQUIRE(found != by_contents.end());
    CHECK(row->label == found->second[0] - '0');
    if (row->name) CHECK(last_part(*row->name) == found->second);
    nulls += !row->name;
    ++rows;
  }
  CHECK(rows == 300);
  CHECK(nulls > 0);
  const auto plain = [](const auto& row) { return std::pair(std::string(text_of(row->audio)), row->label); };
  const auto file = fl::arrow_rows<clip>({*tables + "/digits-flat-001.arrow"}, {"audio", "label", "name"});
  const auto stream = fl::arrow_rows<clip>({*tables + "/digits-flat-001.arrows"}, {"audio", "label", "name"});
  CHECK(collect((file | fl::map(plain)).finite()) == collect((stream | fl::map(plain)).finite()));
}

TEST_CASE("workers read clips in any order, and batches have labels and a mask for missing names",
          "[shared]") {
  const auto tables = test_data("arrow/audio");
  if (!tables) return;

  struct example {
    std::int64_t label;
    std::optional<std::uint64_t> length_of_name;
    std::uint64_t bytes;
  };

  const auto make = [](const fl::arrow_row<clip>& row) {
    return example{row->label, row->name ? std::optional<std::uint64_t>(row->name->size()) : std::nullopt,
                   row->audio.size()};
  };
  const auto rows = fl::arrow_rows<clip>({*tables + "/digits-flat-*.arrows"}, {"audio", "label", "name"});
  for (const std::size_t workers : {1u, 64u}) {
    const auto p = rows | fl::global_shuffle() | fl::map(make, fl::workers{workers}) | fl::batch(32);
    std::size_t size = 0, labels = 0, names = 0, bytes = 0;
    for (const auto& batch : p.finite({.seed = 3})) {
      size += batch.size();
      for (const auto label : batch.get<&example::label>()) labels += static_cast<std::size_t>(label);
      for (const bool valid : batch.get<&example::length_of_name>().valid) names += valid;
      for (const auto b : batch.get<&example::bytes>()) bytes += b;
    }
    CHECK(size == 300);
    CHECK(labels > 0);
    CHECK(names == 300 - 41);
    CHECK(bytes == 998'748 + 1'001'420);
  }
}
