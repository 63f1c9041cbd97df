// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/source_reader.hpp>

#include <algorithm>
#include <exception>

#include <feedline/core/failure.hpp>
#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE source_reader::source_reader(const run_options& options, const run_context& context,
                                             rank_division division, source_place& at)
    : options_(options),
      context_(context),
      at_(at),
      division_(division_among(options.rank, division)),
      passes_over_others_(division_ == rank_division::by_run && !options.rank.is_alone()) {}

FEEDLINE_INLINE void source_reader::begin_epoch() {
  feedline::epoch e =
      make_epoch(options_, static_cast<std::uint32_t>(at_.epoch), context_.source_stop, at_.first);
  e.outcomes = context_.outcomes;
  source_ = started(e);
}

FEEDLINE_INLINE sample_id source_reader::failed_sample() const noexcept {
  sample_id id{.epoch = static_cast<std::uint32_t>(at_.epoch)};
  try {
    if (source_) id.index = failed_index();
  } catch (...) { // then it is unknown
  }
  return id;
}

FEEDLINE_INLINE void source_reader::end_epoch(bool cut_short) {
  at_.next_first = options_.rank.number;
  if (!is_endless()) return;
  if (division_ == rank_division::by_sample) {
    if (source_) at_.next_first = share()->next_first();
  } else if (division_ != rank_division::by_file && !cut_short) {
    at_.next_first = at_.first;
  }
}

FEEDLINE_INLINE void source_reader::go_to_next_epoch() noexcept {
  at_ = {at_.epoch + 1, 0, 0, at_.next_first};
  source_.reset();
}

FEEDLINE_INLINE bool source_reader::is_empty() {
  if (division_ == rank_division::by_sample) return share()->places == 0;
  const std::uint64_t left_out_now = left_out(); // it may be the whole epoch, by chance
  const std::uint32_t least = context_.empty_epochs;
  const bool is_filtered = filtered_.sees_end({0, left_out_now}, at_.given > 0, false, least);
  empty_epochs_ = at_.given == 0 && left_out_now == 0 ? empty_epochs_ + 1 : 0;
  return is_filtered || empty_epochs_ >= least;
}

FEEDLINE_INLINE void source_reader::publish_numbers(const void* source,
                                                    stage_counters& counters) const noexcept {
  try {
    reported_numbers out{counters.numbers};
    report_metrics(source, out);
  } catch (...) { // metrics aren't worth a failure
  }
}

FEEDLINE_INLINE bool source_reader::read_of_rank() {
  const rank& r = options_.rank;
  if (at_.first == no_more) return false;
  for (; at_.first > 0; --at_.first)
    if (!pass_over()) return wrap(r.number - std::min<std::uint64_t>(at_.first, r.number));
  at_.first = r.world_size - 1;
  std::exception_ptr error;
  bool own = false;
  try {
    own = read(true);
  } catch (...) {
    error = std::current_exception();
  }
  if (!own && !error) {
    at_.first = 0; // continues with the next sample there is
    return wrap(r.number);
  }
  if (own) {
    id_ = id_of_last(at_.given);
    ++at_.given;
  }
  if (!is_endless() && r.remainder != remainder::keep) {
    // Checks whether every rank gets a sample.
    at_.first = r.number;
    for (std::uint32_t other = r.number + 1; other < r.world_size; ++other) {
      if (pass_over()) continue;
      if (r.remainder == remainder::drop && !(error && is_outage(error))) return false;
      at_.first = no_more;
      break;
    }
  }
  if (error) std::rethrow_exception(error);
  return own;
}

FEEDLINE_INLINE bool source_reader::pass_over() {
  try {
    if (!read(false)) return false;
    ++at_.given;
  } catch (...) { // reported by the rank that it belongs to
    if (is_outage(std::current_exception())) throw;
    ++at_.failed;
  }
  return true;
}

FEEDLINE_INLINE bool source_reader::wrap(std::uint64_t ranks) {
  const rank& r = options_.rank;
  if (ranks == 0 || r.remainder != remainder::wrap || is_endless() || at_.given == 0) return false;
  at_.first = no_more;

  // The epoch goes on with the copy that has ended it.
  struct put_back {
    std::shared_ptr<void>& source;
    std::shared_ptr<void> ended = source;

    ~put_back() { source = std::move(ended); }
  } const after{source_};

  begin_epoch();
  const std::uint64_t number = (r.number - ranks) % at_.given;
  for (std::uint64_t given = 0;;) {
    try {
      const bool found = read(true);
      if (found) id_ = id_of_last(given);
      if (!found || given++ == number) return found;
    } catch (...) { // was reported before
      if (is_outage(std::current_exception())) throw;
    }
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
