// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/tar_sample.hpp>

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
