// SPDX-License-Identifier: MIT
// Reads libFuzzer's bytes as a TAR shard, as text, as records, and as kept indices of fixed files. What is read in order and
// by position must agree, also on errors. Start it with small files of data/tar and data/text and with index files as
// the corpus.
#include <feedline/feedline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/source/detail/line_index.hpp>
#include <feedline/source/detail/tar_index.hpp>

#include "support/expect.hpp"
#include "support/fuzz_input.hpp"
#include "support/memory_store.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

void read_shard(std::string_view bytes, const std::string& path) {
  const bool hidden = bytes.size() % 2 == 0, concatenated = bytes.size() % 3 == 0;
  const fl::tar_samples shard(
      path, {.hidden = hidden, .concatenated = concatenated, .on_notice = [](const std::string&) {}});
  const auto in_order = results_in_order<fl::tar_error>(path, shard);
  expect(results_by_position<fl::tar_error>(path, shard.indexed()) == in_order);

  fl::tar_samples left = shard; // a copy continues where the source is
  left.start_epoch({});
  std::size_t before = bytes.size() % 5;
  const auto first = results<fl::tar_error>(path, [&] { return before-- > 0 ? left.next() : std::nullopt; });
  fl::tar_samples copy = left;
  auto all = first;
  for (std::string& text : results<fl::tar_error>(path, [&] { return copy.next(); }))
    all.push_back(std::move(text));
  all.resize(std::min<std::size_t>(all.size(), 200));
  expect(all == in_order);

  const auto store = std::make_shared<memory_store>(700, 2100);
  store->put("mem://s.tar", std::string(bytes));
  const fl::tar_samples object("mem://s.tar", {.remote = store,
                                               .hidden = hidden,
                                               .concatenated = concatenated,
                                               .on_notice = [](const std::string&) {}});
  const auto of_object = results_in_order<fl::tar_error>("mem://s.tar", object);
  for (const std::string& text : of_object)
    if (text.find(" is a hard link to ") != text.npos) return; // which only a file can follow
  expect(of_object == in_order);
  expect(results_by_position<fl::tar_error>("mem://s.tar", object.indexed()) == in_order);
}

void read_text(std::string_view bytes, const std::string& path) {
  const std::size_t most = bytes.size() % 3 == 0 ? 10 : 0;
  const auto source = fl::indexed_lines(path, {.max_line_bytes = most}).source();
  const auto in_order = results_in_order<std::runtime_error, std::length_error>(path, source);
  expect(results_by_position<std::runtime_error, std::length_error>(path, source.indexed()) == in_order);
}

void read_records(std::string_view bytes, const std::string& path) {
  const auto source = fl::records(path, 1 + bytes.size() % 70).source();
  const auto text = [](auto record) {
    return record ? std::optional(std::string(reinterpret_cast<const char*>(record->data()), record->size()))
                  : std::nullopt;
  };
  auto in_order = source;
  in_order.start_epoch({});
  const auto places = source.indexed();
  std::uint64_t place = 0;
  expect(results<std::runtime_error>(path, [&] { return text(in_order.next()); }) ==
         results<std::runtime_error>(path, [&] {
           return text(place < places.size() ? std::optional(places.at(place++)) : std::nullopt);
         }));
}

// Their checksum is corrected, as few of libFuzzer's would be right.
void read_indices(std::string_view bytes) {
  std::vector<std::uint64_t> words(bytes.size() / 8);
  if (words.size() < 2) return;
  std::memcpy(words.data(), bytes.data(), 8 * words.size());
  words.back() = fl::detail::checksum_of(std::span(words).first(words.size() - 1));
  const auto kept = fl::detail::words_of_index(std::as_bytes(std::span(words)));

  static const temporary_folder folder;
  static const std::string archive = tar_writer(tar_dialect::gnu)
                                         .add("a.txt", "one")
                                         .add("a.cls", "1")
                                         .pax({{"path", "b.txt"}, {"size", "3"}})
                                         .add("x", "two")
                                         .long_name(std::string(120, 'n'))
                                         .add("n", std::string(600, 'n'))
                                         .pax({{"comment", "all"}}, 'g')
                                         .add("y", "last")
                                         .closed();
  static const auto shard = std::make_shared<const fl::detail::mapped_file>(folder.write("s.tar", archive));
  const fl::detail::tar_settings settings{};
  if (const auto index = fl::detail::from_words(kept)) {
    std::size_t i = 0;
    static_cast<void>(results<fl::tar_error>(shard->path(), [&] {
      return i < index->begins.size() ? std::optional(fl::detail::sample_at(shard, settings, *index, i++))
                                      : std::nullopt;
    }));
  }
  static const auto text =
      std::make_shared<const fl::detail::mapped_file>(folder.write("t", "a\nbc\n\ndef\r\n\nthe last"));
  auto index = fl::detail::line_index_from(kept, kept.size() > 3 ? kept[3] : 0);
  if (!index || index->bytes != text->bytes().size()) return;
  std::uint64_t line = 0;
  static_cast<void>(results<std::runtime_error>(text->path(), [&] {
    return line < index->lines ? std::optional(std::string(fl::detail::find_line(*text, *index, line++).text))
                               : std::nullopt;
  }));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string path = path_of(bytes);
  read_shard(bytes, path);
  read_text(bytes, path);
  read_records(bytes, path);
  read_indices(bytes);
  return 0;
}
