// SPDX-License-Identifier: MIT
#include <feedline/source/file_patterns.hpp>

#include <feedline/source/files.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/records.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/stage/prefetch.hpp>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using fl::test::temporary_folder;

namespace {

using texts = std::vector<std::string>;

template <class Source>
auto all_of(const Source& source) {
  return fl::test::collect((source | fl::prefetch(1)).finite());
}

} // namespace

TEST_CASE("files are named by one text, a list in braces or a vector") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "1\n"), b = folder.write("b", "2\n"), both = folder / "{a,b}";
  CHECK(all_of(fl::lines(a)) == texts{"1"});
  CHECK(all_of(fl::lines(b.c_str())) == texts{"2"});
  CHECK(all_of(fl::lines({a})) == texts{"1"});
  const texts lines{"1", "2"};
  CHECK(all_of(fl::lines(both)) == lines);
  CHECK(all_of(fl::lines({a, b})) == lines);
  CHECK(all_of(fl::lines({a.c_str(), b.c_str()})) == lines);
  CHECK(all_of(fl::lines(texts{a, b}, {.max_line_bytes = 1})) == lines);
  CHECK_THROWS_AS(fl::lines({}), std::invalid_argument);

  CHECK(all_of(fl::records<char>({a, b})) == std::vector{'1', '\n', '2', '\n'});
  CHECK(all_of(fl::records(both, 2)).size() == 2);
  CHECK(all_of(fl::files(folder.path())) == texts{a, b});
  CHECK(all_of(fl::files(folder.path(), "a")) == texts{a});
  CHECK(all_of(fl::files(folder.path(), {"b", "a"})) == texts{a, b});
}

TEST_CASE("shards are named by one text, a list in braces or a vector") {
  const temporary_folder folder;
  fl::test::tar_writer tar;
  tar.add("1.txt", "one");
  const std::string a = folder.write("a.tar", tar.closed()), b = folder.write("b.tar", tar.closed());
  for (const fl::tar_samples& shards :
       {fl::tar_samples(folder / "*.tar"), fl::tar_samples({a, b}), fl::tar_samples({a.c_str(), b.c_str()}),
        fl::tar_samples(texts{a, b}), fl::tar_samples({folder / "{a,b}.tar"})})
    CHECK(all_of(shards).size() == 2);
  CHECK(all_of(fl::tar_samples(a)).size() == 1);
}
