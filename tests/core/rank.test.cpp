// SPDX-License-Identifier: MIT
#include <feedline/core/rank.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>
#include <feedline/source/tar.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/refusing.hpp"
#include "support/rounds.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// The environment without a launcher's variables, but with these.
class environment {
 public:
  explicit environment(const std::vector<std::pair<const char*, const char*>>& variables) {
    for (const char* const name : all) ::unsetenv(name);
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }

  environment(const environment&) = delete;

  ~environment() {
    for (const char* const name : all) ::unsetenv(name);
  }

 private:
  static constexpr const char* all[] = {"RANK",
                                        "WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_STEP_ID",
                                        "GROUP_WORLD_SIZE"};
};

using mapping = std::function<int(int)>;

const mapping same = [](int n) { return n; };
const auto number_of = [](const std::string& text) { return std::stoi(text); };

std::vector<int> iota(std::size_t size) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

template <class Loader>
std::vector<std::vector<int>> batches_of(Loader loader, std::size_t most = 1'000'000) {
  std::vector<std::vector<int>> all;
  while (all.size() < most) {
    auto b = loader.next();
    if (!b) break;
    all.emplace_back(b->values().begin(), b->values().end());
  }
  return all;
}

template <class Pipeline>
std::vector<int> samples_of_rank(const Pipeline& p, const fl::rank& r, std::uint32_t epochs = 1) {
  std::vector<int> all;
  for (const auto& b : batches_of(p.finite({.seed = 3, .epochs = epochs, .rank = r})))
    all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// Checks the shares of the ranks of an epoch in finite mode.
template <class Make>
void check_shares(const Make& make, bool by_sample = false) {
  for (const std::size_t size : {1u, 2u, 5u, 12u, 100u})
    for (const std::uint32_t of : {1u, 2u, 3u, 4u, 7u})
      for (const fl::remainder rest : {fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep}) {
        INFO(size << " samples, " << of << " ranks, " << static_cast<int>(rest));
        const auto order = samples_of_rank(make(size), {});
        std::vector<int> together;
        std::vector<std::size_t> counts;
        for (std::uint32_t r = 0; r < of; ++r) {
          const auto mine = samples_of_rank(
              make(size), {.number = r, .world_size = of, .remainder = rest, .by_sample = by_sample});
          for (std::size_t i = 0; i < mine.size(); ++i) CHECK(mine[i] == order[(i * of + r) % size]);
          counts.push_back(mine.size());
          together.insert(together.end(), mine.begin(), mine.end());
        }
        const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
        if (rest == fl::remainder::keep) CHECK(*most - *least <= 1);
        else CHECK(*most == *least);
        const std::size_t expected = rest == fl::remainder::drop   ? size / of * of
                                     : rest == fl::remainder::wrap ? (size + of - 1) / of * of
                                                                   : size;
        CHECK(together.size() == expected);
        std::map<int, int> often;
        for (const int n : together) ++often[n];
        CHECK(often.size() == std::min(expected, size)); // each once, or again only if all were taken
      }
}

/// Pipelines are `make(batch, workers)`.
template <class Make>
void check_changing_ranks(const Make& make, int tries) {
  constexpr std::size_t steps = 25;
  const auto alone = batches_of(make(24, 1).infinite({.seed = 3}), steps);
  for (int number = 0; number < tries; ++number) {
    fl::random_generator random(static_cast<std::uint64_t>(number));
    std::vector<std::vector<int>> together(steps);
    std::optional<fl::checkpoint> from;
    std::string path;
    for (std::size_t step = 0; step < steps;) {
      const std::uint32_t of = std::vector<std::uint32_t>{1, 2, 3, 4, 8}[random.below(5)];
      const std::size_t until = std::min<std::size_t>(steps, step + random.below(8));
      const auto keeper = static_cast<std::uint32_t>(random.below(of)); // whose checkpoint is kept
      path += std::to_string(of) + " ranks until " + std::to_string(until) + ", ";
      std::optional<fl::checkpoint> kept;
      for (std::uint32_t r = 0; r < of; ++r) {
        auto loader =
            make(24 / of, 1 + random.below(3)).infinite({.seed = 3, .rank = {r, of}, .resume = from});
        for (std::size_t s = step; s < until; ++s) {
          const auto b = loader.next();
          together[s].insert(together[s].end(), b->values().begin(), b->values().end());
        }
        if (r == keeper) kept = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
      }
      from = kept;
      step = until;
    }
    INFO(path);
    for (std::size_t step = 0; step < steps; ++step) {
      auto expected = alone[step];
      std::sort(expected.begin(), expected.end());
      std::sort(together[step].begin(), together[step].end());
      REQUIRE(together[step] == expected);
    }
  }
}

} // namespace

