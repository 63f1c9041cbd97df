// SPDX-License-Identifier: MIT
// Archives written by other programs, compared with what other programs read from them.
#include <feedline/source/tar.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/tar_reader.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"

namespace {

using feedline::detail::mapped_file;
using feedline::detail::tar_member;
using feedline::detail::tar_reader;
using feedline::detail::tar_status;
using feedline::test::test_data;
using strings = std::vector<std::string>;

// Lists the files of a directory that Python's tarfile and GNU tar both read without an error: "= FILE", then
// "NAME SIZE CRC" for each regular member that GNU tar finds, the name in hexadecimal; "! FILE" if tarfile
// finds different ones. Leaves out what feedline leaves out: sparse files, hidden ones, and names with a slash at
// the end.
constexpr const char* lister = R"(
import codecs, os, resource, subprocess, sys, tarfile, zlib

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

def by_python(path):
    members = []
    with tarfile.open(path, 'r:', encoding='utf-8', errors='surrogateescape', errorlevel=2) as tar:
        for m in tar:
            if m.issparse() and m.size > 1 << 20:
                raise ValueError('nothing to read in full')
            if m.isreg():
                raw = m.name.encode('utf-8', 'surrogateescape')
                members.append((raw, m.size, zlib.crc32(tar.extractfile(m).read()), m.issparse()))
    return members

def by_gnu_tar(path):
    command = ['tar', '-P', '-f', path, '--numeric-owner', '--quoting-style=escape']
    listed = subprocess.run(command + ['-tv'], capture_output=True, env=dict(os.environ, LC_ALL='C'), check=True)
    data = subprocess.run(command + ['-xO'], capture_output=True, check=True).stdout
    members = []
    for line in listed.stdout.splitlines():
        if line[:1] in b'-C':
            mode, owner, size, day, time, *name = line.split(None, 5)
            contents, data = data[:int(size)], data[int(size):]
            members.append((codecs.escape_decode(b''.join(name))[0], int(size), zlib.crc32(contents)))
    if data:
        raise ValueError('more bytes than members')
    return members

for name in sorted(os.listdir(sys.argv[1])):
    path = os.path.join(sys.argv[1], name)
    try:
        python, gnu = by_python(path), by_gnu_tar(path)
    except Exception:
        continue
    print('=' if [m[:3] for m in python] == gnu else '!', name)
    for (raw, size, crc), (*_, sparse) in zip(gnu, python):
        hidden = [p for p in raw.split(b'/') if p == b'__MACOSX' or p.startswith(b'.') and p not in (b'.', b'..')]
        if not (sparse or hidden or raw.endswith(b'/')):
            print(raw.hex() or '-', size, crc)
)";

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xedb88320 & (0 - (crc & 1)));
  }
  return ~crc;
}

std::string line_of(const tar_member& member) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const char c : member.full_name()) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  if (text.empty()) text = "-";
  return text + " " + std::to_string(member.bytes.size()) + " " + std::to_string(crc32(member.bytes));
}

strings files_of(const std::string& folder) {
  strings files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

strings output_of(const std::string& command) {
  strings lines(1);
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (!pipe) return {};
  for (int c; (c = std::fgetc(pipe)) != EOF;) {
    if (c == '\n') lines.emplace_back();
    else lines.back() += static_cast<char>(c);
  }
  lines.pop_back();
  return ::pclose(pipe) == 0 ? lines : strings();
}

} // namespace

