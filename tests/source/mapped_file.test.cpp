// SPDX-License-Identifier: MIT
#include <feedline/detail/mapped_file.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "support/catch.hpp"
#include "support/page_cache.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using fl::detail::announced_file;
using fl::detail::mapped_file;

TEST_CASE("a mapped file knows which of its bytes are in memory, and is announced to its end") {
  const feedline::test::temporary_folder folder;
  const std::string path = folder.write("a", std::string(64 << 10, 'x'));
  constexpr std::uint64_t size = 3 * announced_file::step + 5;
  std::filesystem::resize_file(path, size); // nobody has read the bytes that this adds
  const auto file = std::make_shared<const mapped_file>(path);
  CHECK(file->bytes().size() == size);
  CHECK(file->bytes()[0] == std::byte{'x'});
  CHECK(file->is_in_memory(0));
  for (const std::uint64_t page : {std::uint64_t{0}, announced_file::step, announced_file::step * 2})
    CHECK(file->is_in_memory(page + 1) == feedline::test::is_in_memory(path, page));
  CHECK(file->bytes()[announced_file::step * 2] == std::byte{0});
  CHECK(file->is_in_memory(announced_file::step * 2));
  for (const std::uint64_t offset : {size, ~std::uint64_t{0}}) CHECK_FALSE(file->is_in_memory(offset));

  announced_file announced{file};
  announced.reach(1);
  CHECK(announced.bytes == announced_file::step);
  announced.reach(~std::uint64_t{0});
  CHECK(announced.bytes == 4 * announced_file::step);

  const mapped_file few(folder.write("b", "read, not mapped"));
  CHECK_FALSE(few.is_in_memory(0));
}
