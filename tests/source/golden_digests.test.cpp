// SPDX-License-Identifier: MIT
// What each source yields, in each order, on each rank, over epochs, with failures and resumed: the same as when
// golden_digests.txt was written.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/golden_digests.hpp"
#include "support/tar_writer.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

std::vector<int> numbers(int count, int first = 0) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(first + i);
  return all;
}

/// A user's source: only next(), which throws once in each epoch.
struct counter {
  static constexpr fl::source_traits traits{.kind = "counter"};

  std::optional<int> next() {
    if (++count == 20) throw std::runtime_error("twenty");
    return count <= 61 ? std::optional(count) : std::nullopt;
  }

  int count = 0;
};

/// A user's samples by position, one of which can't be read.
struct squares {
  static constexpr fl::source_traits traits{.kind = "squares"};

  std::uint64_t size() const { return 50; }

  std::uint64_t at(std::uint64_t i) const {
    if (i == 7) throw std::runtime_error("seven");
    return i * i;
  }
};

void write_files(const temporary_folder& folder) {
  for (int file = 0; file < 5; ++file) {
    const std::string number = std::to_string(file);
    std::string text, bytes;
    tar_writer tar;
    for (int i = 0; i < 8 + 3 * file; ++i) {
      text += "line " + std::to_string(i) + " of " + number +
              (i == 5 && file == 2 ? std::string(90, '!') : "") + "\n";
      for (int byte = 0; byte < 4; ++byte) bytes += static_cast<char>(i + 31 * file + byte);
      const std::string key = "sample" + std::to_string(i);
      tar.add(key + ".txt", "text " + std::to_string(i * file)).add(key + ".cls", number);
      if (i == 6 && file == 1) tar.add(key + ".cls", "twice");
    }
    if (file == 3) bytes += "?"; // an incomplete record
    folder.write("text" + number + ".txt", text);
    folder.write("numbers" + number + ".bin", bytes);
    folder.write("shard" + number + ".tar", file == 4 ? tar.closed().substr(0, 9000) : tar.closed());
  }
}

const fl::lines_options short_lines{.max_line_bytes = 60};

void add_lists(golden_digests& golden) {
  golden.add("from", fl::from(numbers(61)));
  golden.add("from | global_shuffle", fl::from(numbers(61)) | fl::global_shuffle());
  golden.add("from | map | global_shuffle", fl::from(numbers(61)) | fl::map([](int n) {
                                              return n % 9 == 4 ? throw std::runtime_error("4") : n;
                                            }) | fl::global_shuffle());
  golden.add("from | with_replacement", fl::from(numbers(61)) | fl::with_replacement());
  golden.add("from | with_replacement by weight",
             fl::from(numbers(5)) | fl::with_replacement({.weights = {1, 2, 3, 0, 5}, .samples = 40}));
  golden.add("generate",
             fl::generate([n = 0]() mutable { return n < 52 ? std::optional(n++) : std::nullopt; }));
  golden.add("a user's source", fl::from(counter()));
  golden.add("a user's samples", fl::from(squares()));
  golden.add("a user's samples | global_shuffle", squares() | fl::global_shuffle());
}

void add_lines(golden_digests& golden) {
  golden.add("lines", fl::lines("text*.txt", short_lines));
  golden.add("lines of fewer files than ranks", fl::lines("text{2,4}.txt", short_lines));
  golden.add("lines | interleave", fl::lines("text*.txt", short_lines) | fl::interleave(3));
  golden.add("lines | map | filter", fl::lines("text*.txt") | fl::map([](const std::string& s) {
                                       return s + ".";
                                     }) | fl::filter([](const std::string& s) { return s.size() % 3 != 1; }));
  golden.add("indexed_lines", fl::indexed_lines("text*.txt", {.max_line_bytes = 60}));
  golden.add("indexed_lines | global_shuffle",
             fl::indexed_lines("text*.txt", {.max_line_bytes = 60}) | fl::global_shuffle());
  golden.add("indexed_lines | with_replacement",
             fl::indexed_lines("text*.txt", {.keep_index = true}) | fl::with_replacement());
}

void add_records(golden_digests& golden) {
  golden.add("records", fl::records<std::uint32_t>("numbers*.bin"));
  golden.add("records | interleave", fl::records<std::uint32_t>("numbers*.bin") | fl::interleave(2));
  golden.add("records | global_shuffle", fl::records<std::uint32_t>("numbers*.bin") | fl::global_shuffle());
  golden.add("records of three bytes", fl::records("numbers*.bin", 3));
  golden.add("files", fl::files(".", "*.bin"));
  golden.add("files | map | global_shuffle",
             fl::files(".", {"*.bin", "*.txt"}) | fl::map(fl::read_file) | fl::global_shuffle());
}

