// SPDX-License-Identifier: MIT
#pragma once
// sliding_window_pool: a source of the newest chunks of a growing set of files, in random order, in repeated passes.
//
//     source of files ─▶ thread ─▶ index threads ─▶ [window] ─▶ chunks ─▶ map(read_chunk, workers{n})
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/source/detail/sub_source.hpp>
#include <feedline/window/chunk_file.hpp>
#include <feedline/window/detail/pool_run.hpp>
#include <feedline/window/pool_chunk.hpp>
#include <feedline/window/pool_options.hpp>
#include <feedline/window/stream_shuffler.hpp>
#include <feedline/window/watch_directory.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Turns an item of a pool's upstream into a source of chunks: a path into a chunk_file, a chunk source into itself.
class make_chunks {
 public:
  explicit make_chunks(const pool_options& options)
      : files_(make_file_cache(options.max_open_files)), max_size_(options.max_chunk_bytes) {}

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

/// Stands in for make_chunks after an error, so that there is one.
struct no_chunks {
  chunk_file operator()(const auto&) const;
};

} // namespace detail

/// A source of the newest chunks of a growing data set, in random order: for training on data that still arrives.
///
///     fl::sliding_window_pool pool(fl::watch_directory("games", "*.tar"), {.window = 500'000});
///     auto train = (pool | fl::map(fl::read_chunk, fl::workers{4}) | fl::map(parse, fl::workers{4}) | fl::batch(256))
///                      .infinite();
///
/// A `.tar` file has one chunk for each member, any other file is one chunk. Chunks are numbered in the order in which
/// the source yields their files. The window holds the last `window` chunks; each new file moves it, also during a
/// pass.
///
/// Takes:   a source of watched_file, of paths, or of objects that meet chunk_source; map, filter and tap may
///          follow it. pool_options. The source runs on a separate thread, and options.index_threads more
///          threads index files
/// Gives:   pool_chunk: a key, and read(), which opens the file when it is called. An infinite run yields all
///          chunks of the window once, in random order, then again, until the run is stopped. Chunks that
///          enter the window join the current pass; chunks that leave it are not yielded any more. A finite
///          run waits for the end of its source and yields each chunk of the window once; the order depends
///          on the run's seed and on what the source yields. Each rank has its own window, over the items of
///          its own source, in its own order
/// Starts:  when the window holds all chunks of the start that fit, or `min_fill` chunks. The start is all
///          that watch_directory yields before its mark; what another live source yields without a wait, in
///          an infinite run; and everything that a source yields that isn't live
/// Throws:  std::invalid_argument for invalid options. next() throws these at their position in the stream,
///          and the next call continues: exceptions of the source; errors of a file that can't be indexed
///          completely (the chunks that were found are yielded); exceptions of `accept`. A chunk that can't
///          be read, because its file is gone, has changed or is cut off, is a failure of the stage that
///          reads it, in each pass. Once a file is found to be gone, an infinite run yields its chunks again
///          from the first pass that begins when the file is back at its path
/// Pauses:  an infinite run that skips failures pauses between two passes if some stage has failed for every
///          chunk of the window and for 1,000 in a row: for 0.1 s at first, then twice as long each time, up
///          to 10 s. New chunks are yielded at once
/// Stops:   at once, but for the file being indexed
/// Order:   a run can't be resumed: its checkpoint() doesn't compile. The anchor survives a restart
///
/// Copies are handles of the same pool: keep one for status() and the anchor, and put stages after another. They refer to
/// the run that was started last.
///
/// The *anchor* is the chunk after which chunks count as new. `reset_anchor()` moves it to the newest chunk, for example
/// when a network has been trained on the data so far; chunks_since_anchor() then returns how many were added since. In
/// another process, call set_anchor(key) before the run starts: chunks newer than that one count, or all that are indexed
/// if the window doesn't reach back to it.
template <source Upstream>
class sliding_window_pool {
  using item = source_item_t<Upstream>;
  static constexpr bool has_chunks = std::is_invocable_v<const detail::make_chunks&, item&&>;
  static_assert(
      has_chunks,
      "feedline::sliding_window_pool: it takes a source of watched_file, of paths, or of objects with "
      "size(), key(i) and read(i): see feedline::chunk_source");
  using run =
      detail::pool_run<Upstream, std::conditional_t<has_chunks, detail::make_chunks, detail::no_chunks>>;

