// SPDX-License-Identifier: MIT
#pragma once
// sliding_window_pool: the newest chunks of files that keep coming, in random order, again and again.
//
//     source of files ─▶ thread ─▶ index threads ─▶ [window] ─▶ chunks ─▶ map(read_chunk, workers{n})
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stream_shuffler.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/source/chunk_file.hpp>
#include <feedline/source/detail/file_cache.hpp>
#include <feedline/source/detail/pool_run.hpp>
#include <feedline/source/detail/sub_source.hpp>
#include <feedline/source/pool_chunk.hpp>
#include <feedline/source/pool_options.hpp>
#include <feedline/source/watch_directory.hpp>

namespace feedline::inline v0 {

namespace detail {

/// Makes a source of chunks of what a pool's upstream gives: itself, or the file that it names.
class make_chunks {
 public:
  explicit make_chunks(const pool_options& options)
      : files_(std::make_shared<file_cache>(options.max_open_files)), max_size_(options.max_chunk_size) {}

  chunk_file operator()(watched_file&& file) const { return at(std::move(file.path)); }

  template <class Path>
    requires std::convertible_to<Path, std::string>
  chunk_file operator()(Path&& path) const {
    return at(std::string(std::forward<Path>(path)));
  }

  template <chunk_source Source>
  Source operator()(Source&& source) const {
    return std::forward<Source>(source);
  }

 private:
  chunk_file at(std::string path) const { return chunk_file(std::move(path), files_, max_size_); }

  std::shared_ptr<file_cache> files_;
  std::uint64_t max_size_;
};

} // namespace detail

/// A source of the newest chunks of a growing data set, in random order: for training on what keeps coming.
///
///     fl::sliding_window_pool pool(fl::watch_directory("games", "*.tar"), {.window = 500'000});
///     auto train = (pool | fl::map(fl::read_chunk, fl::workers{4}) | fl::map(parse, fl::workers{4}) | fl::batch(256))
///                      .infinite();
///
/// Each file has a count of chunks: a `.tar` one for each member, any other file one. Their places in one growing
/// numbering follow the order in which the files come. The window are the last `window` chunks; it moves on with each
/// file that comes, also in the middle of a pass.
///
/// Takes:   a source, perhaps with map, filter or tap behind it, of watched_file, of paths, or of objects that meet
///          chunk_source; pool_options. It works on a thread of its own, and options.index_threads more look into files
/// Gives:   pool_chunk: a key and a way to read(), which opens the file when it is needed. In an infinite run all chunks of
///          the window come once, in random order, then again, until the run is stopped; those that arrive join the
///          running pass, those that leave the window don't come any more. A finite run waits for the end of its source,
///          and gives each chunk of the window once: in an order of the run's seed, and of what the source gives. Of several
///          ranks each has a window of its own, over what its own source gives, in an order of its own
/// Starts:  when all chunks that were there at the start, and that the window wants, are indexed; or `start_at` chunks.
///          There at the start is what comes before watch_directory's mark; of other live sources, in an infinite run,
///          what comes without a wait; and all that a source gives that isn't live
/// Throws:  std::invalid_argument for options that can't be. In their places in the stream, and going on: what the source
///          throws; what is wrong with a file that can't be indexed, of which the chunks that were found are given all the
///          same; what `accept` throws. A chunk that can't be read, as its file is gone, was changed or is cut off, is a
///          failure of the stage that reads it, each time
/// Stops:   at once, but for the file in hand
/// Order:   a run can't be resumed: the compiler refuses its checkpoint(). The anchor survives a restart
///
/// Its copies are handles of the same pool: keep one to ask for status() and the anchor, put another in front of stages.
/// They tell of the run that was started last.
///
/// The *anchor* is a chunk from which on chunks are counted as new: `reset_anchor()` puts it at the newest one, for example
/// when a network is trained on what there is; chunks_since_anchor() then tells how much has come since. In another
/// process, set_anchor(key) before the run starts makes it count those that are newer than that chunk; if the window
/// doesn't reach back so far, all that are indexed.
template <source Upstream>
class sliding_window_pool {
  using item = source_item_t<Upstream>;
  static_assert(
      std::is_invocable_v<const detail::make_chunks&, item&&>,
      "feedline::sliding_window_pool: it takes a source of watched_file, of paths, or of objects with "
      "size(), key(i) and read(i): see feedline::chunk_source");
  using run = detail::pool_run<Upstream, detail::make_chunks>;

 public:
  static constexpr source_traits traits{.kind = "sliding_window_pool", .live = true};

  template <class From>
    requires(!std::same_as<From, sliding_window_pool> && detail::part_source<From>)
  explicit sliding_window_pool(From from, const pool_options& options = {})
      : pool_(std::make_shared<pool>(detail::source_of(std::move(from)), checked(options))) {}

