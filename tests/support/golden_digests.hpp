// SPDX-License-Identifier: MIT
#pragma once
// Compares hashes of what pipelines yield with those in a file, so that no change of the library changes an order, a random
// number, an index, a fingerprint or a skipped failure unseen.
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/random.hpp>
#include <feedline/stage/map.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/temporary_folder.hpp"

namespace feedline::test {

/// Makes a temporary folder the current one, so that names of files in it are the same each time.
class inside_temporary_folder : public temporary_folder {
 public:
  inside_temporary_folder() { std::filesystem::current_path(path()); }

  ~inside_temporary_folder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

/// Hashes a sample with its identity and a random number, and may throw for some of the samples.
struct hash_of_sample {
  bool throws_for_some = true;

  template <class Item>
  std::uint64_t operator()(const Item& item, context& c) const {
    const std::uint64_t hash = hash_of(item);
    if (throws_for_some && hash % 13 == 6) throw std::runtime_error("unlucky");
    return detail::key(hash, c.index, c.sub_index, detail::key(c.epoch, c.repetition, c.random()));
  }

 private:
  template <class Item>
  static std::uint64_t hash_of(const Item& item) {
    if constexpr (requires { stable_hash(item); }) {
      return stable_hash(item);
    } else if constexpr (requires { item.key(); }) { // a sample of a TAR shard
      std::uint64_t hash = stable_hash(item.key());
      for (const auto& field : item)
        hash = detail::key(hash, hash_of(field.name), hash_of(item.text(field.name)));
      return hash;
    } else if constexpr (requires { item.ids(); }) { // a batch
      std::uint64_t hash = hash_of(item.values());
      for (const sample_id& id : item.ids())
        hash = detail::key(hash, id.index, id.sub_index, detail::key(id.epoch, id.repetition));
      return hash;
    } else if constexpr (requires { item.first; }) {
      return detail::key(hash_of(item.first), hash_of(item.second));
    } else if constexpr (requires { item.number; }) { // enumerated
      return detail::key(hash_of(item.number), hash_of(item.value));
    } else if constexpr (requires { item.begin(); }) {
      std::uint64_t hash = 0;
      for (const auto& element : item) hash = detail::key(hash, hash_of(element));
      return hash;
    } else {
      return static_cast<std::uint64_t>(item);
    }
  }
};

/// The hashes of a file with lines "name: hash". At the end it checks that they are the ones that were added. With the
/// environment variable FEEDLINE_WRITE_GOLDEN it writes the file.
class golden_digests {
 public:
  explicit golden_digests(std::string file) : file_(std::move(file)) {
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
      const std::size_t end = line.rfind(": ");
      if (end != line.npos) expected_[line.substr(0, end)] = line.substr(end + 2);
    }
  }

  /// Adds the runs of a pipeline: over an epoch, over several, without end, of three ranks, of others, and resumed; and
  /// the identity that its checkpoints have.
  template <class Pipeline>
  void add(const std::string& name, const Pipeline& pipeline) {
    INFO(name);
    const any_pipeline<std::uint64_t> hashes = pipeline | map(hash_of_sample());
    const any_pipeline<std::uint64_t> all_hashes = pipeline | map(hash_of_sample{.throws_for_some = false});
    run one;
    one.take(hashes.finite({.seed = 7, .on_error = on_error::skip, .on_notice = ignored}));
    add(name + ", an epoch", one);
    run several;
    several.take(hashes.finite({.seed = 8, .epochs = 2, .first_epoch = 3, .on_error = on_error::skip}));
    add(name + ", epochs", several);
    run failed;
    failed.take(hashes.finite({.seed = 7, .on_notice = ignored}));
    add(name + ", until a failure", failed);
    add_ranks(name, hashes);
    add_other_ranks(name, all_hashes);
    add_resumed(name, hashes);
  }

  /// Compares. Each name must have been added.
  void check() {
    if (std::getenv("FEEDLINE_WRITE_GOLDEN")) {
      std::ofstream out(file_);
      for (const auto& [name, hash] : found_) out << name << ": " << hash << '\n';
    }
    for (const auto& [name, hash] : found_) {
      INFO(name);
      CHECK(expected_[name] == hash);
    }
    CHECK(expected_.size() == found_.size());
  }