void add_shards(golden_digests& golden) {
  golden.add("tar_samples", fl::tar_samples("shard*.tar"));
  golden.add("tar_samples | interleave", fl::tar_samples("shard{0..3}.tar") | fl::interleave(4));
  golden.add("tar_samples | global_shuffle", fl::tar_samples("shard{0..3}.tar") | fl::global_shuffle());
  golden.add("tar_samples with a kept index | global_shuffle",
             fl::tar_samples("shard*.tar", {.keep_index = true}) | fl::global_shuffle());
}

void add_combined(golden_digests& golden) {
  const auto few = fl::from(numbers(20)), many = fl::from(numbers(46, 100));
  golden.add("concat", fl::concat(fl::lines("text{0,1}.txt"), fl::lines("text{2..4}.txt", short_lines)));
  golden.add("concat | global_shuffle", fl::concat(few, many, few) | fl::global_shuffle());
  golden.add("concat of stages", fl::concat(few | fl::map([](int n) { return n + 1; }, fl::workers{2}),
                                            many | fl::filter([](int n) { return n % 4 != 0; })));
  for (const auto end :
       {fl::when_one_ends::stop, fl::when_one_ends::continue_with_others, fl::when_one_ends::repeat})
    golden.add("mix, " + std::to_string(static_cast<int>(end)),
               fl::mix(fl::weighted(few, 1), fl::weighted(many, 2.5), fl::mix_options{.when_one_ends = end}));
  golden.add("mix of files", fl::mix(fl::weighted(fl::lines("text{0,1}.txt"), 1),
                                     fl::weighted(fl::lines("text{2..4}.txt", short_lines), 3)));
  golden.add("zip", fl::zip(fl::lines("text*.txt", short_lines), fl::records<std::uint32_t>("numbers*.bin")));
  golden.add("zip | global_shuffle", fl::zip(many, many) | fl::global_shuffle());
  golden.add("concat of mix and zip",
             fl::concat(fl::mix(fl::weighted(few, 1), fl::weighted(many, 1)),
                        fl::zip(few, many) | fl::map([](const std::pair<int, int>& p) { return p.first; })));
}

void add_stages(golden_digests& golden) {
  const auto list = fl::from(numbers(61));
  golden.add("shuffle", list | fl::shuffle({.capacity = 16, .min_fill = 8}));
  golden.add("shuffle of lines", fl::lines("text*.txt", short_lines) | fl::shuffle({.capacity = 12}));
  golden.add("global_shuffle and shuffle", list | fl::global_shuffle() | fl::shuffle({.capacity = 9}));
  golden.add("partition", fl::lines("text*.txt") | fl::partition({3, 1}, 0));
  golden.add("flat_map",
             list |
                 fl::flat_map([](int n) { return std::vector<int>(static_cast<std::size_t>(n % 4), n); },
                              fl::workers{2}) |
                 fl::shuffle({.capacity = 10}));
  golden.add("skip, take and enumerate", list | fl::skip(5) | fl::take(40) |
                                             fl::filter([](int n) { return n % 5 != 2; }) | fl::enumerate());
  golden.add("split", list | fl::split([](int n) { return n % 3 == 0; }, fl::map([](int n, fl::context& c) {
                                         return n + static_cast<int>(c.random.below(1000));
                                       }),
                                       fl::workers{2}));
  golden.add("batch", list | fl::global_shuffle() |
                          fl::map([](int n) { return n % 17 == 16 ? throw std::runtime_error("16") : n; },
                                  fl::workers{3}) |
                          fl::batch(4));
  golden.add("bucket_batch", fl::lines("text*.txt") |
                                 fl::bucket_batch({.boundaries = {11, 12}, .batch_size = 3}, fl::as_list));
  golden.add("windows", list | fl::windows(7, {.stride = 5}));
}

TEST_CASE("Sources yield what they always have") {
  golden_digests golden(FEEDLINE_GOLDEN_DIGESTS);
  const inside_temporary_folder folder;
  write_files(folder);
  add_lists(golden);
  add_lines(golden);
  add_records(golden);
  add_shards(golden);
  add_combined(golden);
  add_stages(golden);
  golden.check();
}

} // namespace