  /// Of the newest run, also when it has ended. From any thread, as what follows.
  pool_status status() const {
    const std::lock_guard lock(pool_->mutex);
    const auto now = pool_->now.lock();
    return now ? now->status() : pool_->last;
  }

  /// Makes the newest chunk the anchor: none has come since. Gives its key; empty if no chunk has come yet, then all
  /// count.
  std::string reset_anchor() {
    const std::lock_guard lock(pool_->mutex);
    const auto now = pool_->now.lock();
    pool_->anchor = now ? now->reset_anchor() : pool_->newest;
    pool_->last.since_anchor = 0;
    return pool_->anchor;
  }

  /// Makes the chunk with this key the anchor; an empty one: the beginning of the run.
  void set_anchor(std::string key) {
    const std::lock_guard lock(pool_->mutex);
    if (const auto now = pool_->now.lock()) now->set_anchor(key);
    pool_->anchor = std::move(key);
  }

  /// The key that was set last.
  std::string anchor() const {
    const std::lock_guard lock(pool_->mutex);
    return pool_->anchor;
  }

  std::uint64_t chunks_since_anchor() const { return status().since_anchor; }

  // What follows is for the run.

  void start_epoch(const epoch& e) {
    running_.reset();
    const std::lock_guard lock(pool_->mutex);
    auto started = std::make_shared<run>(pool_->upstream, pool_->make, pool_->options, e, pool_->anchor);
    pool_->now = started;
    running_ = std::make_shared<ending>(pool_, std::move(started));
  }

  bool ready() const { return running_->run->ready(); }

  std::optional<typename run::chunk> next() { return running_->run->next(); }

  void metrics(auto& out) const {
    const pool_status now = running_->run->status();
    const auto number = [](std::uint64_t n) { return static_cast<double>(n); };
    out("sources", number(now.sources));
    out("chunks", number(now.chunks));
    out("window", number(now.window));
    out("since anchor", number(now.since_anchor));
    out.total("passes", number(now.passes));
    out.total("indexed", number(now.indexed));
    out.total("left out", number(now.left_out));
    out.total("indexing seconds", now.indexing_seconds);
  }

  std::optional<std::size_t> largest_item() const noexcept { return sizeof(typename run::chunk); }

 private:
  struct pool {
    pool(Upstream from, const pool_options& o) : upstream(std::move(from)), options(o), make(o) {}

    const Upstream upstream;
    const pool_options options;
    const detail::make_chunks make;
    std::mutex mutex; // of what follows
    std::weak_ptr<run> now;
    pool_status last; // of the run that has ended
    std::string newest;
    std::string anchor;
  };

  /// Ends a run with the last copy of the source that works on it.
  struct ending {
    ending(std::shared_ptr<pool> p, std::shared_ptr<sliding_window_pool::run> r)
        : of(std::move(p)), run(std::move(r)) {}

    ending(const ending&) = delete;

    ~ending() {
      const std::lock_guard lock(of->mutex);
      if (of->now.lock() != run) return;
      of->now.reset();
      of->last = run->status();
      try {
        of->newest = run->newest();
      } catch (...) { // of a source of the user's: the one before stands
      }
    }

    std::shared_ptr<pool> of;
    std::shared_ptr<sliding_window_pool::run> run;
  };

  static pool_options checked(const pool_options& options) {
    const auto least_one = [](std::uint64_t n, const char* what) {
      detail::refuse_negative(n, what);
      if (n == 0) throw std::invalid_argument(std::string(what) + " must be at least 1");
    };
    least_one(options.window, "feedline::sliding_window_pool: the window");
    least_one(options.index_threads, "feedline::sliding_window_pool: the number of index_threads");
    least_one(options.max_open_files, "feedline::sliding_window_pool: the number of max_open_files");
    detail::refuse_negative(options.start_at, "feedline::sliding_window_pool: the start_at");
    detail::refuse_negative(options.max_chunk_size, "feedline::sliding_window_pool: the max_chunk_size");
    if (options.window > stream_shuffler::most)
      throw std::invalid_argument("feedline::sliding_window_pool: a window of " +
                                  std::to_string(options.window) + " chunks is larger than 2^32");
    if (options.start_at > options.window)
      throw std::invalid_argument("feedline::sliding_window_pool: start_at is " +
                                  std::to_string(options.start_at) + ", but the window has room for " +
                                  std::to_string(options.window));
    return options;
  }

  std::shared_ptr<pool> pool_;
  std::shared_ptr<ending> running_; // of the run
};

template <class From>
sliding_window_pool(From) -> sliding_window_pool<detail::source_of_t<From>>;
template <class From>
sliding_window_pool(From, const pool_options&) -> sliding_window_pool<detail::source_of_t<From>>;

} // namespace feedline::inline v0
