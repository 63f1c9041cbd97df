// SPDX-License-Identifier: MIT
#pragma once
// A run of a sliding-window pool: threads that find sources and look what is in them, and the window of their chunks.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stream_shuffler.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/sub_source.hpp>
#include <feedline/source/pool_chunk.hpp>
#include <feedline/source/pool_options.hpp>
#include <feedline/source/watch_directory.hpp>

namespace feedline::inline v0::detail {

/// What a pool holds of a source of chunks.
template <class Source>
struct pooled_source {
  std::shared_ptr<const Source> source;
  std::uint64_t first; // number of its first chunk
  std::uint64_t count;

  std::uint64_t last() const noexcept { return first + count; }
};

/// How many chunks came since the one with a key.
class anchor_count {
 public:
  const std::string& key() const noexcept { return key_; }

  std::uint64_t since() const noexcept { return since_; }

  /// Chunks that are newer than all before.
  template <class Source>
  void add_newer(const Source& source, std::uint64_t count) {
    if (const auto newer = newer_than_key(source, count)) {
      since_ = *newer;
      found_ = true;
    } else {
      since_ += count;
    }
  }

  /// Chunks that are older than all before.
  template <class Source>
  void add_older(const Source& source, std::uint64_t count) {
    if (found_) return;
    const auto newer = newer_than_key(source, count);
    since_ += newer.value_or(count);
    found_ = newer.has_value();
  }

  /// Counts from that chunk on; of those that came, `sources` are known.
  template <class Sources>
  void set(std::string key, const Sources& sources, std::uint64_t came) {
    anchor_count other;
    other.key_ = std::move(key);
    for (auto s = sources.rbegin(); s != sources.rend() && !other.found_; ++s)
      other.add_older(*s->source, s->count);
    if (!other.found_) other.since_ = came;
    *this = std::move(other);
  }

  /// Counts from now on, after the chunk with that key.
  void reset(std::string key) {
    key_ = std::move(key);
    since_ = 0;
    found_ = true;
  }

 private:
  // How many of them come behind the one with the key.
  template <class Source>
  std::optional<std::uint64_t> newer_than_key(const Source& source, std::uint64_t count) const {
    if (!key_.empty())
      for (std::uint64_t i = count; i > 0; --i)
        if (std::string_view(source.key(i - 1)) == key_) return count - i;
    return {};
  }

  std::string key_; // empty: from the beginning
  std::uint64_t since_ = 0;
  bool found_ = false; // what is older doesn't count
};

/// `Make` makes a source of chunks of what `Upstream` gives. Numbers are those of pool_chunk plus 2^63.
template <source Upstream, class Make>
class pool_run {
 public:
  using item = source_item_t<Upstream>;
  using chunks = std::remove_cvref_t<std::invoke_result_t<const Make&, item&&>>;
  using chunk = pool_chunk<chunks>;

  pool_run(const Upstream& upstream, const Make& make, const pool_options& options, const epoch& e,
           std::string anchor)
      : options_(options),
        make_(make),
        seed_(key(e.seed, e.rank.number)),
        endless_(e.endless),
        shuffler_(seed_),
        may_accept_(!options.accept) {
    anchor_.set(std::move(anchor), sources_, 0);
    epoch own = without_limits(e);
    own.stop = stop_.get_token();
    try {
      threads_.emplace_back([this, upstream = Upstream(upstream), own]() mutable { feed(upstream, own); });
      for (std::size_t i = 0; i < options_.index_threads; ++i) threads_.emplace_back([this] { index(); });
    } catch (...) {
      join();
      throw;
    }
    on_stop_.emplace(e.stop, stopping{&stop_});
  }

  pool_run(const pool_run&) = delete;

  ~pool_run() { join(); }

  bool ready() const {
    const std::lock_guard lock(mutex_);
    return can_go_on();
  }

