// SPDX-License-Identifier: MIT
#pragma once
// Groups the members of one TAR shard into samples.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Passes the first notice about samples whose members aren't neighbours to a user's function. Any thread may use it.
class tar_notice {
 public:
  explicit tar_notice(callback<std::string> on_notice) : on_notice_(std::move(on_notice)) {}

  bool was_given() const noexcept { return was_given_.load(std::memory_order_relaxed); }

  void give(const std::string& sentence) {
    if (was_given_.exchange(true)) return;
    try {
      on_notice_(sentence);
    } catch (...) { // a notice isn't worth a failure
    }
  }

 private:
  const callback<std::string> on_notice_;
  std::atomic<bool> was_given_{false};
};

/// The hashes of a shard's keys so far, at most 2^20.
class seen_keys {
 public:
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;

  /// Adds a hash. False if it was there.
  bool add(std::uint64_t hash) {
    constexpr std::size_t most = most_bytes / sizeof(std::uint64_t) / 2;
    hash += hash == 0;
    const auto slot_of = [this](std::uint64_t wanted) {
      std::size_t at = static_cast<std::size_t>(wanted) % slots_.size();
      while (slots_[at] != 0 && slots_[at] != wanted) at = (at + 1) % slots_.size();
      return slots_.begin() + static_cast<std::ptrdiff_t>(at);
    };
    if (2 * size_ == slots_.size() && size_ < most) {
      const auto before =
          std::exchange(slots_, std::vector<std::uint64_t>(std::max<std::size_t>(64, 4 * size_)));
      for (const std::uint64_t other : before)
        if (other != 0) *slot_of(other) = other;
    }
    const auto slot = slot_of(hash);
    if (*slot == hash) return false;
    if (size_ == most) return true;
    *slot = hash;
    ++size_;
    return true;
  }

 private:
  std::size_t size_ = 0;
  std::vector<std::uint64_t> slots_; // a hash table with linear probing, at most half full; 0: free
};

/// The samples of one shard. Archive reads the bytes from its file.
template <class Archive>
class basic_tar_shard {
 public:
  /// `reader` begins at `from`.
  basic_tar_shard(std::shared_ptr<const named_version> file, basic_tar_reader<Archive> reader,
                  const tar_settings& how, const tar_place& from = {.position = 0})
      : file_(std::move(file)),
        reader_(std::move(reader)),
        notice_(how.notice),
        usual_size_(static_cast<std::size_t>(from.usual_size)),
        position_(from.position) {
    if (how.hidden) reader_.keep_hidden();
    if (from.begin != tar_place::none) advance();
    if (has_only_hidden()) ahead_.begin = from.begin; // where an index finds the error again
  }

  /// Returns the next sample; nothing at the shard's end. Throws tar_error instead of a sample with a member
  /// that can't be read: it never returns a partial sample. Later calls return the samples after it, if the
  /// rest of the shard can be read; this is also so after other exceptions, but not after an outage. A shard of hidden
  /// members only has one sample, which is an error.
  std::optional<tar_sample> next() {
    if (has_only_hidden()) {
      ++position_;
      throw tar_error(readable(file_->path) + ": all members are hidden (" +
                      std::to_string(reader_.hidden()) +
                      "): set `hidden` in the source's options to read them");
    }
    if (status_ == tar_status::end) return {};
    ++position_;
    std::optional<tar_sample> sample{tar_sample()};
    try {
      read(*sample);
    } catch (...) {
      while (goes_on(*sample)) advance();
      throw;
    }
    return sample;
  }

  /// How many samples next() has returned, including those that it threw instead of.
  std::uint64_t position() const noexcept { return position_; }

  /// The offset of the next sample.
  std::uint64_t begin() const noexcept { return ahead_.begin; }

  /// From where a later pass yields what next() would.
  tar_place place() const {
    return {position_, status_ == tar_status::end ? tar_place::none : begin(), usual_size_, globals()};
  }

  const std::vector<std::uint64_t>& globals() const noexcept { return reader_.globals(); }

  /// How many fields the last sample that could be read has.
  std::size_t usual_size() const noexcept { return usual_size_; }

  const Archive& archive() const noexcept { return reader_.archive(); }

  /// Whether the next header is damaged.
  bool is_at_damage() const noexcept { return status_ == tar_status::damaged; }

 private:
  // "dir.d/17.seg.png" is split into "dir.d/17" and "seg.png".
  static std::pair<std::string_view, std::string_view> split(std::string_view name) noexcept {
    const std::size_t dot = name.find('.', name.rfind('/') + 1);
    if (dot == std::string_view::npos) return {name, {}};
    return {name.substr(0, dot), name.substr(dot + 1)};
  }

  void advance() {
    error_ = nullptr;
    try {
      status_ = reader_.next(ahead_);
    } catch (...) { // the error of the sample that the member belongs to
      error_ = std::current_exception();
      if (is_outage(error_)) {
        status_ = tar_status::end;
        throw;
      }
      status_ = reader_.has_ended() ? tar_status::damaged : tar_status::unreadable;
    }
  }

  bool has_only_hidden() const noexcept {
    return status_ == tar_status::end && position_ == 0 && reader_.hidden() > 0;
  }

