// SPDX-License-Identifier: MIT
// Reads libFuzzer's bytes as a checkpoint, as stored values, and as changes of checkpoints of small runs, which then must be
// refused or continue. Start it with checkpoints as the corpus.
#include <feedline/feedline.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/stored_value.hpp>

#include "support/expect.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

// The checksum is corrected, as few of libFuzzer's would be right.
void read_checkpoint(std::vector<std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t body = bytes.size() - std::min<std::size_t>(bytes.size(), 4);
  const std::uint32_t sum = fl::detail::checksum_of_bytes(std::span(bytes).first(body));
  for (std::size_t i = 0; body + i < bytes.size(); ++i)
    bytes[body + i] = static_cast<std::byte>(sum >> (8 * i));
  try {
    const auto checkpoint = fl::checkpoint::from_bytes(bytes);
    expect(fl::checkpoint::from_bytes(checkpoint.to_bytes()) == checkpoint);
    expect(fl::checkpoint::from_json(checkpoint.to_json()) == checkpoint);
  } catch (const std::invalid_argument&) {
  }
  try {
    static_cast<void>(fl::checkpoint::from_json(text));
  } catch (const std::invalid_argument&) {
  }
}

struct example {
  std::int16_t label = 0;
  bool is_new = false;
  std::vector<std::string> names{};
  std::array<float, 3> box{};
  fl::tensor<std::uint8_t> image{};
  fl::tensor<long double> parts{};
};

// What is read is written as the same bytes.
template <class T>
void read_value(std::span<const std::byte> bytes) {
  fl::detail::stored_bytes from(bytes);
  T value{};
  if (!fl::detail::take_stored(from, value)) return;
  fl::detail::byte_count count;
  fl::detail::store(count, value);
  expect(count.size() == bytes.size() - from.left());
  std::vector<std::byte> again(count.size());
  fl::detail::byte_copy copy(again.data());
  fl::detail::store(copy, value);
  expect(std::ranges::equal(again, bytes.first(again.size())));
}

// Each nine bytes replace a word of the run's state, or the index of a sample that a buffer held.
template <class Pipeline>
void resume(const Pipeline& pipeline, std::span<const std::byte> changes) {
  static const auto made = [&] {
    auto loader = pipeline.finite();
    for (int i = 0; i < 3; ++i) static_cast<void>(loader.next());
    return fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
  }();
  fl::detail::checkpoint_state state = made.state();
  state.at.held.clear();
  std::vector<std::uint64_t*> places;
  for (std::uint64_t& word : state.at.words) places.push_back(&word);
  for (const fl::detail::held& h : made.state().at.held) {
    fl::detail::held& copy = state.at.held.add();
    copy = h;
    for (fl::sample_id& id : copy.listed) places.push_back(&id.index);
  }
  for (; changes.size() >= 9; changes = changes.subspan(9))
    std::memcpy(places[std::to_integer<std::size_t>(changes[0]) % places.size()], &changes[1], 8);
  try {
    auto loader = pipeline.finite({.resume = fl::checkpoint(std::move(state))});
    for (int i = 0; i < 50 && loader.next(); ++i) {
    }
  } catch (const std::invalid_argument&) {
  } catch (const fl::pipeline_error&) {
  }
}

void resume_runs(std::size_t which, std::span<const std::byte> changes) {
  static const temporary_folder folder;
  static const std::string text = folder.write("a.txt", "a\nbc\n\ndef\r\n\ng\nh\ni\nj\nthe last");
  static const std::string shard = [] {
    tar_writer tar;
    for (const char* name : {"1.jpg", "1.cls", "2.jpg", "2.cls", "3.jpg", "4.jpg", "5.jpg", "6.jpg"})
      tar.add(name, name);
    return folder.write("a.tar", tar.closed());
  }();
  const auto key = [](const fl::tar_sample& sample) { return std::string(sample.key()); };
  const auto tokens = [](const std::string& line) { return std::vector<char>(line.begin(), line.end()); };
  switch (which % 5) {
  case 0:
    return resume(fl::lines({text, shard}) | fl::shuffle({.capacity = 3}) | fl::batch(2), changes);
  case 1:
    return resume(fl::tar_samples(shard) | fl::map(key) | fl::shuffle({.capacity = 2}), changes);
  case 2:
    return resume(fl::lines(text) | fl::map(tokens) | fl::windows(3), changes);
  case 3:
    return resume(fl::indexed_lines(text) | fl::global_shuffle(), changes);
  default:
    return resume(fl::records<char>({text, shard}) | fl::skip(1) | fl::batch(3), changes);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  read_checkpoint({bytes.begin(), bytes.end()});
  read_value<example>(bytes);
  read_value<std::vector<std::vector<double>>>(bytes);
  if (size >= 10) resume_runs(data[0], bytes.subspan(1));
  return 0;
}