TEST_CASE("The launcher's variables set the rank") {
  const auto found = [](const std::vector<std::pair<const char*, const char*>>& variables) {
    const environment e(variables);
    return to_string(
        fl::rank::from_environment([](const std::string& sentence) { FAIL("unexpected: " << sentence); }));
  };
  CHECK(found({}) == "rank 0 of 1, from the default: no launcher has set another");
  CHECK(found({{"RANK", "3"}, {"WORLD_SIZE", "8"}}) == "rank 3 of 8, from torchrun's RANK and WORLD_SIZE");
  CHECK(found({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"SLURM_PROCID", "5"}}) ==
        "rank 0 of 2, from Open MPI's OMPI_COMM_WORLD_RANK and …_SIZE");
  CHECK(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}) == "rank 1 of 2, from MPICH's PMI_RANK and PMI_SIZE");
  CHECK(found({{"SLURM_PROCID", "1"},
               {"SLURM_STEP_NUM_TASKS", "4"},
               {"SLURM_STEP_ID", "0"},
               {"SLURM_NTASKS", "9"}}) == "rank 1 of 4, from Slurm's SLURM_PROCID and SLURM_STEP_NUM_TASKS");
  CHECK(found({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}) ==
        "rank 0 of 1, from the default: no launcher has set another");
  CHECK(throws_saying<std::invalid_argument>(
      "there is no rank 8 of 8, from torchrun's RANK and WORLD_SIZE: ranks count from 0", [&] {
        found({{"RANK", "8"}, {"WORLD_SIZE", "8"}});
      }));
  for (const char* const bad : {"", "-1", "two", "1 ", "99999999999"})
    CHECK(throws_saying<std::invalid_argument>(
        std::string("the environment's RANK is \"") + bad + "\", which is not a number", [&] {
          found({{"RANK", bad}, {"WORLD_SIZE", "8"}});
        }));
}

TEST_CASE("Variables of a launcher that are ignored are noticed, unless it has started the one that counts") {
  using variables = std::vector<std::pair<const char*, const char*>>;
  const auto noticed = [](const variables& all, const std::string& rank) {
    const environment e(all);
    std::string notice;
    CHECK(to_string(fl::rank::from_environment([&](const std::string& sentence) {
            notice = sentence;
          })).starts_with(rank));
    return notice;
  };
  const auto with = [](variables all, const variables& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // A batch script without srun.
  const std::string batch =
      noticed({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, "rank 0 of 1");
  CHECK(batch.find("it ignores, Slurm's 4 tasks, as this process isn't in a step (use srun") !=
        std::string::npos);
  CHECK(noticed({{"SLURM_NTASKS", "4"}}, "rank 0 of 1") == batch); // salloc
  const variables slurm{
      {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "4"}};
  CHECK(noticed(slurm, "rank 1 of 2").empty());

  // One launcher has started the other, or the script has set its variables from the other's.
  const variables torchrun{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"GROUP_WORLD_SIZE", "2"}};
  CHECK(noticed(with(torchrun, slurm), "rank 3 of 8").empty());
  CHECK(noticed(with({{"RANK", "1"}, {"WORLD_SIZE", "2"}}, slurm), "rank 1 of 2").empty());
  const variables open_mpi{{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "8"}};
  CHECK(noticed(with(open_mpi, slurm), "rank 5 of 8").empty());
  CHECK(noticed(with(open_mpi, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), "rank 5 of 8").empty());

  // A program that a rank has started inherits the rank's variables.
  const std::string inside = noticed(with(torchrun, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}), "rank 3 of 8");
  CHECK(inside == "feedline: this process is rank 3 of 8, from torchrun's RANK and WORLD_SIZE. The "
                  "environment also has, and "
                  "it ignores, rank 1 of 4, from MPICH's PMI_RANK and PMI_SIZE. If that is wrong, unset the "
                  "variables that "
                  "aren't meant for this process");
  CHECK(noticed(with(open_mpi, {{"PMI_RANK", "1"}, {"PMI_SIZE", "8"}}), "rank 5 of 8").find("rank 1 of 8") !=
        std::string::npos);
  CHECK(noticed(with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, open_mpi), "rank 0 of 1").find("rank 5 of 8") !=
        std::string::npos);

  // Half of a pair.
  CHECK(noticed({{"WORLD_SIZE", "8"}}, "rank 0 of 1").find("WORLD_SIZE without RANK") != std::string::npos);
  CHECK(noticed({{"PMI_RANK", "1"}}, "rank 0 of 1").find("PMI_RANK without PMI_SIZE") != std::string::npos);
}

