// SPDX-License-Identifier: MIT
#pragma once
// A run of a sliding window pool: yields the chunks of its window, pass after pass.
#include <chrono>

#include <feedline/core/contract.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/window/detail/pool_indexer.hpp>
#include <feedline/window/pool_chunk.hpp>
#include <feedline/window/pool_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// `Make` turns an item of `Upstream` into a source of chunks.
template <source Upstream, class Make>
class pool_run {
  using indexer = pool_indexer<Upstream, Make>;
  using window = typename indexer::window_type;

 public:
  using chunk = pool_chunk<typename indexer::chunks>;

  pool_run(const Upstream& upstream, const Make& make, const pool_options& options, const epoch& e,
           std::string anchor)
      : options_(options),
        make_(make),
        seed_(key(e.seed, e.rank.number)),
        endless_(e.endless),
        outcomes_(e.outcomes),
        window_(options.window, seed_, std::move(anchor)),
        may_accept_(!options.accept),
        indexer_(upstream, make_, options_, e, window_) {}

  bool ready() const {
    const auto lock = indexer_.lock();
    return can_go_on() && !must_rest();
  }

  /// The next chunk; nothing at the end or after a stop. Throws the errors of the index threads; the next call continues.
  std::optional<chunk> next() {
    for (;;) {
      std::string notice;
      std::exception_ptr failure;
      std::optional<typename window::place> drawn;
      std::uint64_t pass = 0;
      {
        auto lock = indexer_.lock();
        if (!indexer_.wait(lock, [this] { return can_go_on(); })) return std::nullopt;
        if (indexer_.is_stopped()) return std::nullopt;
        if (must_rest()) {
          if (!rests_until_) begin_rest(notice);
          else if (!indexer_.wait_until(lock, *rests_until_, [this] { return !must_rest(); }))
            has_rested_ = true;
        } else if (indexer_.has_failure()) {
          failure = indexer_.take_failure();
        } else if (!started_ && window_.sources() > 0) {
          started_ = true;
          notice = "sliding_window_pool: starts with " + std::to_string(window_.size()) + " chunks of " +
                   std::to_string(window_.sources()) + " sources";
        } else if (window_.left() == 0) {
          if (!can_pass_again()) return std::nullopt;
          end_pass(notice, failure);
        } else {
          pass = window_.pass();
          drawn = window_.draw(endless_);
          if (drawn) all_gone_ = false;
        }
      }
      if (failure) std::rethrow_exception(failure);
      if (!notice.empty() && options_.on_notice) options_.on_notice(notice);
      if (!drawn) continue;
      chunk c(drawn->source, drawn->position, drawn->number, pass, seed_);
      if (!options_.accept || accepts(c, *drawn->source, drawn->position)) return c;
    }
  }

  pool_status status() const {
    const auto lock = indexer_.lock();
    return {
        started_,       window_.sources(),      window_.size(), options_.window,         window_.indexed(),
        window_.pass(), window_.since_anchor(), left_out_,      indexer_.time().count(), window_.gone()};
  }

  void set_anchor(std::string key) {
    const auto lock = indexer_.lock();
    window_.set_anchor(std::move(key));
  }

  /// Returns the key of the newest chunk; empty if there is none.
  std::string reset_anchor() {
    const auto lock = indexer_.lock();
    return window_.reset_anchor();
  }

  /// The key of the newest chunk; empty if there is none.
  std::string newest() const {
    const auto lock = indexer_.lock();
    return window_.newest_key();
  }

 private:
  // The most failures in a row that prove nothing: while one worker processes a good chunk, the others may fail many
  // times for the rest of a small window.
  static constexpr std::uint64_t few_failures = 1000;

  using clock = std::chrono::steady_clock;
  static constexpr clock::duration first_rest = std::chrono::milliseconds(100);
  static constexpr clock::duration longest_rest = std::chrono::seconds(10);

  // Whether next() returns without a wait.
  bool can_go_on() const noexcept {
    if (indexer_.has_failure()) return true;
    if (indexer_.has_all()) return true;
    if (!endless_ || window_.sources() == 0) return false;
    if (!started_)
      return options_.min_fill == 0 ? indexer_.has_old()
                                    : window_.size() >= std::min(options_.min_fill, options_.window);
    return window_.indexed() != useless_;
  }

