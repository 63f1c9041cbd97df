// SPDX-License-Identifier: MIT
// Reads libFuzzer's bytes as the chunks of a TAR archive, which must be those that the reader finds in memory. Start it with
// small files of data/tar as the corpus.
#include <feedline/window.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/detail/tar_reader.hpp>

#include "support/expect.hpp"
#include "support/fuzz_input.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string path = path_of(bytes);
  static const temporary_folder folder;
  static const bool is_linked = (std::filesystem::create_symlink(path, folder / "s.tar"), true);
  static_cast<void>(is_linked);
  fl::chunk_file chunks(folder / "s.tar");
  chunks.index();
  const std::vector<char> exact(bytes.begin(), bytes.end()); // AddressSanitizer knows its end
  fl::detail::tar_memory memory(std::as_bytes(std::span(exact)));
  fl::detail::tar_reader reader(memory);
  fl::detail::tar_member member;
  std::uint64_t i = 0;
  for (fl::detail::tar_status s; (s = reader.next(member)) != fl::detail::tar_status::end;) {
    const std::string name = member.full_name();
    if (s != fl::detail::tar_status::member || fl::detail::last_name(name) == "LICENSE") continue;
    expect(chunks.key(i) == chunks.path() + "/" + name);
    if (i < 100) expect(std::ranges::equal(chunks.read(i), member.bytes));
    ++i;
  }
  expect(chunks.size() == i);
  return 0;
}