TEST_CASE("A rank beyond the world size is refused") {
  const auto p = fl::from(iota(10)) | fl::batch(2);
  CHECK(throws_saying<std::invalid_argument>("there is no rank 2 of 2", [&] {
    p.infinite({.rank = {2, 2}});
  }));
  CHECK(throws_saying<std::invalid_argument>("there is no rank 0 of 0", [&] { p.finite({.rank = {0, 0}}); }));
}

TEST_CASE("Ranks share the positions of a shuffled data set") {
  const watchdog guard("shuffled ranks");
  check_shares([](std::size_t size) { return fl::from(iota(size)) | fl::global_shuffle() | fl::batch(3); });
}

TEST_CASE("Ranks share shuffled positions that workers take themselves") {
  const watchdog guard("ranks with workers");
  check_shares([](std::size_t size) {
    return fl::from(iota(size)) | fl::global_shuffle() | fl::map(same, fl::workers{2}) | fl::batch(3);
  });
}

TEST_CASE("Each rank takes its share of a source that doesn't know of ranks") {
  const watchdog guard("ranks of streams");
  check_shares([](std::size_t size) { return fl::from(iota(size)) | fl::batch(3); });
  check_shares([](std::size_t size) {
    return fl::generate([n = 0, size]() mutable {
             return n < static_cast<int>(size) ? std::optional(n++) : std::nullopt;
           }) |
           fl::batch(2);
  });
}

TEST_CASE("Each rank takes its share of sources that are made from others") {
  const watchdog guard("ranks of compositions");
  check_shares([](std::size_t size) {
    return fl::concat(fl::from(iota(size)), fl::from(std::vector<int>())) | fl::batch(3);
  });
  const temporary_folder folder;
  for (int file = 0; file < 4; ++file) {
    std::ofstream out(folder / (std::to_string(file) + ".txt"));
    for (int line = 0; line < 5; ++line) out << file * 10 + line << "\n";
  }
  const auto lines = [&] { return fl::lines({folder / "*.txt"}); };
  const auto check = [](const auto& p, std::size_t size) {
    std::map<int, int> often;
    for (std::uint32_t r = 0; r < 3; ++r)
      for (const int n : samples_of_rank(p, {.number = r, .world_size = 3, .remainder = fl::remainder::keep}))
        ++often[n];
    CHECK(often.size() == size);
    for (const auto& [n, times] : often) CHECK(times == 1);
  };
  check(fl::mix(fl::weighted(lines(), 1)) | fl::map(number_of) | fl::batch(2), 20);
  check(lines() | fl::interleave(2) | fl::map(number_of) | fl::batch(2), 20);
  check(fl::zip(lines(), fl::from(iota(100))) |
            fl::map([](const auto& both) { return std::stoi(both.first); }) | fl::batch(2),
        20);
}

TEST_CASE("Ranks together see the same indices and failures as a single process") {
  const watchdog guard("failures of ranks");
  const auto p = fl::from(numbers(20, {3, 4, 11})) | fl::batch(1);
  std::map<std::uint64_t, int> seen;
  std::size_t failures = 0;
  for (std::uint32_t r = 0; r < 3; ++r) {
    auto loader = p.finite({.on_error = fl::on_error::skip, .rank = {r, 3, fl::remainder::keep}});
    while (const auto b = loader.next()) seen[b->ids()[0].index] = b->values()[0];
    failures += loader.failures().size();
  }
  CHECK(seen.size() == 17);
  for (const auto& [index, value] : seen) CHECK(static_cast<int>(index) == value);
  CHECK(failures == 3);
}

TEST_CASE("In infinite mode the global batch of a step doesn't depend on the number of ranks") {
  const watchdog guard("global batches");
  const auto make = [](std::size_t size, std::size_t batch) {
    return fl::from(iota(size)) | fl::global_shuffle() | fl::map(same, fl::workers{2}) | fl::batch(batch);
  };
  for (const std::size_t size : {5u, 17u, 100u}) {
    const auto alone = batches_of(make(size, 24).infinite({.seed = 3}), 30);
    for (const std::uint32_t of : {2u, 3u, 4u, 8u}) {
      std::vector<std::vector<int>> together(30);
      for (std::uint32_t r = 0; r < of; ++r) {
        const auto mine = batches_of(make(size, 24 / of).infinite({.seed = 3, .rank = {r, of}}), 30);
        for (std::size_t step = 0; step < 30; ++step)
          together[step].insert(together[step].end(), mine[step].begin(), mine[step].end());
      }
      for (std::size_t step = 0; step < 30; ++step) {
        INFO(size << " samples, " << of << " ranks, step " << step);
        auto expected = alone[step];
        std::sort(expected.begin(), expected.end());
        std::sort(together[step].begin(), together[step].end());
        CHECK(together[step] == expected);
      }
    }
  }
}