 public:
  using feedline_part = void;
  static constexpr source_traits traits{.kind = "sliding_window_pool", .live = true};

  /// A pool of the chunks that the source's files hold.
  template <class From>
    requires(!std::same_as<From, sliding_window_pool> && detail::part_source<From>)
  explicit sliding_window_pool(From from, const pool_options& options = {})
      : pool_(std::make_shared<pool>(detail::source_of(std::move(from)), checked(options))) {}

  /// The status of the newest run, also after its end. Any thread may call it, as the functions below.
  pool_status status() const {
    const std::lock_guard lock(pool_->mutex);
    const auto now = pool_->now.lock();
    return now ? now->status() : pool_->last;
  }

  /// Makes the newest chunk the anchor, so that no chunk counts as new. Returns its key; if there is no chunk yet,
  /// returns an empty key, and all chunks will count.
  std::string reset_anchor() {
    const std::lock_guard lock(pool_->mutex);
    const auto now = pool_->now.lock();
    pool_->anchor = now ? now->reset_anchor() : pool_->newest;
    pool_->last.since_anchor = 0;
    return pool_->anchor;
  }

  /// Makes the chunk with this key the anchor; an empty key stands for the beginning of the run.
  void set_anchor(std::string key) {
    const std::lock_guard lock(pool_->mutex);
    if (const auto now = pool_->now.lock()) now->set_anchor(key);
    pool_->anchor = std::move(key);
  }

  /// The key of the anchor.
  std::string anchor() const {
    const std::lock_guard lock(pool_->mutex);
    return pool_->anchor;
  }

  /// The number of chunks that are newer than the anchor.
  std::uint64_t chunks_since_anchor() const { return status().since_anchor; }

  // Called by the run.

  std::shared_ptr<const void> in_run(const std::stop_token& stop) const {
    return detail::in_run(pool_->upstream, stop);
  }

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
    out.total("rejected", number(now.rejected));
    out.total("gone", number(now.gone));
    out.total("indexing seconds", now.indexing_seconds);
    out("index threads", number(pool_->options.index_threads));
  }

  std::optional<std::size_t> max_item_bytes() const noexcept { return sizeof(typename run::chunk); }

 private:
  struct pool {
    pool(Upstream from, const pool_options& o) : upstream(std::move(from)), options(o), make(o) {}

    const Upstream upstream;
    const pool_options options;
    const detail::make_chunks make;
    std::mutex mutex; // protects the members below
    std::weak_ptr<run> now;
    pool_status last; // of the last run that ended
    std::string newest;
    std::string anchor;
  };

  /// Ends a run when the last copy of the source that shares it is destroyed.
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
      } catch (...) { // a custom source threw: the earlier key remains
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
    detail::refuse_negative(options.min_fill, "feedline::sliding_window_pool: the min_fill");
    detail::refuse_negative(options.max_chunk_bytes, "feedline::sliding_window_pool: the max_chunk_bytes");
    if (options.window > stream_shuffler::max_window)
      throw std::invalid_argument("feedline::sliding_window_pool: a window of " +
                                  std::to_string(options.window) + " chunks is larger than 2^32");
    if (options.min_fill > options.window)
      throw std::invalid_argument("feedline::sliding_window_pool: min_fill is " +
                                  std::to_string(options.min_fill) + ", but the window has room for " +
                                  std::to_string(options.window));
    return options;
  }

  std::shared_ptr<pool> pool_;
  std::shared_ptr<ending> running_;
};

template <class From>
sliding_window_pool(From) -> sliding_window_pool<detail::source_of_t<From>>;
template <class From>
sliding_window_pool(From, const pool_options&) -> sliding_window_pool<detail::source_of_t<From>>;

} // namespace feedline::inline FEEDLINE_ABI