TEST_CASE("feedline reads the same members and bytes as GNU tar and Python's tarfile", "[shared]") {
  const auto folder = test_data("tar");
  if (!folder) return;
  if (output_of("tar --version 2>&1 | grep GNU").empty() || output_of("python3 --version").empty()) {
    WARN("skipped: no GNU tar or no python3");
    return;
  }
  const feedline::test::temporary_folder scripts;
  const std::string script = scripts.write("list.py", lister);
  std::map<std::string, strings> expected;
  std::string file;
  strings in_dispute;
  for (const std::string& line : output_of("python3 '" + script + "' '" + *folder + "'")) {
    if (line[0] == '!') in_dispute.push_back(line.substr(2));
    if (line[0] == '=' || line[0] == '!') expected[file = line.substr(2)];
    else expected[file].push_back(line);
  }
  CHECK(expected.size() > 90);
  // Global headers with a path, which would give all members one name.
  const strings refused{"dotnet-tar-global-header.tar", "dotnet-tar-pax-global-records.tar",
                        "node-tar-global-header.tar", "tar-split-pax-global-records.tar"};
  for (const auto& [name, lines] : expected) {
    const mapped_file archive(*folder + "/" + name);
    feedline::detail::tar_memory memory(archive.bytes());
    tar_reader reader(memory);
    strings found, problems;
    tar_member member;
    for (tar_status status; (status = reader.next(member)) != tar_status::end;) {
      if (status == tar_status::member) found.push_back(line_of(member));
      else if (status != tar_status::unreadable && status != tar_status::link)
        problems.push_back(reader.problem());
    }
    INFO(name);
    if (std::ranges::count(refused, name) > 0) {
      CHECK(problems == strings{"a global header that gives all members one name or size at offset 0"});
      continue;
    }
    CHECK(found == lines);
    CHECK(problems == strings{});
  }
  // tarfile takes the times in GNU's incremental headers for a prefix, and reads a hole of pax's first sparse
  // format as data.
  const strings known{"commons-compress-test-times-oldgnu-incremental.tar",
                      "dotnet-tar-pax-nil-sparse-hole.tar", "tar-split-pax-nil-sparse-hole.tar",
                      "tar-stream-gnu-incremental.tar"};
  CHECK(std::includes(known.begin(), known.end(), in_dispute.begin(), in_dispute.end()));
}

TEST_CASE("every foreign file is read, or is an error with file and offset", "[shared]") {
  const auto folder = test_data("tar");
  if (!folder) return;
  for (const std::string& file : files_of(*folder)) {
    INFO(file);
    feedline::tar_samples source(file);
    int samples = 0, calls = 0;
    for (; calls < 1000; ++calls) {
      try {
        if (!source.next()) break;
        ++samples;
      } catch (const feedline::tar_error& error) {
        const std::string message = error.what();
        CHECK(message.starts_with(file + ": "));
        CHECK(message.find(" offset ") != std::string::npos);
      }
    }
    CHECK(calls < 1000);
    const std::string extension = file.substr(file.rfind('.'));
    if (extension != ".tar") CHECK(samples == 0);
  }
}

TEST_CASE("damaged foreign files never cause an access out of bounds or an endless loop", "[shared]") {
  const auto folder = test_data("tar");
  if (!folder) return;
  feedline::random_generator random(11);
  for (const std::string& file : files_of(*folder)) {
    const mapped_file archive(file);
    if (archive.bytes().empty() || archive.bytes().size() > 40'000) continue;
    for (int round = 0; round < 10; ++round) {
      std::vector<std::byte> bytes(archive.bytes().begin(), archive.bytes().end());
      bytes.resize(1 + static_cast<std::size_t>(random.below(bytes.size())));
      bytes.shrink_to_fit();
      for (int i = 0; i < 3; ++i)
        bytes[static_cast<std::size_t>(random.below(bytes.size()))] = static_cast<std::byte>(random());
      feedline::detail::tar_memory memory{std::span<const std::byte>(bytes)};
      tar_reader reader(memory);
      tar_member member;
      std::size_t members = 0;
      while (reader.next(member) != tar_status::end) REQUIRE(++members <= bytes.size() / 512 + 1);
    }
  }
}

TEST_CASE("the photo shards have 64 samples, each with a jpg and a cls", "[shared]") {
  const auto folder = test_data("photos");
  if (!folder) return;
  feedline::tar_samples source(*folder + "/photos-{0000..0004}.tar");
  CHECK(source.shards() == feedline::tar_samples(*folder + "/photos-*.tar").shards());
  std::array<int, 5> per_shard{};
  while (const auto sample = source.next()) {
    ++per_shard.at(static_cast<std::size_t>(source.index() >> 40));
    REQUIRE(sample->size() == 2);
    CHECK(sample->text("jpg").starts_with("\xff\xd8\xff"));
    CHECK(!sample->text("cls").empty());
  }
  CHECK(per_shard == std::array{64, 64, 64, 64, 64});
}