 private:
  /// The hash of the items and failures of a run.
  struct run {
    /// Takes items to the end, or that many.
    void take(loader<std::uint64_t> from, std::size_t most = ~std::size_t{0}) {
      try {
        while (most-- > 0 && take_one(from)) {
        }
      } catch (const std::exception& error) {
        add(stable_hash(error.what()));
      }
      add(from.digest());
    }

    bool take_one(loader<std::uint64_t>& from) {
      const auto item =
          next_noting_failures(from, [this](const failure& f) { add(stable_hash(to_string(f))); });
      if (item) add(*item);
      return item.has_value();
    }

    void add(std::uint64_t value) { hash = detail::key(hash, value); }

    std::uint64_t hash = 0;
  };

  static constexpr std::size_t items_of_endless = 150;
  static constexpr auto ignored = [](const std::string&) {};

  void add(const std::string& name, const run& r) { add(name, r.hash); }

  void add(const std::string& name, std::uint64_t hash) {
    char text[20];
    std::snprintf(text, sizeof text, "%016" PRIx64, hash);
    CHECK(found_.emplace(name, text).second);
  }

  // Three ranks in each way to divide an epoch.
  void add_ranks(const std::string& name, const any_pipeline<std::uint64_t>& hashes) {
    constexpr std::uint32_t ranks = 3;
    const std::pair<const char*, rank> kinds[] = {
        {"drop", {.remainder = remainder::drop}},
        {"wrap", {.remainder = remainder::wrap}},
        {"keep", {.remainder = remainder::keep}},
        {"by sample", {.remainder = remainder::keep, .by_sample = true}}};
    for (auto [kind, r] : kinds) {
      run all;
      r.world_size = ranks;
      for (r.number = 0; r.number < ranks; ++r.number) {
        try {
          all.take(hashes.finite({.seed = 9, .epochs = 2, .on_error = on_error::skip, .rank = r}));
        } catch (const std::invalid_argument& refused) {
          all.add(stable_hash(refused.what()));
        }
      }
      add(name + ", ranks, " + kind, all);
    }
  }

  // Two ranks that continue what three began.
  void add_other_ranks(const std::string& name, const any_pipeline<std::uint64_t>& hashes) {
    constexpr std::uint32_t ranks = 3;
    run others;
    try {
      auto begun = hashes.infinite({.seed = 3, .rank = {.number = 0, .world_size = ranks}});
      run before;
      for (int i = 0; i < 4; ++i) before.take_one(begun);
      for (std::uint32_t number = 0; number < 2; ++number)
        others.take(
            hashes.infinite({.rank = {.number = number, .world_size = 2}, .resume = begun.checkpoint()}), 20);
    } catch (const std::exception& refused) {
      others.add(stable_hash(refused.what()));
    }
    add(name + ", other ranks", others);
  }

  // A run without end, and what continues it from several places, which must be the same.
  void add_resumed(const std::string& name, const any_pipeline<std::uint64_t>& hashes) {
    std::vector<run> after(1); // after[n]: n items
    std::map<std::size_t, checkpoint> checkpoints;
    auto loader = hashes.infinite({.seed = 5, .on_error = on_error::skip});
    for (std::size_t i = 0; i < items_of_endless; ++i) {
      if (i % 37 == 0) checkpoints.emplace(i, loader.checkpoint());
      after.push_back(after.back());
      after.back().take_one(loader);
    }
    add(name + ", without end", after.back());
    const detail::run_identity identity = loader.checkpoint().state().run;
    add(name + ", its data", detail::key(identity.extent, identity.data, identity.pipeline));
    for (const auto& [items, at] : checkpoints) {
      auto resumed = hashes.infinite({.on_error = on_error::skip, .resume = at});
      run all = after[items];
      for (std::size_t i = items; i < items_of_endless; ++i) {
        if (i == items + 20) {
          const checkpoint again = resumed.checkpoint();
          resumed = hashes.infinite({.on_error = on_error::skip, .resume = again});
        }
        all.take_one(resumed);
        INFO("resumed after " << items << " items, item " << i);
        REQUIRE(all.hash == after[i + 1].hash);
      }
    }
  }

  std::string file_;
  std::map<std::string, std::string> expected_, found_;
};

} // namespace feedline::test
