// SPDX-License-Identifier: MIT
#include <string>

#include "support/catch.hpp"
#include "support/nginx.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

namespace {

const std::string program = FEEDLINE_REMOTE_TRAINING;

} // namespace

TEST_CASE("remote_training trains from shards behind a web server, and later epochs come from the cache") {
  if (!feedline::test::has_nginx()) {
    WARN("left out: nginx or openssl was not found");
    return;
  }
  const feedline::test::temporary_folder folder;
  const auto o = feedline::test::run_command(
      FEEDLINE_REMOTE_TRAINING_SCRIPT " " + program + " --epochs 2 --workers 3", folder);
  INFO(o.log);
  CHECK(o.status == 0);
  CHECK(o.says("epoch 2: 1000 samples"));
  CHECK(o.says("2000 samples in"));
  CHECK(o.says("cache misses: 4\n"));
  CHECK(o.says("cache hits: 4\n"));
}

TEST_CASE("remote_training says what is wrong in one sentence") {
  const feedline::test::temporary_folder folder;
  const auto run = [&](const std::string& flags) {
    return feedline::test::run_command(program + " " + flags, folder);
  };
  CHECK(run("").status == 2);
  CHECK(run("--epochs").says("--epochs needs a value"));
  CHECK(run("--epochs 0 https://localhost/a.tar").says("--epochs needs a positive number, not `0`"));
  CHECK(run("--colour blue").says("unknown flag --colour"));
  CHECK(run("--make " + folder / "missing").status == 1);
  CHECK(run("ftp://localhost/a.tar").says("ftp://"));
  // Port 9 of the loopback has no server.
  const auto refused = run("--retry-for 1 http://127.0.0.1:9/a.tar");
  INFO(refused.log);
  CHECK(refused.status == 1);
  CHECK(refused.says("remote_training: tar_samples failed after 0 samples of epoch 0: "
                     "http://127.0.0.1:9/a.tar: can't connect"));
}
