// SPDX-License-Identifier: MIT
#pragma once
// A sample from a TAR shard: named views of the mapped file.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>

namespace feedline::inline v0 {

/// A shard, or a sample of it, that can't be read. what() names the file and, where there is one, the member
/// and its offset: "photos-0003.tar: member `000036.jpg` at offset 12288 is cut off: 5644 bytes announced,
/// 1200 left".
class tar_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One file of a sample: `jpg` and its contents.
struct tar_field {
  std::string_view name;
  std::span<const std::byte> bytes;
};

/// The contents of a field that keep their shard mapped, for those who need them longer than the sample.
class tar_bytes : public std::span<const std::byte> {
 public:
  tar_bytes(std::shared_ptr<const detail::mapped_file> file, std::span<const std::byte> bytes) noexcept
      : std::span<const std::byte>(bytes), file_(std::move(file)) {}

 private:
  std::shared_ptr<const detail::mapped_file> file_;
};

namespace detail {

template <class Archive>
class basic_tar_shard;

/// Fields of a sample: four in place, more on the heap.
class tar_fields {
 public:
  tar_fields() = default;
  tar_fields(const tar_fields&) = default;
  tar_fields& operator=(const tar_fields&) = default;

  tar_fields(tar_fields&& other) noexcept
      : few_(other.few_), many_(std::move(other.many_)), few_size_(std::exchange(other.few_size_, 0)) {
    other.many_.clear();
  }

  tar_fields& operator=(tar_fields&& other) noexcept {
    few_ = other.few_;
    many_ = std::exchange(other.many_, {});
    few_size_ = std::exchange(other.few_size_, 0);
    return *this;
  }

  ~tar_fields() = default;

  void push_back(const tar_field& field) {
    if (many_.empty() && few_size_ < few_.size()) {
      few_[few_size_++] = field;
      return;
    }
    if (many_.empty()) many_.assign(few_.begin(), few_.end());
    many_.push_back(field);
  }

  const tar_field* begin() const noexcept { return many_.empty() ? few_.data() : many_.data(); }

  std::size_t size() const noexcept { return many_.empty() ? few_size_ : many_.size(); }

  const tar_field* end() const noexcept { return begin() + size(); }

 private:
  std::array<tar_field, 4> few_{};
  std::vector<tar_field> many_;
  std::size_t few_size_ = 0;
};

} // namespace detail

/// A sample: neighbouring members of a shard that share their name up to the first dot behind the last slash.
/// `dir/17.jpg` and `dir/17.cls` are the fields `jpg` and `cls` of the sample `dir/17`; `dir/17` alone is a
/// field with an empty name. Fields keep their order and spelling. Names and contents are views of the mapped
/// shard, which lives as long as one of its samples (or what share() gave) does, whatever becomes of the
/// source; or, if the shard is compressed, of memory that the sample and its copies share.
class tar_sample {
 public:
  using feedline_view = void; // of a file that is mapped, where its source doesn't say that it takes more

  /// `dir/17`
  std::string_view key() const& noexcept { return long_key_.empty() ? key_ : long_key_; }

  /// The contents of a field. Throws tar_error, which lists the fields that there are.
  std::span<const std::byte> operator[](std::string_view field) const& { return at(field); }

  /// The contents of a field as text.
  std::string_view text(std::string_view field) const& {
    const auto bytes = at(field);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// The contents of a field if it is there.
  std::optional<std::span<const std::byte>> find(std::string_view field) const& noexcept {
    for (const tar_field& f : fields_)
      if (f.name == field) return f.bytes;
    return {};
  }

  // A view from a sample that ends with the expression would dangle: name the sample first, or use share().
  std::string_view key() const&& = delete;
  std::span<const std::byte> operator[](std::string_view) const&& = delete;
  std::string_view text(std::string_view) const&& = delete;
  std::optional<std::span<const std::byte>> find(std::string_view) const&& = delete;

  /// The contents of a field, with a share in the mapping. Throws tar_error as operator[] does.
  tar_bytes share(std::string_view field) const { return {file_, at(field)}; }

  /// The fields in the shard's order.
  const tar_field* begin() const noexcept { return fields_.begin(); }

  const tar_field* end() const noexcept { return fields_.end(); }

  std::size_t size() const noexcept { return fields_.size(); }

  /// The shard, as it was given to the source.
  std::string file() const { return file_->path(); }

  /// A hash of what tells the sample from others and from what stood there at another time: the shard's name, size
  /// and time, where in it the sample lies, and its fields' names and sizes.
  std::uint64_t identity() const noexcept {
    std::uint64_t hash =
        detail::key(stable_hash(file_->path()), file_->bytes().size(),
                    static_cast<std::uint64_t>(file_->modified_ns()), stable_hash(key()), offset_);
    for (const tar_field& field : fields_)
      hash = detail::key(hash, stable_hash(field.name), field.bytes.size());
    return hash;
  }

  /// Names file and members: "photos-0003.tar: dir/17.jpg, .cls".
  std::string origin() const {
    std::string text = detail::readable(file_->path()) + ": " + detail::readable(key());
    for (const tar_field& field : fields_) {
      if (&field != begin()) text += ", ";
      if (!field.name.empty()) text.append(".").append(detail::readable(field.name));
    }
    return text;
  }

 private:
  template <class Archive>
  friend class detail::basic_tar_shard;

  tar_sample() = default;

  std::span<const std::byte> at(std::string_view field) const {
    for (const tar_field& f : fields_)
      if (f.name == field) return f.bytes;
    std::string text = detail::readable(file_->path()) + ": sample " + detail::in_backticks(key()) +
                       " has no field " + detail::in_backticks(field) + "; it has";
    for (const tar_field& f : fields_) text += (&f == begin() ? " " : ", ") + detail::in_backticks(f.name);
    throw tar_error(text);
  }

  std::shared_ptr<const detail::mapped_file> file_; // and the memory that the rest lies in
  std::uint64_t offset_ = 0;                        // in the archive
  std::string_view key_;
  std::string long_key_; // where ustar has split the name, so that the key is nowhere in one piece
  detail::tar_fields fields_;
};

} // namespace feedline::inline v0
