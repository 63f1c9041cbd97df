// SPDX-License-Identifier: MIT
#pragma once
// From chunks to batches of training tuples:
//
//     file path provider ─▶ chunk source loader ─▶ shuffling chunk pool
//       ─▶ N workers: chunk loader, chunk validator, chunk rescorer, chunk unpacker ─▶ shuffling frame sampler
//       ─▶ N/2 workers: tensor generator ─▶ batches
//
// The frame sampler holds small items (see packed_position), and a worker makes the tensors of a whole batch. So single
// positions cross only the queue before the sampler, a game at a time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/window.hpp>

#include "chunk.hpp"
#include "tensors.hpp"

namespace chess {

/// A function from a game to a game, which corrects errors of the search or the players. All workers call it
/// concurrently. If it returns a game without positions, the game is left out.
using rescorer = std::function<game(game)>;

struct loader_options {
  std::vector<std::string> games;  ///< files with games (.gz), TAR archives of them, and folders of both
  std::size_t reservoir = 100'000; ///< positions that the frame sampler holds
  std::optional<std::size_t> min_fill{}; ///< positions before it emits the first; none: `reservoir`
  std::size_t batch = 1024;              ///< positions
  std::size_t workers = 2;               ///< threads that unpack chunks; half as many make tensors
  double sampling = 1;                   ///< the share of a game's positions that each pass uses
  std::uint64_t sampling_seed = 0;
  bool values = false; ///< also make the values tensor
  record_format format = record_format::any;
  rescorer rescore{}; ///< none: games are not changed
};

/// Adds the chunks and archives of a folder and of those in it. What another program deletes meanwhile is left out.
inline void add_files(std::vector<std::string>& files, const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone; // then it is neither
    const std::string file = entry->path().string();
    const bool is_hidden = entry->path().filename().string().starts_with('.'); // as macOS's `._game.gz`
    if (entry->is_directory(gone) && !entry->is_symlink(gone)) add_files(files, entry->path());
    else if (entry->is_regular_file(gone) && !is_hidden && (file.ends_with(".gz") || file.ends_with(".tar")))
      files.push_back(file);
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    throw std::filesystem::filesystem_error("can't look for games", folder, error);
}

/// File path provider: the chunks and archives in folders at any depth, sorted; files are kept in their order. Throws
/// std::system_error for a name that doesn't exist and a folder that can't be read, and std::runtime_error if there are no files.
inline std::vector<std::string> find_files(const std::vector<std::string>& games) {
  std::vector<std::string> files;
  for (const std::string& name : games) {
    const std::filesystem::file_status found = std::filesystem::status(name);
    if (!std::filesystem::exists(found))
      throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory), "games: " + name);
    if (!std::filesystem::is_directory(found)) {
      files.push_back(name);
      continue;
    }
    const std::size_t before = files.size();
    add_files(files, name);
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  if (files.empty()) throw std::runtime_error("there are no games: no .gz or .tar file was found");
  return files;
}

/// The location of a chunk: a file, or a member of an archive.
struct chunk_place {
  std::string name;
  std::shared_ptr<const feedline::chunk_file> archive; ///< none: the chunk is a file
  std::uint64_t member = 0;
};

/// Chunk source loader: each file is one chunk, or an archive whose chunks are found by reading its headers. It is an
/// indexed source, so that `global_shuffle()` makes it the chunk pool.
class chunk_sources {
 public:
  static constexpr feedline::source_traits traits{.kind = "shuffling chunk pool"};

  explicit chunk_sources(const std::vector<std::string>& files) {
    std::vector<chunk_place> found;
    for (const std::string& file : files) {
      if (!file.ends_with(".tar")) {
        found.push_back({file, nullptr});
        continue;
      }
      const auto archive = std::make_shared<feedline::chunk_file>(file);
      archive->index();
      if (!archive->problem().empty()) problems_.push_back(archive->problem());
      for (std::uint64_t i = 0; i < archive->size(); ++i) found.push_back({archive->key(i), archive, i});
    }
    if (found.empty()) throw std::runtime_error("there are no games in the archives");
    places_ = std::make_shared<const std::vector<chunk_place>>(std::move(found));
  }

  /// The errors of damaged archives. Their members before the damage can be read.
  const std::vector<std::string>& problems() const { return problems_; }

  std::uint64_t size() const { return places_->size(); }

  std::size_t max_item_bytes() const {
    std::size_t longest = 0;
    for (const chunk_place& place : *places_) longest = std::max(longest, place.name.capacity());
    return sizeof(chunk_place) + longest;
  }

  chunk_place at(std::uint64_t place) const { return (*places_)[static_cast<std::size_t>(place)]; }

  std::string origin(std::uint64_t index) const { return index < size() ? at(index).name : std::string(); }

  std::uint64_t extent() const { return size(); }

