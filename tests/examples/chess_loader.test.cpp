// SPDX-License-Identifier: MIT
// From files of games to batches: the same with any number of workers, each position once, without bad chunks.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "../examples/chess_training/blunders.hpp"
#include "../examples/chess_training/loader.hpp"
#include "../examples/chess_training/model.hpp"
#include "../examples/chess_training/synthetic_games.hpp"
#include "support/catch.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::contents_of;
using fl::test::temporary_folder;
using fl::test::test_data;

namespace {

constexpr auto skip_all = [](fl::finite_options o = {}) {
  o.on_error = fl::on_error::skip;
  return o;
};

chess::loader_options options_for(const std::string& games, std::size_t workers = 2) {
  chess::loader_options o;
  o.games = {games};
  o.reservoir = 100;
  o.batch = 32;
  o.workers = workers;
  return o;
}

/// All bytes of a batch.
std::string bytes_of(const chess::training_batch& b) {
  std::string bytes;
  for (const fl::tensor<float>* t :
       {&b->planes, &b->probabilities, &b->winner, &b->best_q, &b->plies_left, &b->values})
    bytes.append(reinterpret_cast<const char*>(t->data()), t->size() * sizeof(float));
  return bytes;
}

/// A position's part of its batch, in the layout of the golden files.
std::string bytes_of(const chess::training_batch& b, std::size_t row) {
  std::string bytes;
  for (const fl::tensor<float>* t : {&b->planes, &b->probabilities, &b->winner, &b->best_q, &b->plies_left}) {
    const std::size_t size = t->size() / b.size();
    bytes.append(reinterpret_cast<const char*>(t->data() + row * size), size * sizeof(float));
  }
  return bytes;
}

using positions = std::set<std::pair<std::uint64_t, std::uint64_t>>;

/// The positions that a pass yields; checks that none is yielded twice.
template <class Loader>
positions positions_of(Loader loader) {
  positions found;
  for (const chess::training_batch& b : loader)
    for (const fl::sample_id& id : b.ids()) {
      const bool is_new = found.emplace(id.index, id.sub_index).second;
      if (!is_new) FAIL("position " << id.sub_index << " of chunk " << id.index << " comes twice");
    }
  return found;
}

} // namespace

TEST_CASE("the same seed gives the same bytes with any number of workers") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 12, 1);
  folder.write("bad.gz", "no game");
  std::vector<std::string> first;
  for (const std::size_t workers : {1u, 2u, 64u}) {
    chess::loader_options o = options_for(folder.path(), workers);
    o.values = true;
    o.sampling = 0.5;
    o.rescore = chess::blunder_rescorer(0.1f);
    auto loader = chess::training_batches(o).infinite({.seed = 3, .on_error = fl::on_error::skip});
    std::vector<std::string> batches;
    for (int i = 0; i < 25; ++i) batches.push_back(bytes_of(*loader.next())); // from several passes
    if (workers == 1) first = batches;
    CHECK(batches == first);
  }
  auto other = chess::training_batches(options_for(folder.path()))
                   .infinite({.seed = 4, .on_error = fl::on_error::skip});
  CHECK(bytes_of(*other.next()) != first[0]);
}

TEST_CASE("a pass yields each position once, with tensors of the documented shapes") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 10, 2);
  const auto pipeline = chess::training_batches(options_for(folder.path()));
  std::size_t all = 0;
  for (const std::string& file : chess::find_files({folder.path()}))
    all += chess::read_game({file, fl::read_file(file)}).positions.size();
  const positions found = positions_of(pipeline.finite());
  CHECK(found.size() == all);

  auto loader = pipeline.finite();
  const auto batch = loader.next();
  REQUIRE(batch->size() == 32);
  const auto has_shape = [](const fl::tensor<float>& t, std::vector<std::size_t> wanted) {
    return std::equal(t.shape().begin(), t.shape().end(), wanted.begin(), wanted.end());
  };
  CHECK(has_shape((*batch)->planes, {32, 112, 8, 8}));
  CHECK(has_shape((*batch)->probabilities, {32, 1858}));
  CHECK(has_shape((*batch)->winner, {32, 3}));
  CHECK(has_shape((*batch)->best_q, {32, 3}));
  CHECK(has_shape((*batch)->plies_left, {32}));
  CHECK((*batch)->values.size() == 0);
  chess::loader_options with_values = options_for(folder.path());
  with_values.values = true;
  CHECK(has_shape((*chess::training_batches(with_values).finite().next())->values, {32, 6, 3}));
}

