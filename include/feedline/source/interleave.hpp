// SPDX-License-Identifier: MIT
#pragma once
// interleave: makes a source read several of its files at once.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <file_source Source>
class interleaved_source {
 public:
  static constexpr source_traits traits{.kind = kind_of<Source>(), .splits_files_by_rank = true};

  interleaved_source(Source source, std::size_t at_once)
      : source_(std::move(source)), at_once_(at_once), order_(source_.files()) {}

  void start_epoch(const epoch& e) {
    order_.start(e);
    epoch_ = e;
    epoch_.shuffled = false; // a slot has one file at a time
    epoch_.rank = {};        // order_ already selects the files of this rank
    turn_ = 0;
    const std::uint64_t files = std::min({std::uint64_t{at_once_}, extent(), e.extent});
    slots_.assign(static_cast<std::size_t>(files), slot{sub_source<Source>(source_)});
  }

  std::optional<source_item_t<Source>> next() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slot& s = slots_[turn_];
      turn_ = (turn_ + 1) % slots_.size(); // also if reading this one throws
      while (s.source.is_running() || open_next(s)) {
        if (auto value = s.source.next()) {
          index_ = s.source.index();
          return value;
        }
      }
    }
    return std::nullopt;
  }

  std::uint64_t index() const noexcept { return index_; }

  void state(auto& archive) {
    order_.state(archive);
    archive(turn_);
    for (slot& s : slots_) {
      std::size_t open = s.source.is_running() ? s.file + 1 : 0;
      archive(open);
      if (open == 0) continue;
      if (!s.source.is_running()) begin(s, open - 1); // in a resumed run
      s.source.state(archive, epoch_);
    }
  }

  void resumed() {
    if (turn_ >= std::max<std::size_t>(1, slots_.size())) detail::throw_state_not_whole();
    for (slot& s : slots_) s.source.resumed();
  }

  void seek(std::uint64_t index) {
    order_.go_to(static_cast<std::size_t>(extent())); // after the last file
    turn_ = 0;
    if (slots_.size() != 1) slots_.assign(1, slot{sub_source<Source>(source_)});
    slots_.front().source.seek(index, 0, epoch_);
  }

  std::optional<std::size_t> max_item_bytes() const { return max_item_bytes_of(source_); }

  std::size_t bytes_held() const {
    return product_of(at_once_, bytes_held_by(source_)).value_or(~std::size_t{0});
  }

  std::uint64_t extent() const noexcept { return source_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    return key(at_once_, fingerprint_of(source_, extent, stop));
  }

  std::string parameters() const {
    std::string all = parameters_of(source_);
    add_parameters(all, "the number of files of interleave: " + size_text(at_once_));
    return all;
  }

  std::string outage() const { return outage_of(source_); }

  std::string origin(std::uint64_t index) const { return origin_of(source_, index); }

 private:
  struct slot {
    sub_source<Source> source; // idle or ended when the slot is free
    std::size_t file = 0;
  };

  bool open_next(slot& s) {
    const auto file = order_.next();
    if (file) begin(s, *file);
    return file.has_value();
  }

  void begin(slot& s, std::size_t file) {
    s.file = file;
    s.source.rewind();
    s.source.seek(file_order::index_of(file, 0), 0, epoch_);
  }

  Source source_;
  std::size_t at_once_;
  file_order order_;
  epoch epoch_;
  std::vector<slot> slots_;
  std::size_t turn_ = 0; // slot of the next sample
  std::uint64_t index_ = 0;
};

struct interleave_part {
  using feedline_part = void;
  using feedline_changes_source = void;

  template <class Source, class... Segments>
  auto changed(const pipeline<Source, Segments...>& p) const {
    constexpr bool may_stand_here =
        keep_any_order(typename pipeline<Source, Segments...>::segments::stage_types());
    static_assert(may_stand_here,
                  "feedline: interleave() must follow the source directly, or map, filter and tap");
    static_assert(file_source<Source>,
                  "feedline: this Source doesn't read one file after another, so there are "
                  "none to interleave: interleave() takes lines, records, read_files and tar_samples");
    if constexpr (may_stand_here && file_source<Source>) {
      return with_source(interleaved_source<Source>(p.source(), at_once), p);
    } else {
      return refused_pipeline();
    }
  }

  std::size_t at_once;
};

} // namespace detail

/// Makes a source read several files at once, and yields one sample of each in turn. When a file ends, the
/// next one replaces it. It must follow the source directly, or map, filter and tap.
///
/// Takes:   lines, records, read_files and tar_samples; the number of files, at least one
/// Gives:   every sample of the source, with the same index
/// Order:   files are opened in the source's order; samples of a file keep their order
/// Throws:  std::invalid_argument for no files; what the source throws for a file, in that file's turn: the
///          other files continue
/// Example: `lines({"corpus/*.txt"}) | interleave(16) | shuffle({.capacity = 10'000}) | batch(32, padded{})`
inline auto interleave(std::size_t files) {
  if (files == 0) throw std::invalid_argument("feedline::interleave: the number of files must be at least 1");
  detail::refuse_negative(files, "feedline::interleave: the number of files");
  return detail::interleave_part{files};
}

} // namespace feedline::inline FEEDLINE_ABI