  void read(tar_sample& sample) {
    const tar_member first = ahead_;
    try {
      sample.shard_ = reader_.archive().begin_sample(file_);
      sample.offset_ = first.offset;
      const std::string_view stem = split(first.name).first;
      if (first.directory.empty()) sample.key_ = stem;
      else sample.long_key_ = std::string(first.directory).append("/").append(stem);
    } catch (...) { // its key isn't known, so neither are its other members
      status_ = tar_status::end;
      throw;
    }
    std::string problem;
    std::exception_ptr error;
    do {
      const bool has_room = reader_.archive().keep_member();
      if (error_) {
        error = error_;
      } else if (status_ != tar_status::member) {
        if (problem.empty()) problem = reader_.problem();
      } else if (has_room) {
        sample.fields_.push_back({split(ahead_.name).second, ahead_.bytes});
      } else if (problem.empty()) {
        problem = "sample " + in_backticks(sample.key()) + " at offset " + std::to_string(first.offset) +
                  " is larger than the limit, max_sample_bytes";
      }
      advance();
    } while (goes_on(sample));
    if (status_ == tar_status::damaged && problem.empty() && !is_complete(sample)) {
      if (error_) error = error_;
      else
        problem = reader_.problem() + "; sample " + in_backticks(sample.key()) +
                  " before it may have lost members there";
      advance();
    }
    if (notice_ && !notice_->was_given()) notice_second(sample, first.offset);
    if (error) std::rethrow_exception(error);
    if (problem.empty()) problem = duplicate(sample, first.offset);
    if (!problem.empty()) throw tar_error(readable(file_->path) + ": " + problem);
    usual_size_ = sample.size();
  }

  bool goes_on(const tar_sample& sample) const {
    return status_ != tar_status::end && status_ != tar_status::damaged && status_ != tar_status::spoilt &&
           has_key_of(sample);
  }

  bool has_key_of(const tar_sample& sample) const {
    std::string_view key = sample.key(), stem = split(ahead_.name).first;
    if (ahead_.directory.empty()) return key == stem;
    const std::size_t directory = ahead_.directory.size();
    return key.size() == directory + 1 + stem.size() && key.starts_with(ahead_.directory) &&
           key[directory] == '/' && key.ends_with(stem);
  }

  // At a damaged header it is unknown whether the sample before it continues there. It counts as complete if
  // it has as many fields as the sample before, or if the damaged header seems to name another key with a
  // field that the sample has already.
  bool is_complete(const tar_sample& sample) const {
    if (has_key_of(sample)) return false;
    if (usual_size_ > 0 && sample.size() >= usual_size_) return true;
    return sample.find(split(ahead_.name).second).has_value();
  }

  void notice_second(const tar_sample& sample, std::uint64_t offset) {
    if (seen_.add(stable_hash(sample.key()))) return;
    notice_->give(readable(file_->path) + ": the members of sample " + in_backticks(sample.key()) +
                  " aren't neighbours: at offset " + std::to_string(offset) +
                  " more of them follow, as another sample. Write the members of a sample one after another "
                  "(tar --sort=name); further samples aren't reported");
  }

  static std::string duplicate(const tar_sample& sample, std::uint64_t offset) {
    const std::string_view* twice = nullptr;
    constexpr std::size_t few = 16; // above it, sort: all pairs of a hostile shard would take too long
    std::vector<std::string_view> names;
    if (sample.size() <= few) {
      for (const tar_field& a : sample)
        for (const tar_field* b = &a + 1; b < sample.end(); ++b)
          if (a.name == b->name) twice = &a.name;
    } else {
      for (const tar_field& f : sample) names.push_back(f.name);
      std::sort(names.begin(), names.end());
      const auto found = std::adjacent_find(names.begin(), names.end());
      if (found != names.end()) twice = &*found;
    }
    if (!twice) return {};
    const std::string where = "sample " + in_backticks(sample.key()) + " at offset " + std::to_string(offset);
    if (twice->empty())
      return where + " has more than one member without an extension: give each a different extension";
    return where + " has the field " + in_backticks(*twice) + " more than once";
  }

  std::shared_ptr<const named_version> file_;
  basic_tar_reader<Archive> reader_;
  std::shared_ptr<tar_notice> notice_;
  seen_keys seen_; // if there is a notice to give
  tar_member ahead_;
  tar_status status_ = tar_status::end;
  std::exception_ptr error_; // instead of the member ahead
  std::size_t usual_size_ = 0;
  std::uint64_t position_ = 0;
};

/// The samples of a mapped shard.
class tar_shard : public basic_tar_shard<tar_memory> {
 public:
  tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_settings& how)
      : basic_tar_shard(version_of(file), tar_reader(bytes_of(*file)), how) {}

  /// The shard from a place on that an earlier pass has reached.
  tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_settings& how, const tar_place& from)
      : basic_tar_shard(version_of(file), tar_reader(file->bytes(), from.begin, from.globals), how, from) {}

  static std::shared_ptr<const mapped_file> map(const std::string& path, sharing with = sharing::all) {
    try {
      return std::make_shared<const mapped_file>(path, with);
    } catch (const std::runtime_error& error) {
      throw tar_error(error.what());
    }
  }

 private:
  static std::shared_ptr<const named_version> version_of(const std::shared_ptr<const mapped_file>& file) {
    return {file, &file->version()};
  }

  static std::span<const std::byte> bytes_of(const mapped_file& file) {
    if (has_too_many_blocks(file.bytes().size()))
      throw tar_error(readable(file.path()) + ": " + too_many_blocks);
    return file.bytes();
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