TEST_CASE("A checkpoint of several ranks is resumed by more or fewer, with the same global batches") {
  const watchdog guard("changing ranks");
  const auto source = fl::from(iota(53)) | fl::global_shuffle();
  check_changing_ranks(
      [&](std::size_t batch, std::size_t workers) {
        return source | fl::map(same, fl::workers{workers}) | fl::batch(batch);
      },
      rounds(40));
  check_changing_ranks(
      [&](std::size_t batch, std::size_t workers) {
        return source |
               fl::batch_into<int>(
                   batch, [](int n, fl::batch_slot<int>& slot) { slot.value() = n; }, fl::workers{workers});
      },
      rounds(20));
}

TEST_CASE("A refused number of ranks, batch size or seed is named, with the size that fits") {
  const auto batches = [](std::size_t size) {
    return fl::from(iota(240)) | fl::global_shuffle() | fl::batch(size);
  };
  auto loader = batches(16).infinite({.seed = 3, .rank = {1, 4}});
  for (int i = 0; i < 3; ++i) loader.next();
  const auto left = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
  const auto refuses = [&](std::size_t size, std::uint32_t ranks, std::uint64_t seed,
                           const std::string& why) {
    return throws_saying<std::invalid_argument>(why, [&] {
      batches(size).infinite({.seed = seed, .rank = {0, ranks}, .resume = left});
    });
  };
  CHECK(refuses(16, 2, 3, "4 ranks with 16 samples each, here are 2 ranks with 16: use a size of 32"));
  CHECK(refuses(8, 4, 3, "its size was 16, here it is 8"));
  CHECK(refuses(21, 3, 3, "here are 3 ranks with 21, which no size makes equal"));
  CHECK(refuses(16, 4, 4, "all ranks must have the same seed"));
  batches(32).infinite({.seed = 3, .rank = {0, 2}, .resume = left});
}

TEST_CASE("In finite mode another number of ranks can finish an epoch") {
  const watchdog guard("changing ranks in finite mode");
  const auto make = [](std::size_t batch) {
    return fl::from(iota(60)) | fl::global_shuffle() | fl::batch(batch);
  };
  for (const fl::remainder rest : {fl::remainder::drop, fl::remainder::keep}) {
    std::map<int, int> often;
    std::optional<fl::checkpoint> from;
    for (std::uint32_t r = 0; r < 4; ++r) {
      auto loader = make(3).finite({.seed = 3, .rank = {r, 4, rest}});
      for (int step = 0; step < 2; ++step) {
        const auto b = loader.next();
        for (const int n : b->values()) ++often[n];
      }
      from = loader.checkpoint();
    }
    for (std::uint32_t r = 0; r < 2; ++r)
      for (auto& b : batches_of(make(6).finite({.seed = 3, .rank = {r, 2, rest}, .resume = from})))
        for (const int n : b) ++often[n];
    CHECK(often.size() == 60);
    for (const auto& [n, times] : often) CHECK(times == 1);
  }
}

TEST_CASE("A rank with fewer samples knows that the others have no more either, and a finished run has "
          "nothing left") {
  const watchdog guard("unequal ends");
  const auto make = [](std::size_t batch) {
    return fl::from(iota(5)) | fl::global_shuffle() | fl::batch(batch);
  };
  const auto rank_of = [](std::uint32_t number, std::uint32_t of) {
    return fl::rank{.number = number, .world_size = of, .remainder = fl::remainder::keep};
  };
  for (const std::uint32_t keeper : {0u, 1u})
    for (const std::uint32_t of : {1u, 2u, 3u})
      for (std::uint32_t r = 0; r < of; ++r) {
        auto loader = make(3).finite({.rank = rank_of(keeper, 2)});
        REQUIRE(loader.next()); // 3 of 3 samples, or 2 of 2
        CHECK_FALSE(make(6 / of).finite({.rank = rank_of(r, of), .resume = loader.checkpoint()}).next());
        REQUIRE_FALSE(loader.next());
        CHECK_FALSE(make(6 / of).finite({.rank = rank_of(r, of), .resume = loader.checkpoint()}).next());
      }

  // A full last batch: rank 0 has one more, unless rank 1 has seen the end.
  auto loader = make(2).finite({.rank = rank_of(1, 2)});
  REQUIRE(loader.next());
  CHECK(make(4).finite({.resume = loader.checkpoint()}).next().value().size() == 1);
  REQUIRE_FALSE(loader.next());
  CHECK_FALSE(make(4).finite({.resume = loader.checkpoint()}).next());
  loader.stop(); // it has ended all the same
  CHECK_FALSE(make(4).finite({.resume = loader.checkpoint()}).next());
}

