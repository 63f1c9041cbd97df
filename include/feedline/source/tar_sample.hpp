// SPDX-License-Identifier: MIT
#pragma once
// tar_sample: a sample from a TAR shard, as named views of the mapped file.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Thrown for a shard or a sample that can't be read. what() names the file and, where there is one, the
/// member and its offset: "photos-0003.tar: member `000036.jpg` at offset 12288 is cut off: 5644 bytes
/// announced, 1200 left".
class tar_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One member of a sample: a name such as `jpg`, and the contents.
struct tar_field {
  std::string_view name;            ///< the part of the member's name that differs within the sample
  std::span<const std::byte> bytes; ///< the contents
};

/// The contents of a field. They keep their shard mapped, or the sample's memory, and so stay valid after the sample is
/// gone.
class tar_bytes : public std::span<const std::byte> {
 public:
  /// Views `bytes`, which `memory` keeps valid.
  tar_bytes(std::shared_ptr<const void> memory, std::span<const std::byte> bytes) noexcept;

 private:
  std::shared_ptr<const void> memory_;
};

namespace detail {

class shard_samples;

/// Fields of a sample: up to four without an allocation, more on the heap.
class tar_fields {
 public:
  tar_fields() = default;
  tar_fields(const tar_fields&) = default;
  tar_fields& operator=(const tar_fields&) = default;

  tar_fields(tar_fields&& other) noexcept;

  tar_fields& operator=(tar_fields&& other) noexcept;

  ~tar_fields() = default;

  void push_back(const tar_field& field);

  const tar_field* begin() const noexcept { return many_.empty() ? few_.data() : many_.data(); }

  std::size_t size() const noexcept { return many_.empty() ? few_size_ : many_.size(); }

  const tar_field* end() const noexcept { return begin() + size(); }

 private:
  std::array<tar_field, 4> few_{};
  std::vector<tar_field> many_;
  std::size_t few_size_ = 0;
};

} // namespace detail

/// A sample: neighbouring members of a shard whose names are equal up to the first dot after the last slash.
/// `dir/17.jpg` and `dir/17.cls` are the fields `jpg` and `cls` of the sample `dir/17`; `dir/17` alone is a
/// field with an empty name. Fields keep their order and spelling. Names and contents are views of the mapped
/// shard, which stays mapped as long as one of its samples (or a result of share()) exists, even without the
/// source. If the shard is compressed or isn't a file, they are views of memory that the sample and its copies share.
class tar_sample {
 public:
  using feedline_view = void; // views a mapped file; its source may state how many bytes it holds

  /// `dir/17`
  std::string_view key() const& noexcept { return key_; }

  /// The contents of a field. Throws tar_error if there is none; what() lists the sample's fields and symbolic links.
  std::span<const std::byte> operator[](std::string_view field) const& { return at(field); }

  /// The contents of a field as text.
  std::string_view text(std::string_view field) const&;

  /// The contents of a field, if the sample has it.
  std::optional<std::span<const std::byte>> find(std::string_view field) const& noexcept;

  // A view of a temporary sample would dangle: store the sample in a variable first, or use share().
  std::string_view key() const&& = delete;
  std::span<const std::byte> operator[](std::string_view) const&& = delete;
  std::string_view text(std::string_view) const&& = delete;
  std::optional<std::span<const std::byte>> find(std::string_view) const&& = delete;

  /// The contents of a field, which keep the shard mapped or the sample's memory. Throws tar_error as operator[] does.
  tar_bytes share(std::string_view field) const;

  /// The fields in the shard's order.
  const tar_field* begin() const noexcept { return fields_.begin(); }

  const tar_field* end() const noexcept { return fields_.end(); }

  /// The number of fields.
  std::size_t size() const noexcept { return fields_.size(); }

  /// The shard's path or URL, as the source lists it.
  std::string file() const;

  /// A hash that identifies the sample, and changes with the shard: of the shard's name, size and time (or version), the
  /// sample's key and offset, and its fields' names and sizes.
  std::uint64_t identity() const noexcept;

  /// Names file and members: "photos-0003.tar: dir/17.jpg, .cls".
  std::string origin() const;

 private:
  friend class detail::shard_samples;

  tar_sample() = default;

  std::span<const std::byte> at(std::string_view field) const;

  std::shared_ptr<const detail::named_version> shard_; // also owns the memory that the sample views
  std::uint64_t offset_ = 0;                           // in the archive
  std::string_view key_;
  std::shared_ptr<const std::string>
      long_key_; // owns the key if ustar has split the name, so that it isn't contiguous
  detail::tar_fields fields_;
  std::shared_ptr<const std::string> links_; // sentences about its symbolic links; null: it has none
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <utility>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_bytes::tar_bytes(std::shared_ptr<const void> memory,
                                     std::span<const std::byte> bytes) noexcept
    : std::span<const std::byte>(bytes), memory_(std::move(memory)) {}

} // namespace feedline::inline FEEDLINE_ABI

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_fields::tar_fields(tar_fields&& other) noexcept
    : few_(other.few_), many_(std::move(other.many_)), few_size_(std::exchange(other.few_size_, 0)) {
  other.many_.clear();
}

FEEDLINE_INLINE tar_fields& tar_fields::operator=(tar_fields&& other) noexcept {
  few_ = other.few_;
  many_ = std::exchange(other.many_, {});
  few_size_ = std::exchange(other.few_size_, 0);
  return *this;
}

FEEDLINE_INLINE void tar_fields::push_back(const tar_field& field) {
  if (many_.empty() && few_size_ < few_.size()) {
    few_[few_size_++] = field;
    return;
  }
  if (many_.empty()) many_.assign(few_.begin(), few_.end());
  many_.push_back(field);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::string_view tar_sample::text(std::string_view field) const& {
  const auto bytes = at(field);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

FEEDLINE_INLINE std::optional<std::span<const std::byte>>
tar_sample::find(std::string_view field) const& noexcept {
  for (const tar_field& f : fields_)
    if (f.name == field) return f.bytes;
  return {};
}

FEEDLINE_INLINE tar_bytes tar_sample::share(std::string_view field) const { return {shard_, at(field)}; }

FEEDLINE_INLINE std::string tar_sample::file() const { return shard_->path; }

FEEDLINE_INLINE std::uint64_t tar_sample::identity() const noexcept {
  std::uint64_t hash =
      detail::key(stable_hash(shard_->path), shard_->bytes, shard_->version, stable_hash(key()), offset_);
  for (const tar_field& field : fields_)
    hash = detail::key(hash, stable_hash(field.name), field.bytes.size());
  return hash;
}

FEEDLINE_INLINE std::string tar_sample::origin() const {
  std::string text = detail::readable(shard_->path) + ": " + detail::readable(key());
  for (const tar_field& field : fields_) {
    if (&field != begin()) text += ", ";
    if (!field.name.empty()) text.append(".").append(detail::readable(field.name));
  }
  return text;
}

FEEDLINE_INLINE std::span<const std::byte> tar_sample::at(std::string_view field) const {
  for (const tar_field& f : fields_)
    if (f.name == field) return f.bytes;
  std::string text = detail::readable(shard_->path) + ": sample " + detail::in_backticks(key()) +
                     " has no field " + detail::in_backticks(field) + "; it has";
  for (const tar_field& f : fields_) text += (&f == begin() ? " " : ", ") + detail::in_backticks(f.name);
  if (links_) text += *links_ + ", which isn't followed: store the file itself (tar --dereference)";
  throw tar_error(text);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
