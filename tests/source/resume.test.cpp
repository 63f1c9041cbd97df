// SPDX-License-Identifier: MIT
// Runs over good and damaged files of each kind are abandoned and resumed: with a buffer that holds samples
// of several files, in listed and in shuffled orders.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

constexpr int draws = 40;

/// The stages after every source here.
template <class F>
auto behind(draw& d, const circumstances& c, F to_number) {
  const std::size_t capacity = d(1, 40);
  return fl::map(to_number, fl::workers{c.workers}) |
         fl::shuffle({.capacity = capacity, .min_fill = d(0, capacity)}) | fl::batch(d(1, 7));
}

/// Files of a directory, written by `write(number)`; some are empty.
template <class Write>
void write_files(const temporary_folder& folder, const Write& write) {
  for (int i = 0; i < 6; ++i) folder.write("file-" + std::to_string(i), i == 2 ? std::string() : write(i));
}

std::string name_of(const temporary_folder& folder) { return folder / "file-*"; }

std::string shard(int number) {
  tar_writer tar;
  for (int i = 0; i < 5 + 3 * number; ++i) {
    tar.add(std::to_string(i) + ".txt", std::to_string(100 * number + i));
    if (number == 3 && i == 4) tar.add(std::to_string(i) + ".txt", "twice"); // a sample that fails
  }
  std::string bytes = tar.closed();
  if (number == 4) bytes.resize(bytes.size() - 2000); // cut off
  return bytes;
}

} // namespace

TEST_CASE("Lines are resumed") {
  const temporary_folder folder;
  write_files(folder, [](int number) {
    std::string text;
    for (int line = 0; line < 4 * number + 1; ++line) text += std::to_string(100 * number + line) + "\r\n";
    return text + "7";
  });
  leave_and_resume("lines", draws, [&](draw& d, const circumstances& c) {
    return fl::lines({name_of(folder)}) | behind(d, c, [](const std::string& s) { return std::stoi(s); });
  });
}

TEST_CASE("Records are resumed, with files that end in an incomplete record") {
  const temporary_folder folder;
  write_files(folder, [](int number) { return std::string(static_cast<std::size_t>(22 * number + 6), 'a'); });
  leave_and_resume("records", draws, [&](draw& d, const circumstances& c) {
    return fl::records<std::uint32_t>({name_of(folder)}) |
           behind(d, c, [](std::uint32_t, fl::context& context) {
             return context.index + context.random.below(5);
           });
  });
  leave_and_resume("shuffled records", draws, [&](draw& d, const circumstances& c) {
    return fl::records<std::uint32_t>({name_of(folder)}) | fl::global_shuffle() |
           behind(d, c, [](std::uint32_t, fl::context& context) {
             return context.index + context.random.below(5);
           });
  });
}

TEST_CASE("TAR shards are resumed, with damaged ones") {
  const temporary_folder folder;
  write_files(folder, shard);
  const auto text = [](const fl::tar_sample& s) { return std::stoi(std::string(s.text("txt"))); };
  leave_and_resume("shards", draws, [&](draw& d, const circumstances& c) {
    return fl::tar_samples(name_of(folder)) | behind(d, c, text);
  });
  leave_and_resume("shuffled shards", draws, [&](draw& d, const circumstances& c) {
    return fl::tar_samples(name_of(folder)) | fl::global_shuffle() | behind(d, c, text);
  });
}

TEST_CASE("Names of files are resumed") {
  const temporary_folder folder;
  write_files(folder, [](int number) { return std::to_string(number); });
  leave_and_resume("files", draws, [&](draw& d, const circumstances& c) {
    return fl::files(folder.path()) | behind(d, c, [](const std::string& s) { return s.back() - '0'; });
  });
}

TEST_CASE("generate is resumed by calling its function again") {
  leave_and_resume("generate", draws, [&](draw& d, const circumstances& c) {
    const std::uint64_t size = d(1, 60);
    return fl::generate(
               [n = std::uint64_t{0}, size](fl::context& context) mutable -> std::optional<std::uint64_t> {
                 if (n == size) return std::nullopt;
                 if (++n % 10 == 0) throw std::runtime_error("no tenth");
                 return n * 10 + context.random.below(10);
               }) |
           behind(d, c, [](std::uint64_t n) { return n; });
  });
}
