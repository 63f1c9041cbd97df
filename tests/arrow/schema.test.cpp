// SPDX-License-Identifier: MIT
#include <feedline/arrow/schema.hpp>

#include <string>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;

namespace {

fl::arrow_field field(std::string name, fl::arrow_type type, std::vector<fl::arrow_field> children = {}) {
  fl::arrow_field f;
  f.name = std::move(name);
  f.type = type;
  f.children = std::move(children);
  return f;
}

fl::arrow_field integer(std::string name, unsigned bits, bool is_signed) {
  fl::arrow_field f = field(std::move(name), fl::arrow_type::integer);
  f.bits = bits;
  f.is_signed = is_signed;
  return f;
}

std::size_t count(const std::vector<fl::arrow_field>& fields, std::string_view name,
                  fl::detail::arrow_path& found) {
  fl::detail::arrow_path path;
  return fl::detail::find_arrow_column(fields, name, path, found);
}

} // namespace

TEST_CASE("types have the names of Arrow's other implementations") {
  CHECK(to_string(integer("", 8, false)) == "uint8");
  const auto text = field("path", fl::arrow_type::utf8);
  CHECK(to_string(field("", fl::arrow_type::structure, {field("bytes", fl::arrow_type::binary), text})) ==
        "struct<bytes: binary, path: utf8>");
  CHECK(to_string(field("", fl::arrow_type::large_list,
                        {field("", fl::arrow_type::list, {integer("", 64, true)})})) ==
        "large_list<list<int64>>");
  CHECK(to_string(field("", fl::arrow_type::dictionary, {text})) == "dictionary<utf8>");
  auto place = field("", fl::arrow_type::fixed_size_list, {integer("", 32, true)});
  place.elements = 3;
  CHECK(to_string(place) == "fixed_size_list<int32, 3>");
  const auto entries = field("", fl::arrow_type::structure, {text, field("", fl::arrow_type::list, {text})});
  CHECK(to_string(field("", fl::arrow_type::map, {entries})) == "map<utf8, list<utf8>>");
  CHECK(to_string(field("", fl::arrow_type::utf8_view)) == "utf8_view");
  CHECK(to_string(fl::arrow_schema()) == "no columns");
  CHECK(to_string(fl::arrow_schema{{text, integer("a\nb", 16, true)}}) == "`path`: utf8, `a\\x0ab`: int16");
}

TEST_CASE("very long type names are shortened") {
  const auto long_one = field(std::string(2000, 'x'), fl::arrow_type::null);
  const auto wide = field("s", fl::arrow_type::structure, std::vector(200, long_one));
  CHECK(to_string(wide).size() < 2000);
  CHECK(to_string(fl::arrow_schema{std::vector(50, wide)}).size() < 6000);
}

TEST_CASE("columns are found by name, and parts of a struct by a name with dots") {
  const std::vector<fl::arrow_field> fields{
      integer("label", 64, true),
      field("audio", fl::arrow_type::structure,
            {field("bytes", fl::arrow_type::binary), integer("a.b", 8, true)}),
      field("audio.bytes", fl::arrow_type::utf8),
      field("kind", fl::arrow_type::dictionary,
            {field("", fl::arrow_type::structure, {integer("x", 8, true)})})};
  fl::detail::arrow_path found;
  CHECK(count(fields, "label", found) == 1);
  CHECK(found == fl::detail::arrow_path{0});
  CHECK(count(fields, "audio.a.b", found) == 1);
  CHECK(found == fl::detail::arrow_path{1, 1});
  CHECK(count(fields, "kind.x", found) == 1);
  CHECK(found == fl::detail::arrow_path{3, 0});
  CHECK(count(fields, "audio.bytes", found) == 2);
  CHECK(count(fields, "audi", found) == 0);
  CHECK(count(fields, "audio.", found) == 0);
  CHECK(count(fields, "label.x", found) == 0);
}
