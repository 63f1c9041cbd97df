// SPDX-License-Identifier: MIT
#include <feedline/gzip.hpp>

int main() {
  const feedline::tar_gz_samples samples("no-such-shard.tar.gz");
  try {
    feedline::gunzip({});
  } catch (const feedline::gzip_error&) {
    return samples.shards().size() == 1 ? 0 : 1;
  }
  return 1;
}
