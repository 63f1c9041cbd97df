// SPDX-License-Identifier: MIT
#pragma once
// pool_chunk: an item of sliding_window_pool, a chunk that is read on demand.
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <feedline/core/random.hpp>
#include <feedline/window/chunk_file.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A group of chunks, numbered in [0, size()). `key(i)` identifies a chunk, `read(i)` returns its contents or throws; any
/// thread may call both. Optional members:
/// - `void index()` or `void index(std::stop_token)`: finds the chunks. It is called before all others, on an index thread,
///   so it may take long;
/// - `std::string problem() const`: what index() could not read, in addition to the chunks that it found; empty if nothing;
/// - `std::uint64_t bytes(std::uint64_t i) const`: the size of chunk i in bytes;
/// - `bool is_gone() const`: whether a read() has found that the data doesn't exist any more. Any thread may call it. An
///   infinite run doesn't yield these chunks while it says so;
/// - `void look_again() const`: finds out whether data that was gone is back. The run calls it before each pass.
template <class S>
concept chunk_source = std::move_constructible<S> && requires(const S& s, std::uint64_t i) {
  { s.size() } -> std::convertible_to<std::uint64_t>;
  { s.key(i) } -> std::convertible_to<std::string>;
  { s.read(i) } -> std::move_constructible;
};

/// A chunk that any thread can read(). It keeps the chunk source that it belongs to alive.
template <chunk_source Source = chunk_file>
class pool_chunk {
 public:
  /// For sliding_window_pool.
  pool_chunk(std::shared_ptr<const Source> source, std::uint64_t position, std::int64_t number,
             std::uint64_t pass, std::uint64_t seed)
      : source_(std::move(source)), position_(position), number_(number), pass_(pass), seed_(seed) {}

  /// The key of the chunk; of a chunk_file "games/0001.tar/17.gz", or the path.
  std::string key() const { return source_->key(position_); }

  /// Returns the contents. Throws what the chunk source throws.
  auto read() const { return source_->read(position_); }

  /// The number of the chunk in the run; newer chunks have higher numbers. Chunks of the start are negative, up to -1;
  /// later ones count from 0.
  std::int64_t number() const noexcept { return number_; }

  /// The pass over the window that yielded it, from 0.
  std::uint64_t pass() const noexcept { return pass_; }

  /// A key for random decisions. It depends on the run's seed, the chunk and the pass.
  std::uint64_t random_key() const noexcept {
    return detail::key(seed_, static_cast<std::uint64_t>(number_), pass_);
  }

 private:
  std::shared_ptr<const Source> source_;
  std::uint64_t position_;
  std::int64_t number_;
  std::uint64_t pass_;
  std::uint64_t seed_;
};

/// A function for map that reads a chunk: `pool | map(read_chunk, workers{4})`. Throws what read() throws.
inline constexpr auto read_chunk = []<class Source>(const pool_chunk<Source>& chunk) { return chunk.read(); };

} // namespace feedline::inline FEEDLINE_ABI