TEST_CASE("Ranks that had unequal numbers of batches in an epoch are not equally far in the next one") {
  const watchdog guard("unequal epochs");
  const auto make = [](std::size_t batch) {
    return fl::from(iota(5)) | fl::global_shuffle() | fl::batch(batch);
  };
  const fl::rank second{.number = 1, .world_size = 2, .remainder = fl::remainder::keep};
  auto loader = make(2).finite({.epochs = 3, .rank = second}); // a batch of each epoch, rank 0 has two
  REQUIRE(loader.next());
  CHECK(make(4).finite({.epochs = 3, .resume = loader.checkpoint()}).next().value().size() == 1);
  REQUIRE(loader.next());
  for (int resumed = 0; resumed < 2; ++resumed) {
    const auto state = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
    CHECK(throws_saying<std::invalid_argument>("with remainder::keep the ranks have had unequal numbers of "
                                               "items in an epoch, so they are not equally far: resume "
                                               "each rank from its own checkpoint",
                                               [&] { make(4).finite({.epochs = 3, .resume = state}); }));
    loader = make(2).finite({.epochs = 3, .rank = second, .resume = state}); // itself
  }
  CHECK(loader.next());
  CHECK_FALSE(loader.next());
}

TEST_CASE("One rank continues several and several continue one, whatever the remainder") {
  const watchdog guard("to and from one rank");
  const auto make = [](std::size_t batch) {
    return fl::from(iota(50)) | fl::global_shuffle() | fl::batch(batch);
  };
  for (const fl::remainder rest : {fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep})
    for (const auto& [before, after] : {std::pair{1u, 4u}, {4u, 1u}, {2u, 4u}}) {
      INFO(before << " to " << after << ", " << static_cast<int>(rest));
      std::map<int, int> often;
      std::optional<fl::checkpoint> from;
      for (std::uint32_t r = 0; r < before; ++r) {
        auto loader = make(8 / before).finite({.seed = 3, .rank = {r, before, rest}});
        for (int step = 0; step < 2; ++step)
          for (const auto b = loader.next(); const int n : b->values()) ++often[n];
        from = loader.checkpoint();
      }
      for (std::uint32_t r = 0; r < after; ++r)
        for (const auto& b : batches_of(make(8 / after).finite({.rank = {r, after, rest}, .resume = from})))
          for (const int n : b) ++often[n];
      std::size_t all = 0;
      for (const auto& [n, times] : often) all += static_cast<std::size_t>(times);
      CHECK(often.size() == (rest == fl::remainder::drop ? 50 / after * after : 50));
      CHECK(all == (rest == fl::remainder::keep   ? 50
                    : rest == fl::remainder::drop ? 50 / after * after
                                                  : (50 + after - 1) / after * after));
    }
  auto loader = make(4).finite({.rank = {1, 2, fl::remainder::wrap}});
  CHECK(throws_saying<std::invalid_argument>(
      "its ranks had remainder::wrap, here they have remainder::keep", [&] {
        make(4).finite({.rank = {1, 2, fl::remainder::keep}, .resume = loader.checkpoint()});
      }));
}

TEST_CASE("Other ranks are refused for their stages before a size is named") {
  const auto windows = [](std::size_t size) {
    return fl::from(std::vector(20, std::vector(10, 1))) | fl::global_shuffle() | fl::windows(4) |
           fl::batch(size);
  };
  auto loader = windows(4).infinite({.rank = {0, 2}});
  REQUIRE(loader.next());
  for (const std::size_t size : {2u, 4u})
    CHECK(throws_saying<std::invalid_argument>(
        "it was taken on rank 0 of 2, this is rank 0 of 4: other ranks can continue only if map, tap and "
        "batch are the "
        "only stages after global_shuffle()",
        [&] {
          windows(size).infinite({.rank = {0, 4}, .resume = loader.checkpoint()});
        }));
  CHECK(throws_saying<std::invalid_argument>("its size was 4, here it is 2", [&] {
    windows(2).infinite({.rank = {0, 2}, .resume = loader.checkpoint()});
  }));
}

TEST_CASE("In infinite mode ranks share streams without a remainder, epoch after epoch") {
  const watchdog guard("endless streams");
  for (const std::size_t size : {1u, 4u, 5u, 9u})
    for (const std::uint32_t of : {2u, 3u, 4u}) {
      INFO(size << " samples, " << of << " ranks");
      std::vector<std::vector<int>> ranks;
      for (std::uint32_t r = 0; r < of; ++r)
        ranks.push_back(batches_of((fl::from(iota(size)) | fl::batch(30)).infinite({.rank = {r, of}}), 1)[0]);
      for (std::size_t i = 0; i < 30 * of; ++i)
        CHECK(ranks[i % of][i / of] == static_cast<int>(i % size)); // as a single process would get them
    }
}