  /// The next chunk; nothing at the end, or after a stop. Throws what finding sources threw, and goes on.
  std::optional<chunk> next() {
    for (;;) {
      std::string notice;
      std::optional<chunk> drawn;
      std::exception_ptr failure;
      std::shared_ptr<const chunks> from;
      std::uint64_t position = 0;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop_.get_token(), [this] { return can_go_on(); })) return std::nullopt;
        if (stop_.stop_requested()) return std::nullopt;
        if (!failures_.empty()) {
          failure = std::move(failures_.front());
          failures_.pop_front();
        } else if (!started_ && !sources_.empty()) {
          started_ = true;
          notice = "sliding_window_pool: begins with " + std::to_string(shuffler_.size()) + " chunks of " +
                   std::to_string(sources_.size()) + " sources";
        } else if (shuffler_.left() == 0) {
          if (shuffler_.size() == 0 || !endless_ || indexed_ == useless_) return std::nullopt;
          end_pass(notice, failure);
        } else {
          const std::uint64_t number = *shuffler_.draw();
          const auto found =
              std::upper_bound(sources_.begin(), sources_.end(), number,
                               [](std::uint64_t n, const pooled_source<chunks>& s) { return n < s.last(); });
          from = found->source;
          position = number - found->first;
          drawn.emplace(from, position, static_cast<std::int64_t>(number - middle), shuffler_.pass(), seed_);
        }
      }
      if (failure) {
        changed_.notify_all(); // there is room for another one
        std::rethrow_exception(failure);
      }
      if (!notice.empty() && options_.on_notice) options_.on_notice(notice);
      if (drawn && (!options_.accept || accepts(*drawn, *from, position))) return drawn;
    }
  }

  pool_status status() const {
    const std::lock_guard lock(mutex_);
    return {started_,        sources_.size(), shuffler_.size(),
            options_.window, indexed_,        shuffler_.pass(),
            anchor_.since(), left_out_,       std::chrono::duration<double>(indexing_).count()};
  }

  void set_anchor(std::string key) {
    const std::lock_guard lock(mutex_);
    anchor_.set(std::move(key), sources_, indexed_);
  }

  /// Gives the key of the newest chunk; empty if there is none.
  std::string reset_anchor() {
    const std::lock_guard lock(mutex_);
    anchor_.reset(newest_key());
    return anchor_.key();
  }

  /// The key of the newest chunk; empty if there is none.
  std::string newest() const {
    const std::lock_guard lock(mutex_);
    return newest_key();
  }

 private:
  static constexpr std::uint64_t middle = std::uint64_t{1} << 63; // before the first one that came later
  static constexpr std::size_t most_waiting = 256;                // sources that are found, but not indexed
  static constexpr std::size_t most_failures = 64;                // that nobody has asked for

  struct stopping {
    std::stop_source* stop;

    void operator()() const noexcept { stop->request_stop(); }
  };

  struct job {
    item what;
    std::uint64_t number; // of all jobs
    bool is_old;          // one of those that were there at the start
  };

  struct outcome {
    std::shared_ptr<const chunks> source;
    std::uint64_t count = 0;
    std::exception_ptr failure{};
  };

  void join() noexcept {
    on_stop_.reset();
    stop_.request_stop();
    for (std::thread& t : threads_) t.join();
  }

  // --- Finding sources

  // Calls the upstream source, from its beginning to its end.
  void feed(Upstream& upstream, const epoch& e) {
    const std::stop_token stop = stop_.get_token();
    bool is_scanning = true;
    try {
      start_source(upstream, e);
    } catch (...) {
      add_failure(std::current_exception());
      return end_feed(is_scanning);
    }
    std::vector<item> old;
    while (!stop.stop_requested()) {
      std::exception_ptr failure; // given away when this thread is done with it: who takes it ends its life
      try {
        // What comes without a wait was there.
        if constexpr (live_source<Upstream> && says_when_ready<Upstream>)
          if (is_scanning && endless_ && !upstream.ready()) end_scan(is_scanning, old);
        std::optional<item> found = upstream.next();
        if (!found) break;
        if constexpr (std::is_same_v<item, watched_file>) {
          if (is_scanning && found->what != watched_file::kind::at_start) end_scan(is_scanning, old);
          if (!found->is_file()) continue;
        }
        if (is_scanning) old.push_back(std::move(*found));
        else if (!add_new(std::move(*found))) return;
      } catch (...) {
        failure = std::current_exception();
      }
      if (failure && !add_failure(std::move(failure))) return;
    }
    if (is_scanning) end_scan(is_scanning, old);
    end_feed(is_scanning);
  }

  void end_scan(bool& is_scanning, std::vector<item>& old) {
    is_scanning = false;
    if (options_.newest_first) std::reverse(old.begin(), old.end());
    const std::lock_guard lock(mutex_);
    old_ = std::move(old);
    if (old_.empty()) has_old_ = true;
    changed_.notify_all();
  }

  void end_feed(bool is_scanning) {
    const std::lock_guard lock(mutex_);
    if (is_scanning) has_old_ = true;
    is_fed_ = true;
    changed_.notify_all();
  }

  bool add_new(item&& what) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop_.get_token(), [this] { return new_.size() < most_waiting; })) return false;
    new_.push_back(std::move(what));
    changed_.notify_all();
    return true;
  }

  /// False: it was stopped.
  bool add_failure(std::exception_ptr failure) {
    std::unique_lock lock(mutex_);
    return add_failure(lock, std::move(failure));
  }

  bool add_failure(std::unique_lock<std::mutex>& lock, std::exception_ptr failure) {
    if (!changed_.wait(lock, stop_.get_token(), [this] { return failures_.size() < most_failures; }))
      return false;
    failures_.push_back(std::move(failure));
    changed_.notify_all();
    return true;
  }

  // --- Indexing

  // Takes sources, the newest of those at the start first, then those that come later; what it finds is added in that
  // order, whichever thread is done first.
  void index() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const bool goes_on = changed_.wait(lock, stop_.get_token(), [this] { return has_job() || has_all(); });
      if (!goes_on || !has_job()) return;
      job j = take_job();
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      outcome found = look_into(std::move(j.what));
      const auto time = std::chrono::steady_clock::now() - begin;
      lock.lock();
      indexing_ += time;
      if (!changed_.wait(lock, stop_.get_token(), [&] { return added_ == j.number; })) return;
      try {
        if (!add(lock, j, found)) return;
      } catch (...) {
        if (!add_failure(lock, std::current_exception())) return;
      }
      ++added_;
      if (!has_old_ && (is_full() || (old_.empty() && added_ == taken_))) {
        has_old_ = true;
        old_.clear();
      }
      changed_.notify_all();
    }
  }

  bool is_full() const noexcept { return old_chunks_ >= options_.window; }

  bool has_job() const noexcept { return has_old_ ? !new_.empty() : !old_.empty(); }

  // Whether nothing more will come.
  bool has_all() const noexcept { return is_fed_ && has_old_ && new_.empty() && added_ == taken_; }

  job take_job() {
    if (has_old_) {
      job j{std::move(new_.front()), taken_++, false};
      new_.pop_front();
      changed_.notify_all(); // there is room
      return j;
    }
    job j{std::move(old_.back()), taken_++, true};
    old_.pop_back();
    return j;
  }

  outcome look_into(item&& what) const noexcept {
    constexpr std::uint64_t most = stream_shuffler::most;
    outcome o;
    try {
      auto source = std::make_shared<chunks>(make_(std::move(what)));
      if constexpr (requires { source->index(stop_.get_token()); }) source->index(stop_.get_token());
      else if constexpr (requires { source->index(); }) source->index();
      const std::uint64_t count = source->size();
      if (count > most)
        throw std::length_error("feedline::sliding_window_pool: a source of " + std::to_string(count) +
                                " chunks: at most 2^32 are possible");
      if constexpr (requires { std::string(source->problem()); })
        if (std::string problem(source->problem()); !problem.empty())
          o.failure = std::make_exception_ptr(std::runtime_error(std::move(problem)));
      o.source = std::move(source);
      o.count = count;
    } catch (...) {
      o.failure = std::current_exception();
    }
    return o;
  }

  // False: it was stopped.
  bool add(std::unique_lock<std::mutex>& lock, const job& j, outcome& found) {
    if (j.is_old && has_old_) return true; // the window was full before
    if (found.failure && !add_failure(lock, std::move(found.failure))) return false;
    if (found.count == 0) return true;
    const std::uint64_t count = found.count;
    if (j.is_old) {
      anchor_.add_older(*found.source, count);
      first_ -= count;
      sources_.push_front({std::move(found.source), first_, count});
      old_chunks_ += count;
    } else {
      anchor_.add_newer(*found.source, count);
      sources_.push_back({std::move(found.source), last_, count});
      last_ += count;
    }
    indexed_ += count;
    const std::uint64_t begin = std::max(first_, last_ - options_.window);
    while (sources_.front().last() <= begin) sources_.pop_front();
    first_ = std::max(first_, sources_.front().first);
    shuffler_.set_range(begin, last_);
    return true;
  }

  std::string newest_key() const {
    if (sources_.empty()) return {};
    const auto& newest = sources_.back();
    return newest.source->key(newest.count - 1);
  }

  // --- Giving

  // Whether next() need not wait.
  bool can_go_on() const noexcept {
    if (!failures_.empty()) return true;
    if (has_all()) return true;
    if (!endless_ || sources_.empty()) return false;
    if (!started_)
      return options_.start_at == 0 ? has_old_
                                    : shuffler_.size() >= std::min(options_.start_at, options_.window);
    return indexed_ != useless_;
  }

  void end_pass(std::string& notice, std::exception_ptr& failure) {
    if (!may_accept_) {
      useless_ = indexed_;
      failure = std::make_exception_ptr(std::runtime_error(
          "feedline::sliding_window_pool: accept gave 0 for all of the " + std::to_string(shuffler_.size()) +
          " chunks in the window: nothing comes until there are new ones"));
    } else if (shuffler_.pass() == 0) {
      notice =
          "sliding_window_pool: all " + std::to_string(shuffler_.size()) +
          " chunks of the window have been given, and come again: it is used faster than new chunks come";
    }
    may_accept_ = !options_.accept;
    shuffler_.start_pass();
  }

  bool accepts(const chunk& c, const chunks& source, std::uint64_t position) {
    std::uint64_t bytes = 0;
    if constexpr (requires { source.bytes(position); }) bytes = source.bytes(position);
    const bool might_accept = std::exchange(may_accept_, true); // also if it throws
    const double probability = options_.accept(c.key(), bytes);
    if (!(probability >= 0 && probability <= 1))
      throw std::runtime_error("feedline::sliding_window_pool: accept gave " + std::to_string(probability) +
                               " for " + in_backticks(c.key()) + ": a probability is from 0 to 1");
    may_accept_ = might_accept || probability > 0;
    if (random_generator(key(c.random_key(), 1)).chance(probability)) return true;
    const std::lock_guard lock(mutex_);
    ++left_out_;
    return false;
  }

  const pool_options options_;
  const Make make_;
  const std::uint64_t seed_;
  const bool endless_;
  std::stop_source stop_;

  mutable std::mutex mutex_; // of what follows
  std::condition_variable_any changed_;

  std::vector<item> old_;   // that were there at the start and have to be indexed, the newest last
  std::deque<item> new_;    // that came later
  bool has_old_ = false;    // those of `old_` that the window wants are in it
  bool is_fed_ = false;     // nothing more comes
  std::uint64_t taken_ = 0; // jobs, of which
  std::uint64_t added_ = 0; // so many were done

  std::deque<pooled_source<chunks>> sources_; // those that cover the window, the oldest first
  std::uint64_t first_ = middle;              // their numbers
  std::uint64_t last_ = middle;
  std::uint64_t old_chunks_ = 0;
  std::uint64_t indexed_ = 0;
  anchor_count anchor_;
  std::chrono::steady_clock::duration indexing_{0};

  stream_shuffler shuffler_;
  bool started_ = false;
  bool may_accept_;                           // some chunk of this pass
  std::uint64_t useless_ = ~std::uint64_t{0}; // when so many were indexed, none could be accepted
  std::uint64_t left_out_ = 0;
  std::deque<std::exception_ptr> failures_;

  std::vector<std::thread> threads_;
  std::optional<std::stop_callback<stopping>> on_stop_;
};

} // namespace feedline::inline v0::detail
