// SPDX-License-Identifier: MIT
// Trains a small network on chess games of Leela Chess Zero, for a number of steps or on each position once. `--help`
// lists the flags; loader.hpp has the pipeline.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <feedline/feedline.hpp>
#include <feedline/telemetry.hpp>

#include "loader.hpp"
#include "model.hpp"
#include "options.hpp"
#include "synthetic_games.hpp"

namespace fl = feedline;

namespace {

struct report {
  std::uint64_t batches = 0, positions = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> distinct; // chunk and its position in it; in finite mode
  chess::small_model::loss first_loss, last_loss;
  double seconds = 0;
  std::uint64_t digest = 0;        // of the positions in order
  std::uint64_t tensor_digest = 0; // of all bytes of their tensors
  fl::metrics metrics;
  std::vector<fl::failure> failures;
  std::optional<fl::pipeline_error> error;   // the one that ended the run
  std::optional<std::uint64_t> since_anchor; // chunks; none: not a live pool

  std::uint64_t bad_chunks() const {
    std::uint64_t sum = 0;
    for (const fl::stage_metrics& s : metrics.total.stages) sum += s.failures;
    return sum;
  }
};

/// Adds the bits of numbers (FNV-1a over words).
void add_to_digest(std::span<const float> numbers, std::uint64_t& digest) {
  for (const float number : numbers) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    digest = (digest ^ bits) * 0x100000001b3;
  }
}

void add_to_digest(const chess::training_batch& b, std::uint64_t& digest) {
  for (const fl::tensor<float>* t :
       {&b->planes, &b->probabilities, &b->winner, &b->best_q, &b->plies_left, &b->values})
    add_to_digest({t->data(), t->size()}, digest);
}

/// Trains on the batches of a loader.
template <class Loader>
void train(Loader loader, const options& o, const std::stop_token& stop, report& into) {
  const std::uint64_t steps = o.steps.value_or(o.finite ? std::numeric_limits<std::uint64_t>::max() : 100);
  chess::small_model model(o.model_seed.value_or(o.seed));
  std::optional<fl::live_view> view;
  if (o.watch) view.emplace(loader);
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t shown = 0;
  try {
    while (into.batches < steps && !stop.stop_requested()) {
      const auto batch = loader.next();
      if (!batch) break;
      const auto numbers = [](const fl::tensor<float>& t) { return std::span(t.data(), t.size()); };
      into.last_loss = model.learn(numbers((*batch)->planes), numbers((*batch)->probabilities),
                                   numbers((*batch)->winner), static_cast<float>(o.rate));
      if (into.batches++ == 0) into.first_loss = into.last_loss;
      into.positions += batch->size();
      if (o.finite)
        for (const fl::sample_id& id : batch->ids()) into.distinct.emplace(id.index, id.sub_index);
      if (!o.json.empty()) add_to_digest(*batch, into.tensor_digest);
      into.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

      if (o.steps.value_or(100) >= 10 && into.batches * 10 / o.steps.value_or(100) == shown) continue;
      shown = into.batches * 10 / o.steps.value_or(100);
      std::printf("batch %llu  loss %.3f (policy %.3f, value %.3f)  %.0f positions/s\n",
                  static_cast<unsigned long long>(into.batches), into.last_loss.sum(), into.last_loss.policy,
                  into.last_loss.value, static_cast<double>(into.positions) / into.seconds);
    }
  } catch (const fl::pipeline_error& error) {
    into.error = error;
  }
  view.reset();
  into.digest = loader.digest();
  into.failures = loader.failures();
  into.metrics = loader.metrics();
}

/// Runs a pipeline for one pass, or endlessly.
template <class Batches>
void run_batches(const Batches& batches, const options& o, const std::stop_token& stop, report& into) {
  const auto with_options = [&](auto run) {
    run.seed = o.seed;
    run.stop = stop;
    run.on_error = fl::on_error::skip;
    run.failure_limit = fl::no_failure_limit;
    run.on_starved = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); };
    return run;
  };
  if (o.finite) train(batches.finite(with_options(fl::finite_options{})), o, stop, into);
  else train(batches.infinite(with_options(fl::infinite_options{})), o, stop, into);
}

void train(const options& o, const std::stop_token& stop, report& into) {
  if (o.window) {
    auto pool = chess::live_pool(o.loader.games.front(), *o.window,
                                 [](const std::string& sentence) { std::puts(sentence.c_str()); });
    if (o.anchor) pool.set_anchor(*o.anchor);
    run_batches(chess::live_batches(pool, o.loader), o, stop, into);
    into.since_anchor = pool.chunks_since_anchor();
    return;
  }
  const chess::chunk_sources sources(chess::find_files(o.loader.games));
  for (const std::string& problem : sources.problems())
    std::fprintf(stderr, "left out: %s\n", problem.c_str());
  run_batches(chess::batches_from(fl::from(sources) | fl::global_shuffle(), o.loader), o, stop, into);
}