  bool can_pass_again() const noexcept {
    return window_.size() > 0 && endless_ && window_.indexed() != useless_;
  }

  bool all_are_gone() const noexcept { return all_gone_ && !indexer_.has_all(); }

  // Whether a pass is complete and every chunk of it failed or is gone. Then the next pass waits, but new chunks don't.
  bool must_rest() const {
    if (!started_ || has_rested_ || indexer_.has_failure() || window_.left() > 0 || !can_pass_again())
      return false;
    return all_are_gone() ||
           (outcomes_ != nullptr && outcomes_->failed_in_row() >= std::max(window_.size(), few_failures));
  }

  void begin_rest(std::string& notice) {
    if (rest_ == rest_.zero())
      notice =
          all_are_gone()
              ? "sliding_window_pool: the files of all " + std::to_string(window_.size()) +
                    " chunks of the window are gone: the run looks for them after pauses, and waits for new "
                    "chunks"
              : "sliding_window_pool: all " + std::to_string(window_.size()) +
                    " chunks of the window failed: they are tried again after pauses, new chunks at once";
    rest_ = std::clamp(2 * rest_, first_rest, longest_rest);
    rests_until_ = clock::now() + rest_;
  }

  void end_pass(std::string& notice, std::exception_ptr& failure) {
    if (all_gone_) {
      if (indexer_.has_all()) useless_ = window_.indexed();
    } else if (!may_accept_) {
      useless_ = window_.indexed();
      failure = std::make_exception_ptr(std::runtime_error(
          "feedline::sliding_window_pool: accept returned 0 for all " + std::to_string(window_.size()) +
          " chunks of the window: the run waits for new chunks"));
    } else if (window_.pass() == 0 || options_.notice_each_pass) {
      notice = "sliding_window_pool: all " + std::to_string(window_.size()) +
               " chunks of the window have been used" +
               (window_.pass() == 0 ? "" : " " + std::to_string(window_.pass() + 1) + " times") +
               ", and are used again: new chunks arrive too slowly";
    }
    may_accept_ = !options_.accept;
    all_gone_ = true;
    if (!std::exchange(has_rested_, false)) rest_ = rest_.zero();
    rests_until_.reset();
    window_.start_pass();
  }

  bool accepts(const chunk& c, const auto& source, std::uint64_t position) {
    std::uint64_t bytes = 0;
    if constexpr (requires { source.bytes(position); }) bytes = source.bytes(position);
    const bool might_accept = std::exchange(may_accept_, true); // also if it throws
    const double probability = options_.accept(c.key(), bytes);
    if (!(probability >= 0 && probability <= 1))
      throw std::runtime_error("feedline::sliding_window_pool: accept returned " +
                               std::to_string(probability) + " for " + in_backticks(c.key()) +
                               ": a probability must be from 0 to 1");
    may_accept_ = might_accept || probability > 0;
    if (random_generator(key(c.random_key(), 1)).chance(probability)) return true;
    const auto lock = indexer_.lock();
    ++left_out_;
    return false;
  }

  const pool_options options_;
  const Make make_;
  const std::uint64_t seed_;
  const bool endless_;
  sample_outcomes* const outcomes_;

  window window_; // protected by the indexer's lock, as the members below
  bool started_ = false;
  bool may_accept_;                                // a chunk of this pass may be accepted
  std::uint64_t useless_ = ~std::uint64_t{0};      // the count of indexed chunks when none could be yielded
  clock::duration rest_ = clock::duration::zero(); // length of the last pause, if no pass has succeeded since
  std::optional<clock::time_point> rests_until_;   // between this pass and the next
  bool has_rested_ = false;
  std::uint64_t left_out_ = 0;
  bool all_gone_ = true; // the files of all chunks drawn in this pass

  indexer indexer_; // last, because its threads use the members above
};

} // namespace feedline::inline FEEDLINE_ABI::detail