TEST_CASE("Ranks that filter don't advance equally") {
  const watchdog guard("ranks that filter");
  const auto filter = fl::filter([](int n) { return n % 3 != 0; });
  const auto p = fl::from(iota(100)) | fl::global_shuffle() | filter | fl::batch(2);
  auto loader = p.infinite({.rank = {0, 2}});
  loader.next();
  CHECK(p.infinite({.rank = {0, 2}, .resume = loader.checkpoint()}).next());
  CHECK(throws_saying<std::invalid_argument>("map, tap and batch are the only stages", [&] {
    (fl::from(iota(100)) | fl::global_shuffle() | filter | fl::batch(4))
        .infinite({.resume = loader.checkpoint()});
  }));
}

TEST_CASE("Ranks that skipped samples don't advance equally") {
  const watchdog guard("ranks that skip");
  const auto start = [](const fl::rank& r, std::size_t workers, const std::optional<fl::checkpoint>& from) {
    const auto p = fl::from(iota(100)) | fl::global_shuffle() |
                   fl::map(mapping(refusing{{10, 60}}), fl::workers{workers}) | fl::batch(6 / r.world_size);
    return p.infinite({.on_error = fl::on_error::skip, .rank = r, .resume = from});
  };
  for (const std::size_t workers : {1u, 3u}) {
    auto loader = start({0, 2}, workers, {});
    const auto before = loader.checkpoint();
    while (loader.failures().empty()) REQUIRE(loader.next());
    const auto state = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
    CHECK(start({0, 2}, workers, state).next());
    for (const fl::rank other : {fl::rank{1, 2}, fl::rank{0, 1}, fl::rank{2, 3}}) {
      CHECK(start(other, workers, before).next());
      CHECK(throws_saying<std::invalid_argument>("because of skipped failures the ranks are not equally far",
                                                 [&] { start(other, workers, state); }));
    }
  }
}

TEST_CASE("A rank of every kind of source is resumed") {
  const watchdog guard("resumed ranks");
  leave_and_resume("ranks", 80, [](draw& d, const circumstances&) {
    return fl::from(iota(d(1, 60))) | fl::global_shuffle() | fl::batch(d(1, 6));
  });
  for (const fl::remainder rest : {fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep})
    for (const std::size_t size : {5u, 9u, 30u})
      for (std::uint32_t r = 0; r < 4; ++r) {
        INFO(static_cast<int>(rest) << ", " << size << " samples, rank " << r);
        const auto p = fl::from(iota(size)) | fl::global_shuffle() | fl::batch(2);
        const auto all = batches_of(p.finite({.seed = 5, .epochs = 3, .rank = {r, 4, rest}}));
        for (std::size_t cut = 0; cut <= all.size(); ++cut) {
          auto loader = p.finite({.seed = 5, .epochs = 3, .rank = {r, 4, rest}});
          for (std::size_t i = 0; i < cut; ++i) loader.next();
          const auto left = batches_of(
              p.finite({.seed = 5, .epochs = 3, .rank = {r, 4, rest}, .resume = loader.checkpoint()}));
          CHECK(left == std::vector(all.begin() + static_cast<std::ptrdiff_t>(cut), all.end()));
        }
      }
}

TEST_CASE("The contents of a buffer belong to one rank of a fixed world size") {
  const watchdog guard("buffers of ranks");
  const auto p = fl::from(iota(60)) | fl::global_shuffle() | fl::shuffle({.capacity = 5}) | fl::batch(3);
  auto loader = p.infinite({.rank = {1, 2}});
  loader.next();
  const auto state = loader.checkpoint();
  CHECK(p.infinite({.rank = {1, 2}, .resume = state}).next());
  CHECK(throws_saying<std::invalid_argument>("it was taken on rank 1 of 2, this is rank 0 of 2", [&] {
    p.infinite({.rank = {0, 2}, .resume = state});
  }));
  CHECK(throws_saying<std::invalid_argument>("this is rank 0 of 1", [&] { p.infinite({.resume = state}); }));
}