void print(const report& r) {
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("\ntrained on %llu positions in %.1f s, %.0f per second; loss %.3f -> %.3f\n%s",
              number(r.positions), r.seconds,
              r.seconds > 0 ? static_cast<double>(r.positions) / r.seconds : 0, r.first_loss.sum(),
              r.last_loss.sum(), to_string(r.metrics).c_str());
  if (r.since_anchor) std::printf("\nchunks since the anchor: %llu\n", number(*r.since_anchor));
  if (const std::uint64_t bad = r.bad_chunks(); bad > 0)
    std::printf("\nchunks left out: %llu\n", number(bad));
  for (std::size_t i = 0; i < std::min<std::size_t>(r.failures.size(), 10); ++i)
    std::printf("  %s\n", to_string(r.failures[i]).c_str());
}

std::string to_json(const report& r) {
  std::string causes;
  const auto add = [&causes](const std::string& cause, std::uint64_t count) {
    causes += (causes.empty() ? "\"" : ", \"") + cause + "\": " + std::to_string(count);
  };
  bool is_pool = true; // its metrics are not causes
  for (const fl::stage_metrics& s : r.metrics.total.stages)
    if (const bool is_first = std::exchange(is_pool, false); s.failures > 0) {
      if (is_first) add("unreadable file", s.failures);
      else
        for (const fl::user_metric& cause : s.user_metrics)
          add(cause.name, static_cast<std::uint64_t>(cause.value));
    }
  return "{\"batches\": " + std::to_string(r.batches) + ", \"positions\": " + std::to_string(r.positions) +
         ", \"distinct\": " + std::to_string(r.distinct.size()) +
         ", \"digest\": " + std::to_string(r.digest) +
         ", \"tensor_digest\": " + std::to_string(r.tensor_digest) +
         ", \"first_loss\": " + std::to_string(r.first_loss.sum()) +
         ", \"last_loss\": " + std::to_string(r.last_loss.sum()) +
         ", \"seconds\": " + std::to_string(r.seconds) +
         ", \"bad_chunks\": " + std::to_string(r.bad_chunks()) + ", \"causes\": {" + causes +
         (r.since_anchor ? "}, \"since_anchor\": " + std::to_string(*r.since_anchor) : "}") +
         ", \"metrics\": " + to_json(r.metrics) + "}\n";
}

/// Returns the exit status; the help text lists them.
int run(options o) {
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  const std::stop_token stop = interrupt.token();

  std::ofstream json_file;
  if (!o.json.empty()) { // opened first, so that a wrong name fails before the work
    json_file.open(o.json);
    if (!json_file) throw std::runtime_error("can't write " + o.json);
  }

  struct folder {
    std::filesystem::path path;

    ~folder() {
      std::error_code ignored;
      if (!path.empty()) std::filesystem::remove_all(path, ignored);
    }
  } made;

  constexpr std::size_t games = 200;
  const std::uint64_t games_seed = o.games_seed.value_or(o.seed);
  if (!o.write_games.empty()) {
    chess::write_games(o.write_games, games, games_seed);
    return 0;
  }
  if (o.loader.games.empty()) {
    std::puts("generating games: random pieces, the side with more of them wins");
    std::string name = (std::filesystem::temp_directory_path() / "games-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("can't create the folder " + name);
    made.path = name;
    chess::write_games(name, games, games_seed);
    o.loader.games = {name};
    o.loader.reservoir = std::min<std::size_t>(o.loader.reservoir, 4000); // of about 8000 positions
    if (o.loader.min_fill) o.loader.min_fill = std::min(*o.loader.min_fill, o.loader.reservoir);
  }

  report result;
  train(o, stop, result);
  print(result);
  json_file << to_json(result);
  if (!o.json.empty() && !json_file.flush()) throw std::runtime_error("can't write " + o.json);
  if (result.error) throw fl::pipeline_error(*result.error);
  if (interrupt.signal() != 0) std::puts("interrupted");
  return interrupt.signal() != 0 ? 128 + interrupt.signal() : 0; // as in shells
}

} // namespace

int main(int count, char** arguments) {
  try {
    const options o = read_options({arguments + 1, arguments + count});
    if (o.help) {
      std::fputs(help_text.data(), stdout);
      return 0;
    }
    o.check();
    return run(o);
  } catch (const usage_error& error) {
    std::fprintf(stderr, "chess_training: %s (--help lists the flags)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chess_training: %s\n", error.what());
    return 1;
  }
}
