// SPDX-License-Identifier: MIT
#pragma once
// Reads the subset of JSON that the descriptions of test data use.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace feedline::test {

/// A value. Numbers are kept as text, so that no digit is lost.
struct json {
  enum class kind { null, boolean, number, text, array, object };

  kind is = kind::null;
  std::string text;               ///< of a string or number; "true" or "false"
  std::vector<std::string> names; ///< names of an object's members
  std::vector<json> elements;     ///< elements of an array, or values of an object's members

  const json* find(std::string_view name) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i] == name) return &elements[i];
    return nullptr;
  }

  /// An object without the members of one name.
  json without(std::string_view name) const {
    json other;
    other.is = is;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) continue;
      other.names.push_back(names[i]);
      other.elements.push_back(elements[i]);
    }
    return other;
  }

  const json& operator[](std::string_view name) const {
    if (const json* found = find(name)) return *found;
    throw std::runtime_error("no member " + std::string(name));
  }

  const json& operator[](std::size_t i) const { return elements.at(i); }

  std::size_t size() const { return elements.size(); }

  long long integer() const { return std::strtoll(text.c_str(), nullptr, 10); }

  double real() const { return std::strtod(text.c_str(), nullptr); }

  static json parse(std::string_view text) {
    reader r{text};
    return r.value();
  }

 private:
  struct reader {
    std::string_view left;

    char peek() {
      while (!left.empty() && (left[0] == ' ' || left[0] == '\n' || left[0] == '\r' || left[0] == '\t'))
        left.remove_prefix(1);
      if (left.empty()) throw std::runtime_error("the JSON is truncated");
      return left[0];
    }

    bool take(char c) {
      if (peek() != c) return false;
      left.remove_prefix(1);
      return true;
    }

    void expect(char c) {
      if (!take(c)) throw std::runtime_error("bad JSON at: " + std::string(left.substr(0, 20)));
    }

    json value() {
      json v;
      switch (peek()) {
      case '{':
        v.is = kind::object;
        left.remove_prefix(1);
        if (take('}')) return v;
        do {
          peek();
          v.names.push_back(string());
          expect(':');
          v.elements.push_back(value());
        } while (take(','));
        expect('}');
        return v;
      case '[':
        v.is = kind::array;
        left.remove_prefix(1);
        if (take(']')) return v;
        do v.elements.push_back(value());
        while (take(','));
        expect(']');
        return v;
      case '"':
        v.is = kind::text;
        v.text = string();
        return v;
      default: {
        const std::size_t end = std::min(left.find_first_of(",]} \n\r\t"), left.size());
        v.text = left.substr(0, end);
        left.remove_prefix(end);
        v.is = v.text == "null"                        ? kind::null
               : v.text == "true" || v.text == "false" ? kind::boolean
                                                       : kind::number;
        return v;
      }
      }
    }

    std::string string() {
      expect('"');
      std::string s;
      while (!left.empty() && left[0] != '"') {
        const char c = left[0];
        left.remove_prefix(1);
        if (c == '\\') s += escaped();
        else s += c;
      }
      if (left.empty()) throw std::runtime_error("the JSON is truncated in a string");
      left.remove_prefix(1);
      return s;
    }

    std::string escaped() {
      if (left.empty()) throw std::runtime_error("the JSON is truncated in a string");
      const char c = left[0];
      left.remove_prefix(1);
      switch (c) {
      case 'n':
        return "\n";
      case 't':
        return "\t";
      case 'r':
        return "\r";
      case 'b':
        return "\b";
      case 'f':
        return "\f";
      case 'u': {
        unsigned long code = four_digits();
        if (code >= 0xd800 && code < 0xdc00 && left.starts_with("\\u")) {
          left.remove_prefix(2);
          code = 0x10000 + ((code - 0xd800) << 10) + (four_digits() - 0xdc00);
        }
        return utf8(code);
      }
      default:
        return std::string(1, c);
      }
    }

    unsigned long four_digits() {
      const std::string digits(left.substr(0, 4));
      left.remove_prefix(std::min<std::size_t>(4, left.size()));
      return std::strtoul(digits.c_str(), nullptr, 16);
    }

    static std::string utf8(unsigned long code) {
      const auto byte = [](unsigned long value) { return static_cast<char>(value); };
      if (code < 0x80) return {byte(code)};
      if (code < 0x800) return {byte(0xc0 | code >> 6), byte(0x80 | (code & 0x3f))};
      if (code < 0x10000)
        return {byte(0xe0 | code >> 12), byte(0x80 | (code >> 6 & 0x3f)), byte(0x80 | (code & 0x3f))};
      return {byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f)), byte(0x80 | (code >> 6 & 0x3f)),
              byte(0x80 | (code & 0x3f))};
    }
  };
};

} // namespace feedline::test