  std::uint64_t fingerprint(std::uint64_t extent) const {
    std::uint64_t hash = extent;
    for (std::uint64_t i = 0; i < extent; ++i) {
      const std::string name = at(i).name;
      hash = (hash ^ feedline::stable_hash(name.substr(name.rfind('/') + 1))) * 0x100000001b3;
    }
    return hash;
  }

 private:
  std::shared_ptr<const std::vector<chunk_place>> places_; // shared by copies, as they never change
  std::vector<std::string> problems_;
};

/// Counts the cause of a chunk_error.
template <class F>
auto counted(const F& f, const feedline::context& c) {
  try {
    return f();
  } catch (const chunk_error& error) {
    c.count(error.cause());
    throw;
  }
}

/// Returns the bytes that `read()` returns. Its exceptions become the chunk_error "unreadable".
template <class Read>
std::vector<std::byte> read_or_refuse(const Read& read, const feedline::context& c) {
  return counted(
      [&]() -> std::vector<std::byte> {
        try {
          return read();
        } catch (const std::runtime_error& error) { // including std::system_error
          throw chunk_error("unreadable", error.what());
        }
      },
      c);
}

/// Chunk loader: reads a chunk_place or a pool_chunk.
struct load_chunk {
  chunk operator()(const chunk_place& place, const feedline::context& c) const {
    const auto read = [&] {
      return place.archive ? place.archive->read(place.member) : feedline::read_file(place.name);
    };
    return {place.name, read_or_refuse(read, c), c.epoch};
  }

  chunk operator()(const feedline::pool_chunk<>& place, const feedline::context& c) const {
    return {place.key(), read_or_refuse([&] { return place.read(); }, c), place.pass()};
  }
};

/// The pipeline from chunk locations to batches. The source yields chunk_place or pool_chunk.
template <class Source>
auto batches_from(Source source, const loader_options& o) {
  const auto validate = [format = o.format](const chunk& c, feedline::context& context) {
    return counted([&] { return read_game(c, format); }, context);
  };
  const auto rescore = [f = o.rescore](game g) { return f ? f(std::move(g)) : std::move(g); };
  const auto unpack = [sampling = o.sampling, seed = o.sampling_seed](game& g) {
    if (sampling >= 1) return std::move(g.positions);
    std::vector<packed_position> some;
    for (const std::size_t i :
         feedline::sampled_records(g.positions.size(), {.rate = sampling},
                                   feedline::stable_hash(g.name) ^ seed * 0x9e3779b97f4a7c15, g.pass))
      some.push_back(std::move(g.positions[i]));
    return some;
  };
  // Making tensors is less than half of the work.
  const std::size_t generators = (o.workers + 1) / 2;
  const tensor_generator make_tensors(o.batch, o.values,
                                      5 * generators + 6); // more than the last queue holds
  const auto generate = [make_tensors](const auto& positions) {
    return make_tensors(positions.values(), positions.ids());
  };
  namespace fl = feedline;
  const fl::max_item_bytes of_chunk{max_chunk_bytes + 8192}, of_game{max_game_bytes}; // with their names
  const fl::max_item_bytes of_position{packed_position::max_bytes},
      of_batch{32'768 +
               o.batch * (make_tensors.bytes_of_position() + sizeof(fl::sample_id)) / 8 * 9}; // rounded up
  return std::move(source) |
         fl::parallel(fl::workers{o.workers},
                      fl::map(load_chunk{}, fl::name{"chunk loader"}, of_chunk) |
                          fl::map(validate, fl::name{"chunk validator"}, of_game) |
                          fl::map(rescore, fl::name{"chunk rescorer"}, of_game) |
                          fl::flat_map(unpack, fl::name{"chunk unpacker"}, of_position)) |
         fl::shuffle({.capacity = o.reservoir,
                      .min_fill = std::max<std::size_t>(1, o.min_fill.value_or(o.reservoir))}) |
         fl::batch(o.batch, fl::as_list) |
         fl::map(generate, fl::workers{generators}, fl::name{"tensor generator"}, of_batch);
}

/// Batches of a fixed set of games, shuffled globally.
inline auto training_batches(const loader_options& o) {
  return batches_from(feedline::from(chunk_sources(find_files(o.games))) | feedline::global_shuffle(), o);
}

/// The newest `window` chunks of a folder in which games arrive. Existing games are indexed from the newest on, and the
/// window moves with each new one. `on_notice`: see pool_options::on_notice.
inline auto live_pool(const std::string& folder, std::uint64_t window,
                      std::function<void(const std::string&)> on_notice = {}) {
  // A filter instead of patterns would lose files that are renamed to such a name when they are complete.
  return feedline::sliding_window_pool(
      feedline::watch_directory(folder, {"*.gz", "*.tar"}, {.newest_first = true}),
      {.window = window, .newest_first = true, .on_notice = std::move(on_notice)});
}

/// Batches of a live pool; another copy of it has the status(). Such a run can't be repeated.
template <class Pool>
auto live_batches(const Pool& pool, const loader_options& o) {
  return batches_from(feedline::from(pool), o);
}

} // namespace chess