TEST_CASE("batches that the caller keeps don't change") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 20, 2);
  chess::loader_options o = options_for(folder.path(), 1);
  o.batch = 8;
  std::vector<chess::training_batch> kept;
  std::vector<std::string> bytes;
  {
    auto loader = chess::training_batches(o).infinite({.seed = 1});
    for (int i = 0; i < 40; ++i) { // more than the pool keeps memory for
      kept.push_back(*loader.next());
      bytes.push_back(bytes_of(kept.back()));
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(bytes_of(kept[i]) == bytes[i]);
}

TEST_CASE("bad chunks are left out and counted by their cause") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 3, 3);
  const positions good = positions_of(chess::training_batches(options_for(folder.path())).finite());
  const std::string records = chess::synthetic_records(1, {.positions = 2});
  folder.write("x-not-gzip.gz", records);
  folder.write("x-cut.gz", chess::detail::gzip(records).substr(0, 500));
  folder.write("x-size.gz", chess::detail::gzip(records.substr(1)) /* also another version */);
  folder.write("x-size2.gz", chess::detail::gzip(records + "x"));
  folder.write("x-size3.gz", chess::detail::gzip(""));
  const temporary_folder other;
  other.write("x-gone.gz", "");

  chess::loader_options o = options_for(folder.path());
  o.games.push_back(other / "x-gone.gz");
  const auto pipeline = chess::training_batches(o);
  std::filesystem::remove(other / "x-gone.gz");
  auto loader = pipeline.finite(skip_all());
  positions found;
  while (const auto batch = loader.next())
    for (const fl::sample_id& id : batch->ids()) found.emplace(id.index, id.sub_index);
  CHECK(found == good);
  std::map<std::string, double> causes;
  for (const fl::stage_metrics& s : loader.metrics().total.stages)
    for (const fl::user_metric& m : s.user_metrics) causes[m.name] += m.value;
  CHECK(
      causes ==
      std::map<std::string, double>{
          {"damaged gzip", 1}, {"not gzip", 1}, {"unreadable", 1}, {"wrong size", 2}, {"wrong version", 1}});
  CHECK(loader.failures().size() == 6);
  CHECK(std::all_of(loader.failures().begin(), loader.failures().end(),
                    [](const fl::failure& f) { return f.origin.find("x-") != std::string::npos; }));

  CHECK(fl::test::throws_saying<fl::pipeline_error>("x-", [&] {
    auto strict = pipeline.finite();
    while (strict.next()) {
    }
  }));
}

