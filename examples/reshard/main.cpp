// SPDX-License-Identifier: MIT
// Rewrites the JPEGs of a data set with restart markers: random crops of them decode faster, because the decoder
// can leave out what is beside the crop. `--help` lists the flags; describe() has the pipeline.
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include "command_line.hpp"
#include "input.hpp"
#include "output.hpp"
#include "progress_bar.hpp"
#include "rewrite.hpp"
#include "shard_plan.hpp"
#include "summary.hpp"
#include "tar_writer.hpp"

namespace fl = feedline;

namespace {

struct job {
  fl::any_pipeline<rewritten_sample> samples;
  std::uint64_t count; // of the samples; 0 if only --shard-bytes matters
};

template <class Source>
job describe(const Source& source, const command_line& options) {
  const auto jpegs = fl::map([options](const auto& sample) { return rewrite(sample, options); },
                             fl::workers{options.workers}, fl::name{"rewrite"});
  const auto shuffled = source | fl::global_shuffle();
  job j{source | jpegs, 0};
  if (options.shuffle_seed) j.samples = shuffled | jpegs;
  if (options.shards) j.count = (shuffled | fl::prefetch(1)).size().value_or(0); // reads all headers once
  return j;
}

/// Returns false if a stop was requested before the end.
bool write_shards(const command_line& options, const input_files& input, output_folder& out,
                  const std::stop_token& stop) {
  const job all = input.folder.empty() ? describe(fl::tar_samples(input.names, {.hidden = true}), options)
                                       : describe(fl::from(folder_samples(input)), options);
  if (stop.stop_requested()) return false;
  shard_plan plan(options, all.count);
  summary totals = out.run().totals;
  const summary before_start = totals;
  progress_bar bar(input.bytes, totals.read);
  const auto begin = std::chrono::steady_clock::now();
  const auto rates = [&] {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto rate = [&](std::uint64_t now, std::uint64_t then) {
      return seconds > 0 ? static_cast<double>(now - then) / seconds : 0;
    };
    return count_of(totals.jpegs, "JPEG") + "  " + decimal(rate(totals.jpegs, before_start.jpegs), 0) +
           " JPEGs/s  " + decimal(rate(totals.bytes_before, before_start.bytes_before) / 1e6, 1) + " MB/s";
  };

  const bool skips = options.on_error == on_unreadable::skip;
  auto loader = all.samples.finite({.seed = options.shuffle_seed.value_or(0),
                                    .stop = stop,
                                    .on_error = skips ? fl::on_error::skip : fl::on_error::fail,
                                    .failure_limit = std::numeric_limits<std::size_t>::max(),
                                    .resume = out.position()});
  std::optional<tar_writer> shard;
  std::size_t failures_seen = 0;
  const auto finish_shard = [&](const fl::checkpoint& position) {
    if (!shard) shard.emplace(out.next_shard());
    out.finish(*shard, position, totals);
    shard.reset();
  };
  const auto add_failures = [&] {
    for (const auto& all_failures = loader.failures(); failures_seen < all_failures.size(); ++failures_seen)
      totals.add_failure(to_string(all_failures[failures_seen]));
  };
  for (;;) {
    const fl::checkpoint position = loader.checkpoint();
    const auto sample = loader.next();
    if (!sample && loader.stopped()) return false;
    if (!sample) {
      add_failures();
      if (totals.samples == 0 && totals.failed == 0) throw std::runtime_error("the input has no samples");
      if (totals.samples == 0) throw std::runtime_error("no sample can be read: " + totals.failures.front());
      while (shard || out.run().shards.size() < options.shards.value_or(0)) finish_shard(loader.checkpoint());
      out.complete(totals);
      bar.show(input.bytes, rates);
      return true;
    }
    if (!sample->wrong.empty()) throw std::runtime_error(sample->wrong);
    const std::uint64_t skipped = loader.failures().size() - failures_seen;
    const std::uint64_t number = totals.samples + skipped + (skips ? totals.failed : 0);
    const std::uint64_t wanted =
        plan.shard_of(*sample, number, shard ? &*shard : nullptr, out.run().shards.size());
    while (out.run().shards.size() < wanted) finish_shard(position);
    if (!shard) shard.emplace(out.next_shard());
    for (const auto& [name, bytes] : sample->members) shard->add(name, bytes);
    add_failures();
    totals += sample->counts;
    bar.show(totals.read, rates);
  }
}

/// Returns the exit status that the help text lists.
int run(const command_line& options) {
  std::signal(SIGXFSZ, SIG_IGN); // a file that would exceed `ulimit -f` is an error as a full disk is
  const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
  const input_files input(options.input);
  output_folder out(options, input);
  if (out.run().is_complete) {
    std::printf("nothing to do: the shards in %s are complete\n", options.out.c_str());
  } else if (!write_shards(options, input, out, interrupt.token())) {
    std::printf("interrupted after %s; start it again with the same flags to continue\n",
                count_of(out.run().shards.size(), "shard").c_str());
    return 128 + interrupt.signal(); // the shells' convention
  }
  std::printf("%s%s in %s\n", to_string(out.run().totals).c_str(),
              count_of(out.run().shards.size(), "shard").c_str(), options.out.c_str());
  return 0;
}

} // namespace

int main(int count, char** arguments) {
  try {
    const command_line options = read_command_line({arguments + 1, arguments + count});
    if (!options.help) return run(options);
    std::fputs(help_text.data(), stdout);
    return 0;
  } catch (const usage_error& error) {
    std::fprintf(stderr, "reshard: %s (--help lists the flags)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reshard: %s\n", error.what());
    return 1;
  }
}
