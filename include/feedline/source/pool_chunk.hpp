// SPDX-License-Identifier: MIT
#pragma once
// pool_chunk: what sliding_window_pool gives, a chunk that is read where it is needed.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <feedline/core/random.hpp>
#include <feedline/source/chunk_file.hpp>

namespace feedline::inline v0 {

/// Some chunks that belong together, by their number in [0, size()): `key(i)` tells a chunk from all others, `read(i)`
/// gives what is in it, or throws; both from any thread. May also have
/// - `void index()` or `void index(std::stop_token)`: finds out what there is, before anything else is called. It may take
///   its time: it has a thread of its own;
/// - `std::string problem() const`: what index() could not read, beside the chunks that it found; or nothing;
/// - `std::uint64_t bytes(std::uint64_t i) const`: how large chunk i is.
template <class S>
concept chunk_source = std::move_constructible<S> && requires(const S& s, std::uint64_t i) {
  { s.size() } -> std::convertible_to<std::uint64_t>;
  { s.key(i) } -> std::convertible_to<std::string>;
  { s.read(i) } -> std::move_constructible;
};

/// A chunk in its place: it keeps what it is part of, and is read by read(), from any thread.
template <chunk_source Source = chunk_file>
class pool_chunk {
 public:
  pool_chunk(std::shared_ptr<const Source> source, std::uint64_t position, std::int64_t number,
             std::uint64_t pass, std::uint64_t seed)
      : source_(std::move(source)), position_(position), number_(number), pass_(pass), seed_(seed) {}

  /// Of a chunk_file: "games/0001.tar/17.gz", or the path.
  std::string key() const { return source_->key(position_); }

  /// Reads it. Throws what the chunk's source throws.
  auto read() const { return source_->read(position_); }

  /// Its place in the numbering of the run, in which newer ones are higher: those that were there at the start are
  /// negative, up to -1, those that came later count from 0.
  std::int64_t number() const noexcept { return number_; }

  /// In which pass over the window it comes, from 0.
  std::uint64_t pass() const noexcept { return pass_; }

  /// A key for random decisions: another one in each run's seed, chunk and pass.
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

/// Reads a chunk, as a stage: `pool | map(read_chunk, workers{4})`. Throws what its read() throws.
inline constexpr auto read_chunk = []<class Source>(const pool_chunk<Source>& chunk) { return chunk.read(); };

} // namespace feedline::inline v0
