// SPDX-License-Identifier: MIT
// How near does the loader of examples/chess_training come to what the machine allows? Positions per second from
// compressed chunks to batches of 1024 tuples of tensors, shuffled, on two workers. The baseline is two bare threads
// that share a counter, decompress chunks, and write the same tensors of each record to memory of their own, in the
// chunks' order and without checks; another row adds the loader's checks and its packed positions to that. The chunks
// are those of the folder FEEDLINE_BENCH_CHESS, or made ones; each is read many times in an epoch.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <stdlib.h>

#include <benchmark/benchmark.h>

#include <feedline/feedline.hpp>
#include <feedline/gzip.hpp>

#include "../examples/chess_training/loader.hpp"
#include "../examples/chess_training/synthetic_games.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t batch_size = 1024, workers = 2, positions_of_a_turn = 64 * batch_size;

/// The files of chunks, each several times.
const std::vector<std::string>& games() {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> once;
    if (const char* folder = std::getenv("FEEDLINE_BENCH_CHESS")) {
      once = chess::find_files({folder});
    } else {
      std::string made = (std::filesystem::temp_directory_path() / "games-XXXXXX").string();
      if (::mkdtemp(made.data()) == nullptr) throw std::runtime_error("can't make the folder " + made);
      static const std::string name = made;
      std::atexit([] { std::filesystem::remove_all(name); });
      chess::write_games(name, 200, 1);
      once = chess::find_files({name});
    }
    std::vector<std::string> all;
    while (all.size() < 2000) all.insert(all.end(), once.begin(), once.end());
    return all;
  }();
  return files;
}

/// Memory for batches, each of which overwrites the one before.
class batch_memory {
 public:
  chess::tuple_places next() {
    const std::size_t row = row_++ % batch_size;
    const auto part = [row](std::vector<float>& of) {
      const std::size_t size = of.size() / batch_size;
      return std::span(of).subspan(row * size, size);
    };
    return {part(planes_), part(probabilities_), part(winner_), part(best_q_), plies_left_[row]};
  }

 private:
  std::vector<float> planes_ = std::vector<float>(batch_size * 112 * 64),
                     probabilities_ = std::vector<float>(batch_size * 1858),
                     winner_ = std::vector<float>(batch_size * 3), best_q_ = winner_,
                     plies_left_ = std::vector<float>(batch_size);
  std::size_t row_ = 0;
};

/// Writes the tensors of a record of version 6 or 7.
void fill_from_record(const std::byte* record, const chess::tuple_places& to) {
  std::array<std::uint64_t, chess::board_planes> planes;
  chess::position_facts f;
  std::memcpy(planes.data(), record + 7440, sizeof planes);
  std::memcpy(&f, record + 8272, 84);
  chess::detail::fill_board(planes, to.planes.data());
  chess::detail::fill_state(chess::detail::load<std::uint32_t>(record + 4), f,
                            to.planes.data() + planes.size() * 64);
  std::memcpy(to.probabilities.data(), record + 8, to.probabilities.size_bytes());
  chess::detail::fill_chances(f.result_q, f.result_d, to.winner);
  chess::detail::fill_chances(f.best_q, f.best_d, to.best_q);
  to.plies_left = chess::plies_left_of(f);
}

/// `game` writes the tensors of a chunk and returns its number of positions.
template <class Game>
void bare_threads(benchmark::State& state, Game game) {
  const auto& files = games();
  std::vector<batch_memory> memory(workers);
  std::atomic<std::size_t> next{0};
  std::int64_t positions = 0;
  const auto turn = [&] {
    std::atomic<std::size_t> done{0};
    std::vector<std::jthread> threads;
    for (batch_memory& m : memory)
      threads.emplace_back([&] {
        while (done < positions_of_a_turn) {
          const std::string& file = files[next++ % files.size()];
          done += game(chess::chunk{file, fl::read_file(file)}, m);
        }
      });
    threads.clear();
    return static_cast<std::int64_t>(done);
  };
  turn();
  for (auto _ : state) positions += turn();
  state.SetItemsProcessed(positions);
}

void bare_loop(benchmark::State& state) {
  bare_threads(state, [](const chess::chunk& c, batch_memory& m) {
    const std::span<const std::byte> records = chess::records_of(c);
    const std::size_t size = chess::layout_of(chess::detail::load<std::uint32_t>(records.data())).size;
    for (std::size_t at = 0; at < records.size(); at += size) fill_from_record(records.data() + at, m.next());
    return records.size() / size;
  });
}

void bare_loop_that_checks_and_packs(benchmark::State& state) {
  bare_threads(state, [](const chess::chunk& c, batch_memory& m) {
    const chess::game g = chess::read_game(c);
    for (const chess::packed_position& p : g.positions) chess::fill_tuple(p, m.next());
    return g.positions.size();
  });
}

void feedline_loader(benchmark::State& state) {
  chess::loader_options o;
  o.games = games();
  o.reservoir = static_cast<std::size_t>(state.range(0));
  o.batch = batch_size;
  o.workers = workers;
  const auto batches = chess::training_batches(o);
  auto loader = batches.infinite();
  const auto turn = [&] {
    for (std::size_t i = 0; i < positions_of_a_turn / batch_size; ++i)
      benchmark::DoNotOptimize(loader.next().value().size());
  };
  turn();
  for (auto _ : state) turn();
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(positions_of_a_turn));
  if (std::getenv("FEEDLINE_BENCH_METRICS")) std::puts(to_string(loader.metrics()).c_str());
}

BENCHMARK(bare_loop)->UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bare_loop_that_checks_and_packs)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(feedline_loader)
    ->Arg(20'000)
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMillisecond);

} // namespace