TEST_CASE("archives are sources of chunks, compressed or plain") {
  const temporary_folder folder;
  fl::test::tar_writer tar;
  tar.add("LICENSE", "yours");
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string records = chess::synthetic_records(i, {.positions = 3 + i});
    if (i % 2 == 0) tar.add("run/training." + std::to_string(i) + ".gz", chess::detail::gzip(records));
    else tar.add("run/training." + std::to_string(i), records);
  }
  tar.add("run/LICENSE", "ours");
  folder.write("games.tar", tar.closed());
  folder.write("alone.gz", chess::detail::gzip(chess::synthetic_records(9, {.positions = 5})));
  folder.write("notes.txt", "nothing to read");
  chess::loader_options o = options_for(folder.path());
  CHECK(positions_of(chess::training_batches(o).finite()).size() == 3 + 4 + 5 + 6 + 7 + 8 + 5);

  const chess::chunk_sources sources(chess::find_files(o.games));
  CHECK(sources.size() == 7);
  CHECK(sources.origin(1) == folder / "games.tar/run/training.0.gz");
  CHECK(sources.problems().empty());

  const std::string cut = tar.closed().substr(0, tar.size() - 1500);
  folder.write("games.tar", cut);
  const chess::chunk_sources damaged(chess::find_files(o.games));
  CHECK(damaged.size() < 7);
  CHECK(damaged.problems().size() == 1);

  const temporary_folder empty;
  CHECK(fl::test::throws_saying<std::runtime_error>("there are no games",
                                                    [&] { chess::find_files({empty.path()}); }));
}

TEST_CASE("games that don't exist are an error, and what vanishes from a folder during a scan is left out") {
  const temporary_folder folder;
  for (const std::string& name : {folder / "nowhere", folder / "nowhere.gz"})
    CHECK(fl::test::throws_saying<std::system_error>("games: " + name, [&] {
      chess::find_files({folder.path(), name});
    }));
  std::filesystem::create_directories(folder / "a/b.gz");
  folder.write("a/b.gz/1.gz", "");
  std::filesystem::create_symlink(folder / "gone", folder / "2.gz");
  std::filesystem::create_directory_symlink(folder / "a", folder / "c");
  const std::vector<std::string> found{folder / "a/b.gz/1.gz"};
  CHECK(chess::find_files({folder.path()}) == found);

  std::atomic<bool> ends = false;
  std::thread other([&] {
    for (int i = 0; !ends; ++i) {
      const std::string name = folder / ("t" + std::to_string(i % 20));
      std::filesystem::create_directories(name + "/a/b");
      std::filesystem::remove_all(name);
    }
  });
  int same = 0;
  for (int i = 0; i < 2000; ++i) same += chess::find_files({folder.path()}) == found;
  ends = true;
  other.join();
  CHECK(same == 2000);
}

TEST_CASE("arriving games move the window of a live pool") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 4, 1);
  folder.write("notes.txt", "nothing to read");
  chess::loader_options o;
  o.reservoir = 1;
  o.batch = 1;
  const auto pool = chess::live_pool(folder.path(), 5);
  const auto pipeline = chess::live_batches(pool, o);
  CHECK(positions_of(pipeline.finite()).size() > 4 * 20);

  auto loader = pipeline.infinite({.seed = 1});
  REQUIRE(loader.next());
  CHECK(pool.status().chunks == 4);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = "new." + std::to_string(i) + ".gz";
    folder.write("tmp", chess::detail::gzip(chess::synthetic_records(i, {.positions = 3})));
    std::filesystem::rename(folder / "tmp", folder / name); // complete at once
  }
  while (pool.status().indexed < 7) REQUIRE(loader.next());
  CHECK(pool.status().chunks == 5);
  CHECK(pool.chunks_since_anchor() >= 3);
}

TEST_CASE("a live pool finds a game under any name that it had while it was written") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 1, 1);
  chess::loader_options o;
  o.reservoir = 1;
  o.batch = 1;
  auto pool = chess::live_pool(folder.path(), 100);
  auto loader = chess::live_batches(pool, o).infinite({.seed = 1});
  REQUIRE(loader.next());
  const auto arrives = [&](const std::string& name) {
    while (pool.reset_anchor() != name) REQUIRE(loader.next());
  };
  const std::string game = chess::detail::gzip(chess::synthetic_records(1, {.positions = 3}));
  folder.write("new.gz.part", game);
  folder.write("first.gz", game);
  arrives(folder / "first.gz"); // by then the pool has seen the event of the partial file
  std::filesystem::rename(folder / "new.gz.part", folder / "new.gz");
  folder.write("last.gz", game);
  arrives(folder / "last.gz");
  CHECK(pool.status().indexed == 4);
}