TEST_CASE("Ranks share the files of a source that reads them in order") {
  const watchdog guard("files of ranks");
  const temporary_folder folder;
  for (int file = 0; file < 5; ++file) {
    std::ofstream out(folder.path() + "/" + std::to_string(file) + ".txt");
    for (int line = 0; line < 3 + file; ++line) out << file * 100 + line << "\n";
  }
  const auto p = fl::lines({folder.path() + "/*.txt"}) | fl::map(number_of) | fl::batch(2);
  CHECK(throws_saying<std::invalid_argument>("or remainder::keep", [&] { p.finite({.rank = {0, 2}}); }));
  std::map<int, int> often;
  for (std::uint32_t r = 0; r < 3; ++r)
    for (const int n :
         samples_of_rank(p, {.number = r, .world_size = 3, .remainder = fl::remainder::keep}, 2))
      ++often[n];
  CHECK(often.size() == 25);
  for (const auto& [n, times] : often) CHECK(times == 2);
  CHECK(p.infinite({.rank = {4, 5}}).next());
  auto loader = p.infinite({.rank = {0, 6}});
  CHECK(throws_saying<fl::pipeline_error>("5 files can't be divided among 6 ranks", [&] { loader.next(); }));
}

namespace {

/// The first `size` numbers as `text_of` writes them, in up to three files of different sizes.
template <class F>
std::string write_numbers(const temporary_folder& folder, std::size_t size, F text_of) {
  const std::string name = std::to_string(size) + "-";
  std::string files[3];
  for (std::size_t n = 0; n < size; ++n)
    files[n < size / 2 ? 0 : n < size - 1 ? 1 : 2] += text_of(static_cast<int>(n));
  for (int file = 0; file < 3; ++file)
    if (!files[file].empty()) folder.write(name + std::to_string(file), files[file]);
  return folder / (name + "*");
}

fl::rank by_sample(std::uint32_t number, std::uint32_t of, fl::remainder rest = fl::remainder::drop) {
  return {.number = number, .world_size = of, .remainder = rest, .by_sample = true};
}

/// Checks ranks that divide samples. `make` makes batches of two numbers, which it reads from at most three files.
template <class Make>
void check_by_sample(const Make& make) {
  check_shares(make, true);
  const auto p = make(12);
  const auto flat = [](const std::vector<std::vector<int>>& batches) {
    std::vector<int> all;
    for (const auto& b : batches) all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  const auto stream = [&](const fl::rank& r) {
    return flat(batches_of(p.infinite({.seed = 1, .rank = r}), 20));
  };
  const auto alone = stream({}); // with another order of the files in each epoch
  for (const std::uint32_t of : {2u, 5u})
    for (std::uint32_t r = 0; r < of; ++r) {
      const auto mine = stream(by_sample(r, of));
      for (std::size_t i = 0; i * of + r < alone.size(); ++i) CHECK(mine[i] == alone[i * of + r]);
      for (std::size_t cut = 0; cut < 9; ++cut) {
        auto loader = p.infinite({.seed = 1, .rank = by_sample(r, of)});
        for (std::size_t i = 0; i < cut; ++i) loader.next();
        const auto left = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
        const auto next = p.infinite({.seed = 1, .rank = by_sample(r, of), .resume = left}).next();
        CHECK(std::vector(next->values().begin(), next->values().end()) ==
              std::vector(mine.begin() + static_cast<std::ptrdiff_t>(2 * cut),
                          mine.begin() + static_cast<std::ptrdiff_t>(2 * cut) + 2));
        CHECK(throws_saying<std::invalid_argument>(
            "its ranks divided the samples, here they divide the files (rank::by_sample)", [&] {
              p.infinite({.seed = 1, .rank = {r, of}, .resume = left});
            }));
      }
    }
  for (const fl::remainder rest : {fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep})
    for (std::uint32_t r = 0; r < 5; ++r) {
      const auto all = batches_of(p.finite({.seed = 1, .epochs = 3, .rank = by_sample(r, 5, rest)}));
      for (std::size_t cut = 0; cut <= all.size(); ++cut) {
        INFO(static_cast<int>(rest) << ", rank " << r << ", after " << cut << " batches");
        auto loader = p.finite({.seed = 1, .epochs = 3, .rank = by_sample(r, 5, rest)});
        for (std::size_t i = 0; i < cut; ++i) loader.next();
        const auto left =
            batches_of(p.finite({.epochs = 3, .rank = by_sample(r, 5, rest), .resume = loader.checkpoint()}));
        CHECK(left == std::vector(all.begin() + static_cast<std::ptrdiff_t>(cut), all.end()));
      }
    }
}

} // namespace

TEST_CASE("Ranks share the samples of files by option, also of fewer files than ranks") {
  const watchdog guard("samples of ranks");
  const temporary_folder folder;
  const auto line_of = [](int n) { return std::to_string(n) + "\n"; };
  const auto pipeline = [&](std::size_t size) {
    return fl::lines(write_numbers(folder, size, line_of), {.max_line_bytes = 3}) | fl::map(number_of) |
           fl::batch(2);
  };
  check_by_sample(pipeline);

  // A line that is too long fails at one rank.
  const auto p = pipeline(12);
  folder.write("12-2", "10\ntoo long\n12\n13\n14\n");
  std::size_t failures = 0, samples = 0;
  for (std::uint32_t r = 0; r < 4; ++r) {
    auto loader = p.finite({.on_error = fl::on_error::skip, .rank = by_sample(r, 4)});
    while (const auto b = loader.next()) samples += b->size();
    failures += loader.failures().size();
  }
  CHECK(failures == 1);
  CHECK(samples == 15);

  // Where positions are dealt out it changes nothing.
  const auto shuffled = fl::from(iota(20)) | fl::global_shuffle() | fl::batch(2);
  CHECK(samples_of_rank(shuffled, by_sample(1, 2)) == samples_of_rank(shuffled, {1, 2}));
}

TEST_CASE("Ranks share the records of files and the samples of shards by option") {
  const watchdog guard("records and shards of ranks");
  const temporary_folder folder;
  const auto bytes_of = [](int n) { return std::string(reinterpret_cast<const char*>(&n), sizeof n); };
  check_by_sample([&](std::size_t size) {
    return fl::records<int>(write_numbers(folder, size, bytes_of)) | fl::batch(2);
  });
  const auto members_of = [](int n) {
    return tar_writer().add(std::to_string(n) + ".txt", "").add(std::to_string(n) + ".cls", "").open();
  };
  const auto key_of = [](const fl::tar_sample& s) { return std::stoi(std::string(s.key())); };
  check_by_sample([&](std::size_t size) {
    return fl::tar_samples(write_numbers(folder, size, members_of)) | fl::map(key_of) | fl::batch(2);
  });
}

namespace {

/// Emits every second item.
struct every_second {
  static constexpr fl::stage_traits traits{.data_independent_count = true};
  using output = int;

