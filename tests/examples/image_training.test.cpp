// SPDX-License-Identifier: MIT
// The program image_training as users run it: it reads shards and writes its results as JSON.
#include <feedline/core/tensor.hpp>
#include <feedline/image/jpeg_encoder.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/rounds.hpp"
#include "support/sanitizers.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"

namespace fl = feedline;
using fl::test::contents_of;
using fl::test::rounds;
using fl::test::temporary_folder;

namespace {

/// The program's JSON and its exit status.
struct outcome {
  int status;
  std::string json;

  /// The value of `"key": ` in a part of the JSON: a number, or text with its quotes.
  std::string value(const std::string& part, const std::string& key) const {
    const std::size_t in_part = json.find("\"" + part + "\": ");
    const std::size_t at = json.find("\"" + key + "\": ", in_part);
    if (in_part == std::string::npos || at == std::string::npos) return "no " + part + "." + key;
    const std::size_t begin = at + key.size() + 4;
    const bool is_text = json[begin] == '"';
    const std::size_t end = is_text ? json.find('"', begin + 1) + 1 : json.find_first_of(",}", begin);
    return json.substr(begin, end - begin);
  }
};

outcome run(const temporary_folder& folder, const std::string& flags) {
  const auto o = feedline::test::run_program(FEEDLINE_IMAGE_TRAINING, folder, flags);
  return {o.status, o.json};
}

std::vector<std::string> write_shards(const temporary_folder& folder, int shards, int samples) {
  std::vector<std::string> files;
  for (int s = 0; s < shards; ++s) {
    fl::test::tar_writer shard;
    for (int i = 0; i < samples; ++i) {
      fl::tensor<std::uint8_t> image(fl::shape{24, 32, 3});
      for (std::size_t k = 0; k < image.size(); ++k)
        image[k] = static_cast<std::uint8_t>(k * static_cast<std::size_t>(7 * s + i + 1));
      const auto jpeg = fl::encode_jpeg(image);
      const std::string name = std::to_string(100 * s + i);
      shard.add(name + ".jpg", {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
      shard.add(name + ".cls", std::to_string(i % 3));
    }
    files.push_back(folder.write("shard-" + std::to_string(s) + ".tar", shard.closed()));
  }
  return files;
}

/// Evaluates the same shards with different flags and expects the same result.
void check_evaluation(const temporary_folder& folder, const std::string& shards, const std::string& samples) {
  std::string digest;
  for (const std::string flags : {"--workers 1", "--workers 2 --prefetch 1", "--workers 8 --prefetch 9"}) {
    const outcome o = run(folder, "--eval " + shards + " " + flags);
    REQUIRE(o.status == 0);
    CHECK(o.value("eval", "samples") == samples);
    CHECK(o.value("eval", "distinct") == samples);
    if (digest.empty()) digest = o.value("eval", "digest");
    CHECK(o.value("eval", "digest") == digest);
  }
  CHECK(digest.size() == 2 + 16);
  const outcome twice = run(folder, "--epochs 2 --eval " + shards);
  CHECK(twice.value("eval", "distinct") == samples);
  CHECK(twice.value("eval", "samples") == std::to_string(2 * std::stoi(samples)));
}

/// Overwrites the contents of a member with zeros.
void spoil(const std::string& shard, const std::string& member) {
  std::string bytes = contents_of(shard);
  const std::size_t header = bytes.find(member);
  REQUIRE(header != std::string::npos);
  bytes.replace(header + 512, 400, 400, '\0');
  std::ofstream(shard, std::ios::binary) << bytes;
}

} // namespace

TEST_CASE("evaluation sees each sample exactly once with any number of workers and any queue sizes") {
  const temporary_folder folder;
  write_shards(folder, 3, 25);
  check_evaluation(folder, folder / "shard-*.tar", "75");
}

TEST_CASE("training with the same seed is repeatable with any number of workers") {
  const temporary_folder folder;
  write_shards(folder, 3, 25);
  const int steps = rounds(20);
  const std::string flags =
      "--steps " + std::to_string(steps) + " --batch 8 --shuffle 30 --train " + (folder / "shard-*.tar");
  const outcome one = run(folder, flags + " --workers 1"), many = run(folder, flags + " --workers 7");
  const outcome other = run(folder, flags + " --seed 9");
  CHECK(one.value("train", "samples") == std::to_string(8 * steps));
  CHECK(one.value("train", "batches") == std::to_string(steps));
  for (const std::string key : {"digest", "first_loss", "last_loss"})
    CHECK(one.value("train", key) == many.value("train", key));
  CHECK(one.value("train", "digest") != other.value("train", "digest"));
}

TEST_CASE("a damaged photograph is reported with shard and member, and the others are evaluated") {
  const temporary_folder folder;
  spoil(write_shards(folder, 2, 10)[1], "103.jpg");
  const std::string eval = "--eval " + (folder / "shard-*.tar");
  const outcome skipping = run(folder, eval + " --on-error skip");
  CHECK(skipping.status == 0);
  CHECK(skipping.value("eval", "samples") == "19");
  CHECK(skipping.value("eval", "distinct") == "19");
  CHECK(skipping.value("failures", "origin").find("shard-1.tar: 103.jpg") != std::string::npos);
  CHECK(skipping.value("failures", "stage").find("decode") != std::string::npos);
  const outcome failing = run(folder, eval);
  CHECK(failing.status == 1);
  CHECK(failing.value("failures", "error").find("103.jpg") != std::string::npos);
}

TEST_CASE("the JSON has all documented keys") {
  const temporary_folder folder;
  write_shards(folder, 1, 10);
  const std::string shard = folder / "shard-0.tar";
  const outcome o = run(folder, "--steps 3 --train " + shard + " --eval " + shard);
  for (const std::string key :
       {"samples", "batches", "digest", "first_loss", "last_loss", "seconds", "samples_per_second"})
    CHECK(o.value("train", key).find("no ") == std::string::npos);
  for (const std::string key : {"samples", "distinct", "batches", "digest", "accuracy", "seconds"})
    CHECK(o.value("eval", key).find("no ") == std::string::npos);
  CHECK(o.json.find("\"failures\": []") != std::string::npos);
  CHECK(o.json.find("\"metrics\": {") != std::string::npos);
}

TEST_CASE("each real photograph is evaluated once with any number of workers and any queue sizes",
          "[shared]") {
  const std::optional<std::string> photos = fl::test::test_data("photos");
  if (!photos) return;
  const temporary_folder folder;
  if (fl::test::is_sanitized) check_evaluation(folder, *photos + "/photos-0000.tar", "64"); // a fifth of them
  else check_evaluation(folder, *photos + "/*.tar", "320");
}

TEST_CASE("a resumed training continues exactly where it was interrupted") {
  const temporary_folder folder;
  write_shards(folder, 3, 25);
  const std::string flags = "--batch 8 --shuffle 30 --train " + (folder / "shard-*.tar");
  const std::string steps = " --steps " + std::to_string(rounds(40, 12));
  const outcome whole = run(folder, flags + steps);
  // Ends after a few batches, whatever the workers are doing at that time.
  const std::string file = folder / "training", program = FEEDLINE_IMAGE_TRAINING;
  const std::string killed = program + " " + flags + " --workers 3 --checkpoint " + file + " --steps " +
                             std::to_string(rounds(15)) + " > " + (folder / "log");
  REQUIRE(std::system(killed.c_str()) == 0);
  const outcome resumed = run(folder, flags + " --workers 1 --resume " + file + steps);
  CHECK(resumed.status == 0);
  for (const std::string key : {"samples", "batches", "digest", "first_loss"})
    CHECK(resumed.value("train", key) == whole.value("train", key));
  CHECK(run(folder, flags + " --seed 2 --resume " + file).status == 1);
  CHECK(contents_of(folder / "log").find("with seed 1, this one has 2") != std::string::npos);
  CHECK(run(folder, flags + " --resume " + (folder / "shard-0.tar")).status == 1);
}