TEST_CASE("each pass uses its share of a game's positions, and all passes together use every one") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 5, 4);
  chess::loader_options o = options_for(folder.path());
  const auto tuples = [&](std::uint32_t epochs) {
    std::multiset<std::string> found;
    auto loader = chess::training_batches(o).finite({.epochs = epochs});
    for (const chess::training_batch& b : loader)
      for (std::size_t row = 0; row < b.size(); ++row) found.insert(bytes_of(b, row));
    return found;
  };
  const auto all = tuples(1);
  o.sampling = 0.25;
  const auto some = tuples(1).size();
  CHECK(some > 0);
  CHECK(some < all.size());
  const bool are_all = tuples(4) == all;
  CHECK(are_all);
}

TEST_CASE("a run can be stopped at any moment, and resumed") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 12, 1);
  const auto pipeline = chess::training_batches(options_for(folder.path()));
  auto whole = pipeline.infinite({.seed = 5});
  for (int i = 0; i < 13; ++i) whole.next();
  const fl::checkpoint state = whole.checkpoint();
  auto resumed = pipeline.infinite({.resume = state});
  for (int i = 0; i < 4; ++i) CHECK(bytes_of(*resumed.next()) == bytes_of(*whole.next()));
  whole.stop();
  CHECK(!whole.next());
}

TEST_CASE("the model learns the rules of the generated games") {
  const temporary_folder folder;
  chess::write_games(folder.path(), 40, 1);
  chess::loader_options o = options_for(folder.path());
  o.batch = 128;
  auto loader = chess::training_batches(o).infinite({.seed = 1});
  chess::small_model model(1);
  std::vector<chess::small_model::loss> losses;
  for (int i = 0; i < 120; ++i) {
    const auto batch = loader.next();
    const auto numbers = [](const fl::tensor<float>& t) { return std::span(t.data(), t.size()); };
    losses.push_back(model.learn(numbers((*batch)->planes), numbers((*batch)->probabilities),
                                 numbers((*batch)->winner), 0.2f));
  }
  CHECK(losses.back().policy < 0.7 * losses.front().policy);
  CHECK(losses.back().value < 0.8 * losses.front().value);
}

TEST_CASE("tensors of real games equal those of the reference parser, bit for bit", "[shared]") {
  const auto folder = test_data("leela");
  if (!folder) return;
  std::ifstream manifest(*folder + "/golden/MANIFEST.tsv");
  std::string line;
  std::getline(manifest, line);
  std::size_t compared = 0;
  while (std::getline(manifest, line)) {
    std::istringstream fields(line);
    std::string golden, chunk, size, frames, count;
    fields >> golden >> chunk >> size >> frames >> count;
    INFO(chunk);
    std::map<std::uint64_t, std::string> tuples;
    chess::loader_options o = options_for(*folder + "/" + chunk);
    auto loader = chess::training_batches(o).finite();
    for (const chess::training_batch& b : loader)
      for (std::size_t row = 0; row < b.size(); ++row) tuples[b.ids()[row].sub_index] = bytes_of(b, row);
    CHECK(tuples.size() == std::stoul(count));
    std::string wanted;
    std::istringstream numbers(frames);
    for (std::string number; std::getline(numbers, number, ',');) wanted += tuples[std::stoul(number)];
    const bool is_equal = wanted == contents_of(*folder + "/golden/" + golden);
    CHECK(is_equal);
    compared += is_equal;
  }
  CHECK(compared == 10);
}

TEST_CASE("each of 7,453 real positions is yielded once", "[shared]") {
  const auto folder = test_data("leela/v7");
  if (!folder) return;
  chess::loader_options o = options_for(*folder);
  o.batch = 1024;
  o.reservoir = 2000;
  CHECK(positions_of(chess::training_batches(o).finite({.seed = 1})).size() == 7453);
}