  void operator()(int n, auto& emit) {
    if (++count % 2 == 0) emit(n);
  }

  int count = 0;
};

struct even_ones {
  static constexpr fl::stage_traits traits{.kind = "even_ones"};
  using output = int;

  void operator()(int n, auto& emit) {
    if (n % 2 == 0) emit(n);
  }
};

} // namespace

TEST_CASE(
    "Stages whose output count depends on the data are refused where all ranks yield equally many items") {
  const auto source = fl::from(iota(1000)) | fl::global_shuffle();
  const auto is_even = [](int n) { return n % 2 == 0; };
  const auto both = [](int n) { return std::vector(static_cast<std::size_t>(n % 3), n); };
  const auto length = [](int n) { return static_cast<unsigned>(n % 30); };
  const auto check = [](const std::string& who, const auto& p) {
    CAPTURE(who);
    CHECK(throws_saying<std::invalid_argument>(
        who + " may leave out more samples on one rank than on another", [&] {
          p.finite({.rank = {1, 4}});
        }));
    CHECK(throws_saying<std::invalid_argument>("or remainder::keep", [&] {
      p.finite({.rank = {1, 4, fl::remainder::wrap}});
    }));
    CHECK(p.finite({.rank = {1, 4, fl::remainder::keep}}).next());
    CHECK(p.infinite({.rank = {1, 4}}).next());
    CHECK(p.finite().next());
  };
  check("filter `partition`", source | fl::partition({80, 20}, 0) | fl::batch(8));
  check("filter `partition`", fl::from(iota(1000)) | fl::partition({80, 20}, 0) | fl::batch(8));
  check("filter", source | fl::filter(is_even, fl::workers{3}) | fl::map(same) | fl::batch(8));
  check("flat_map", source | fl::flat_map(both, fl::workers{2}) | fl::batch(8));
  check("flat_map", source | fl::flat_map(both) | fl::prefetch(2));
  check("filter | cache", source | fl::filter(is_even) | fl::cache({.memory_bytes = 1000}) | fl::batch(8));
  check("bucket_batch", source | fl::bucket_batch({.boundaries = {10, 20}, .batch_size = 4}, length));
  check("even_ones", source | even_ones() | fl::batch(8));
}

TEST_CASE("All ranks get equally many batches through stages that depend only on counts") {
  const auto p = fl::from(iota(1003)) | fl::global_shuffle() | fl::map(same, fl::workers{2}) |
                 fl::cache({.memory_bytes = 10'000}) | fl::tap([](int) {}) | fl::shuffle({.capacity = 20}) |
                 fl::skip(3) | fl::take(200) | every_second() | fl::enumerate() |
                 fl::map([](const auto& e) { return e.value; }) | fl::prefetch(10) | fl::batch(8);
  for (std::uint32_t r = 0; r < 4; ++r) CHECK(batches_of(p.finite({.rank = {r, 4}})).size() == 13);
}
