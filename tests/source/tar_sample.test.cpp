// SPDX-License-Identifier: MIT
#include <feedline/source/tar_sample.hpp>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <feedline/source/tar.hpp>

#include "support/catch.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace {

using feedline::tar_error;
using feedline::tar_sample;
using feedline::tar_samples;
using feedline::test::tar_writer;
using feedline::test::temporary_folder;
using feedline::test::throws_saying;

template <class T>
concept gives_views = requires(T sample) {
  std::forward<T>(sample)["jpg"];
  std::forward<T>(sample).text("jpg");
  std::forward<T>(sample).find("jpg");
  std::forward<T>(sample).key();
};

static_assert(std::is_nothrow_move_constructible_v<tar_sample> &&
              std::is_nothrow_move_assignable_v<tar_sample>);
static_assert(gives_views<tar_sample&> && gives_views<const tar_sample&>);
static_assert(!gives_views<tar_sample> && !gives_views<const tar_sample>, "such views would dangle");

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A sample whose file and source are gone.
tar_sample sample_of(const tar_writer& tar) {
  const temporary_folder folder;
  return std::move(tar_samples(folder.write("s.tar", tar.closed())).next().value());
}

} // namespace

TEST_CASE("a sample has its fields by name and in order") {
  const auto sample =
      sample_of(tar_writer().add("d/7.jpg", "photo").add("d/7.seg.png", "mask").add("d/7.cls", ""));
  CHECK(sample.key() == "d/7");
  CHECK(sample.size() == 3);
  CHECK(text(sample["jpg"]) == "photo");
  CHECK(sample.text("seg.png") == "mask");
  CHECK(sample["cls"].empty());
  CHECK(text(sample.find("jpg").value()) == "photo");
  CHECK(!sample.find("png"));
  CHECK(!sample.find("JPG"));
  std::string names;
  for (const auto& [name, bytes] : sample) names.append(name).append("=").append(text(bytes)).append(" ");
  CHECK(names == "jpg=photo seg.png=mask cls= ");
}

TEST_CASE("a sample knows its file and its members") {
  const temporary_folder folder;
  const std::string file =
      folder.write("s.tar", tar_writer().add("d/7.jpg", "x").add("d/7.cls", "y").closed());
  const auto sample = tar_samples(file).next().value();
  CHECK(sample.file() == file);
  CHECK(sample.origin() == file + ": d/7.jpg, .cls");
  CHECK(sample_of(tar_writer().add("README", "x")).origin().ends_with("/s.tar: README"));
}

TEST_CASE("a missing field is an error that lists the fields of the sample") {
  const auto sample = sample_of(tar_writer().add("7.jpg", "x").add("7.cls", "y"));
  CHECK(throws_saying<tar_error>("/s.tar: sample `7` has no field `png`; it has `jpg`, `cls`",
                                 [&] { sample["png"]; }));
  CHECK(throws_saying<tar_error>("has no field `a\\x0a`", [&] { sample.text("a\n"); }));
  CHECK_THROWS_AS(sample.share("png"), tar_error);
}

TEST_CASE("a sample can have many fields") {
  tar_writer tar;
  for (int i = 0; i < 40; ++i) tar.add("7.f" + std::to_string(i), std::to_string(i));
  auto sample = sample_of(tar);
  auto copy = sample;
  const auto moved = std::move(sample);
  REQUIRE(moved.size() == 40);
  REQUIRE(copy.size() == 40);
  CHECK(moved.text("f39") == "39");
  CHECK(copy.text("f4") == "4");
  copy = sample_of(tar_writer().add("8.txt", "few"));
  CHECK(copy.size() == 1);
  CHECK(copy.text("txt") == "few");
  auto taken = std::move(copy);
  copy = moved;
  CHECK(copy.text("f39") == "39");
  CHECK(taken.text("txt") == "few");
}

TEST_CASE("a sample that has been moved from has no fields") {
  auto few = sample_of(tar_writer().add("7.jpg", "x"));
  tar_writer tar;
  for (int i = 0; i < 9; ++i) tar.add("7.f" + std::to_string(i), "x");
  auto many = sample_of(tar);
  const auto few_moved = std::move(few), many_moved = std::move(many);
  CHECK(few.begin() == few.end());
  CHECK(many.begin() == many.end());
  CHECK(few_moved.size() + many_moved.size() == 10);
}

TEST_CASE("a key that ustar has split is joined, and stays valid when the sample moves") {
  tar_writer tar;
  tar.add(tar.header("c/7.jpg", "x").prefix("a/b"), "x")
      .add(tar.header("7.cls", "y").prefix("a/b/c"), "y")
      .add("a/b/c/7.txt", "z");
  auto sample = sample_of(tar);
  CHECK(sample.size() == 3);
  const auto moved = std::move(sample);
  CHECK(moved.key() == "a/b/c/7");
  tar_writer short_key;
  short_key.add(short_key.header("7.jpg", "x").prefix("a"), "x");
  const auto in_place = sample_of(short_key);
  CHECK(in_place.key() == "a/7");
}

TEST_CASE("shared bytes outlive sample, source and file") {
  std::optional<feedline::tar_bytes> photo;
  { photo = sample_of(tar_writer().add("7.jpg", "photo")).share("jpg"); }
  CHECK(text(*photo) == "photo");
}
