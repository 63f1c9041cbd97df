// SPDX-License-Identifier: MIT
#include <feedline/audio/audio_error.hpp>

#include <feedline/audio/audio_decoder.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

using feedline::audio_error;

static_assert(std::is_base_of_v<std::runtime_error, audio_error>);
static_assert(std::is_nothrow_copy_constructible_v<audio_error>);

TEST_CASE("an audio error names formats that aren't supported") {
  using namespace std::string_view_literals;
  for (const auto& [begin, name] : {std::pair{"\0\0\0\x20"
                                              "ftypM4A "sv,
                                              "MP4 or M4A"},
                                    {"caff\0\1\0\0"sv, "CAF"},
                                    {"riff\x2e\x91\xcf\x11"sv, "Wave64"},
                                    {"\xff\xf1\x50\x80"sv, "AAC"},
                                    {"\x1a\x45\xdf\xa3"sv, "WebM"}}) {
    std::vector<std::byte> file(1000, std::byte{1});
    for (std::size_t i = 0; i < begin.size(); ++i) file[i] = static_cast<std::byte>(begin[i]);
    CHECK(feedline::test::throws_saying<audio_error>("the file is " + std::string(name),
                                                     [&] { feedline::decode_audio(file); }));
  }
  CHECK(feedline::test::throws_saying<audio_error>("can't read the file as audio", [&] {
    feedline::decode_audio(std::vector<std::byte>(1000, std::byte{'a'}));
  }));
}
