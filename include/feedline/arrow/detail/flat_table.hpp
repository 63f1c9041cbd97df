// SPDX-License-Identifier: MIT
#pragma once
// FlatBuffers tables that are read by field number, after FlatBuffers' verifier has checked them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include <flatbuffers/flatbuffers.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using flat_verifier = flatbuffers::Verifier;

/// A FlatBuffers table. Each kind of table lists its fields in Verify(), which checks them, so that they can
/// be read. Fields count from 0, in the order of the format's specification.
class flat_table : private flatbuffers::Table {
 public:
  template <class T>
  T number(unsigned field, T otherwise) const {
    return GetField<T>(slot(field), otherwise);
  }

  /// Null if the field is absent.
  template <class T>
  const T* table(unsigned field) const {
    return GetPointer<const T*>(slot(field));
  }

  std::string_view text(unsigned field) const {
    const auto* const string = GetPointer<const flatbuffers::String*>(slot(field));
    return string ? std::string_view(string->c_str(), string->size()) : std::string_view();
  }

  template <class T>
  std::size_t count(unsigned field) const {
    const auto* const all = tables<T>(field);
    return all ? all->size() : 0;
  }

  template <class T>
  const T& element(unsigned field, std::size_t number) const {
    return *tables<T>(field)->Get(static_cast<flatbuffers::uoffset_t>(number));
  }

  /// The bytes of a list of numbers, or of structs that contain only numbers; not aligned.
  template <std::size_t Size>
  std::span<const std::byte> records(unsigned field) const {
    const auto* const all = GetPointer<const flatbuffers::Vector<std::uint8_t>*>(slot(field));
    if (!all) return {};
    return {reinterpret_cast<const std::byte*>(all->Data()), all->size() * Size};
  }

 protected:
  bool begin(flat_verifier& v) const { return VerifyTableStart(v); }

  bool end(flat_verifier& v) const { return v.EndTable(); }

  template <class T>
  bool has_number(flat_verifier& v, unsigned field) const {
    // Before FlatBuffers 2.0.7, VerifyField takes no alignment.
    if constexpr (requires { this->template VerifyField<T>(v, slot(field), sizeof(T)); })
      return this->template VerifyField<T>(v, slot(field), sizeof(T));
    else return this->template VerifyField<T>(v, slot(field));
  }

  template <class T>
  bool has_table(flat_verifier& v, unsigned field) const {
    return VerifyOffset(v, slot(field)) && v.VerifyTable(table<T>(field));
  }

  bool has_text(flat_verifier& v, unsigned field) const {
    return VerifyOffset(v, slot(field)) &&
           v.VerifyString(GetPointer<const flatbuffers::String*>(slot(field)));
  }

  template <class T>
  bool has_tables(flat_verifier& v, unsigned field) const {
    return VerifyOffset(v, slot(field)) && v.VerifyVector(tables<T>(field)) &&
           v.VerifyVectorOfTables(tables<T>(field));
  }

  template <std::size_t Size>
  bool has_records(flat_verifier& v, unsigned field) const {
    struct record {
      std::byte bytes[Size];
    };

    return VerifyOffset(v, slot(field)) &&
           v.VerifyVector(GetPointer<const flatbuffers::Vector<const record*>*>(slot(field)));
  }

 private:
  template <class T>
  const flatbuffers::Vector<flatbuffers::Offset<T>>* tables(unsigned field) const {
    return GetPointer<const flatbuffers::Vector<flatbuffers::Offset<T>>*>(slot(field));
  }

  static flatbuffers::voffset_t slot(unsigned field) {
    return static_cast<flatbuffers::voffset_t>(4 + 2 * field);
  }
};

/// Reads a number from bytes of any alignment.
template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The table at the beginning of `bytes`, or null if it is damaged. `bytes` must be aligned to 8.
template <class T>
const T* verified(std::span<const std::byte> bytes) {
  constexpr std::size_t max_size = 0x7fffffff; // the largest size that FlatBuffers can address
  if (bytes.size() < 8 || bytes.size() >= max_size) return nullptr;
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  // Limits the number of tables to one per 4 bytes. No writer shares tables, but hostile data could refer to
  // a few of them billions of times.
  flat_verifier v(begin, bytes.size(), 128, static_cast<flatbuffers::uoffset_t>(bytes.size() / 4));
  return v.VerifyBuffer<T>(nullptr) ? flatbuffers::GetRoot<T>(begin) : nullptr;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
