// SPDX-License-Identifier: MIT
// The example that makes batches of spectrograms from a folder of sound files.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using fl::test::temporary_folder;

namespace {

/// A second of a sine at 8 kHz.
std::string wav() {
  std::string file(
      "RIFF\xa4\x3e\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\x80\x3e\0\0", 44);
  for (int i = 0; i < 8000; ++i) {
    const auto sample = static_cast<std::uint16_t>(std::lround(8000 * std::sin(0.3 * i)));
    file += static_cast<char>(sample & 255);
    file += static_cast<char>(sample >> 8);
  }
  return file;
}

} // namespace

TEST_CASE("a file that can't be read is reported once, however many epochs there are") {
  const temporary_folder folder, sounds;
  for (const char* name : {"1_a.wav", "2_b.wav", "3_c.wav"}) sounds.write(name, wav());
  sounds.write("4_d.wav", "");
  const auto result = fl::test::run_command(FEEDLINE_AUDIO_FILES " " + sounds.path() + " 3", folder);
  INFO(result.log);
  CHECK(result.status == 0);
  const std::size_t first = result.log.find("skipped: ");
  REQUIRE(first != std::string::npos);
  CHECK(result.log.find("skipped: ", first + 1) == std::string::npos);
  CHECK(result.says("4_d.wav"));
  CHECK(result.says("batch 2: 64 clips"));
}
