// SPDX-License-Identifier: MIT
#pragma once
// The kinds of TAR shards that are open: mapped, in parts, and decompressed.
#include <feedline/core/contract.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/part_stream.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/lines_options.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using streamed_archive = basic_stream_archive<part_stream>;
using streamed_shard = tar_shard_of<streamed_archive>;

/// Reads the samples of a shard of one type.
template <class Shard>
class opened_tar_shard : public open_tar_shard {
 public:
  template <class... Arguments>
  explicit opened_tar_shard(Arguments&&... arguments) : shard_(std::forward<Arguments>(arguments)...) {}

  std::optional<tar_sample> next() override { return shard_.next(); }

  std::uint64_t position() const noexcept override { return shard_.position(); }

  std::uint64_t offset() const noexcept override { return shard_.begin(); }

  tar_place place() const override { return shard_.place(); }

  bool is_ready([[maybe_unused]] std::uint64_t bytes) const noexcept override {
    if constexpr (std::is_same_v<Shard, tar_shard>) {
      return true;
    } else {
      const part_stream& stream = shard_.archive().stream();
      return !stream.problem().empty() || stream.left_in_part() >= bytes;
    }
  }

 private:
  Shard shard_;
};

/// A shard that is decompressed. `object`: what the stream reads; null for a file, which `version` keeps.
class compressed_tar_shard final : public opened_tar_shard<streamed_shard> {
 public:
  compressed_tar_shard(std::shared_ptr<const named_version> version,
                       const std::shared_ptr<text_stream>& stream, const std::shared_ptr<part_stream>& object,
                       const tar_settings& how, std::stop_token stop)
      : opened_tar_shard(std::move(version),
                         streamed_archive(contents(stream, object, std::move(stop)), how.max_sample_bytes),
                         how),
        stream_(stream),
        object_(object) {}

  std::uint64_t offset() const noexcept override { return stream_->offset(); }

  bool is_ready(std::uint64_t bytes) const noexcept override {
    // Decompressing may take a whole step of the object, however few bytes the last sample took.
    return !object_ || !object_->problem().empty() || object_->has_ended() ||
           object_->left_in_part() >= std::max<std::uint64_t>(bytes, step);
  }

 private:
  static constexpr std::size_t step = std::size_t{64} << 10;

  static part_stream contents(const std::shared_ptr<text_stream>& stream,
                              const std::shared_ptr<part_stream>& object, std::stop_token stop) {
    const auto memory = std::make_shared_for_overwrite<std::byte[]>(step);
    const auto next = [=, stop = std::move(stop)](std::uint64_t) -> stream_part {
      if (stop.stop_requested()) return {};
      const std::size_t got = stream->read(memory.get(), step);
      const std::string& problem =
          object && !object->problem().empty() ? object->problem() : stream->problem();
      if (got == 0 && !problem.empty()) throw std::runtime_error(problem);
      return {~std::uint64_t{0}, {memory.get(), got}};
    };
    part_stream all({}, next, 0);
    all.read_everything();
    return all;
  }

  std::shared_ptr<text_stream> stream_;
  std::shared_ptr<part_stream> object_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
