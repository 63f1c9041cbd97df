// SPDX-License-Identifier: MIT
#pragma once
// Decides which shard a sample belongs to.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "command_line.hpp"
#include "rewrite.hpp"
#include "summary.hpp"
#include "tar_writer.hpp"

class shard_plan {
 public:
  shard_plan(const command_line& options, std::uint64_t count) : options_(options), count_(count) {
    if (options.shards && *options.shards > std::max<std::uint64_t>(count, 1))
      throw std::runtime_error("--shards " + std::to_string(*options.shards) + " is more than the " +
                               count_of(count, "sample") + " of the input");
  }

  /// Returns the number of the sample's shard: `shard_number`, the current one, or a later one. `number` is that of the
  /// sample in the whole run; `shard` is null as long as the current shard has no samples.
  std::uint64_t shard_of(const rewritten_sample& sample, std::uint64_t number, const tar_writer* shard,
                         std::uint64_t shard_number) {
    // A reader would take neighbours with the same name for one sample.
    const bool joins = shard && sample.key == last_key_;
    last_key_ = sample.key;
    if (options_.shards) {
      const std::uint64_t wanted = std::min(number * *options_.shards / count_, *options_.shards - 1);
      if (joins && wanted == shard_number)
        throw std::runtime_error("two samples with the name " + sample.key + " follow each other in " +
                                 shard->path() + ", where they would become one: use --shard-bytes");
      return wanted;
    }
    std::uint64_t size = tar_writer::end_size;
    for (const auto& [name, bytes] : sample.members) size += tar_writer::size_of(name, bytes.size());
    const bool fits = !shard || shard->size() + size <= options_.bytes_per_shard();
    return shard_number + (fits && !joins ? 0 : 1);
  }

 private:
  const command_line& options_;
  std::uint64_t count_;
  std::string last_key_;
};
