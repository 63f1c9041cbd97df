// SPDX-License-Identifier: MIT
// Objects of an S3 server that checks signatures.
#include <feedline/remote.hpp>

#include <feedline/source/tar.hpp>
#include <feedline/stage/map.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/remote_reads.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::environment;
using fl::test::throws_saying;

namespace {

/// s3_server.mjs on a folder, for the key ME in the region eu-west-1.
class s3_server {
 public:
  s3_server(const std::string& folder, const char* token) {
    int input[2], output[2];
    if (::pipe2(input, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      ::execlp("node", "node", FEEDLINE_S3_SERVER, folder.c_str(), "eu-west-1", "ME", "the-secret", token,
               static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    for (char c = 0; ::read(output[0], &c, 1) == 1 && c != '\n';) port_ += c;
    ::close(output[0]);
    if (port_.empty()) throw std::runtime_error("the S3 server doesn't start");
  }

  s3_server(const s3_server&) = delete;

  ~s3_server() {
    ::close(input_);
    ::waitpid(process_, nullptr, 0);
  }

  std::string url() const { return "http://127.0.0.1:" + port_; }

 private:
  ::pid_t process_ = -1;
  int input_ = -1;
  std::string port_;
};

/// The variables from which S3 takes its settings. An empty one counts as absent.
std::map<std::string, std::string> settings(const s3_server& server, const char* secret,
                                            const char* token = "") {
  return {{"AWS_ENDPOINT_URL", server.url()},
          {"AWS_REGION", "eu-west-1"},
          {"AWS_ACCESS_KEY_ID", "ME"},
          {"AWS_SECRET_ACCESS_KEY", secret},
          {"AWS_SESSION_TOKEN", token}};
}

bool is_left_out() {
  if (std::system("command -v node >/dev/null 2>&1") == 0) return false;
  WARN("left out: node was not found");
  return true;
}

std::string read(const char* name) {
  const auto part = fl::remote()->read(name, 2, 4, {})->get(std::stop_token());
  return {reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size()};
}

} // namespace

TEST_CASE("Objects of S3 are read with signed requests") {
  if (is_left_out()) return;
  const fl::test::temporary_folder folder;
  std::filesystem::create_directories(folder / "bucket/folder");
  folder.write("bucket/plain", "0123456789");
  folder.write("bucket/folder/a b+c=d&e~f.txt", "0123456789");
  for (const char* const token : {"", "the-token"}) {
    const s3_server server(folder.path(), token);
    const environment right(settings(server, "the-secret", token));
    CHECK(read("s3://bucket/plain") == "2345");
    CHECK(read("s3://bucket/folder/a b+c=d&e~f.txt") == "2345");
    CHECK(
        throws_saying<fl::object_missing>("s3://bucket/none: status 404", [] { read("s3://bucket/none"); }));
    ::unsetenv("AWS_SESSION_TOKEN");
    if (*token) CHECK(throws_saying<fl::object_error>("status 403", [] { read("s3://bucket/plain"); }));
    const environment wrong(settings(server, "another", token));
    std::string said;
    try {
      read("s3://bucket/plain");
    } catch (const fl::object_error& error) {
      said = error.what();
    }
    CHECK(said.find("s3://bucket/plain: status 403 Forbidden") == 0);
    CHECK(said.find("another") == std::string::npos);
  }
  const s3_server server(folder.path(), "");
  auto keyless = settings(server, "");
  keyless.erase("AWS_ACCESS_KEY_ID");
  const environment none(keyless);
  CHECK(throws_saying<fl::object_error>("status 403", [] { read("s3://bucket/plain"); }));
}

TEST_CASE("Requests to a bucket's own host are signed for it") {
  if (is_left_out()) return;
  const fl::test::temporary_folder folder;
  std::filesystem::create_directory(folder / "my.bucket");
  folder.write("my.bucket/a b+c=d.txt", "0123456789");
  const s3_server server(folder.path(), "");
  auto variables = settings(server, "the-secret");
  variables["AWS_ENDPOINT_URL"] = "http://s3.test";
  const environment right(variables);
  ::unsetenv("no_proxy");
  ::setenv("http_proxy", server.url().c_str(), 1); // which knows s3.test
  const auto part =
      fl::remote({.virtual_hosted = true})->read("s3://my.bucket/a b+c=d.txt", 2, 4, {})->get({});
  CHECK(fl::test::text_of(part) == "2345");
  variables["AWS_SECRET_ACCESS_KEY"] = "another";
  const environment wrong(variables);
  ::unsetenv("no_proxy");
  CHECK(throws_saying<fl::object_error>("SignatureDoesNotMatch", [] {
    fl::remote({.virtual_hosted = true})->read("s3://my.bucket/a b+c=d.txt", 2, 4, {})->get({});
  }));
  ::unsetenv("http_proxy");
}

TEST_CASE("Shards in S3 have the samples of the files") {
  if (is_left_out()) return;
  const fl::test::temporary_folder folder;
  std::filesystem::create_directory(folder / "shards");
  for (int n = 0; n < 3; ++n) {
    fl::test::tar_writer tar;
    for (int i = 0; i < 20; ++i)
      tar.add(std::to_string(i) + ".txt", std::string(static_cast<std::size_t>(1 + 100 * i), 'x'));
    folder.write("shards/" + std::to_string(n) + ".tar", tar.closed());
  }
  const s3_server server(folder.path(), "");
  const environment right(settings(server, "the-secret"));
  const auto text = [](const fl::tar_sample& sample) { return fl::test::as_text(sample); };
  const auto local = fl::tar_samples(folder / "shards/{0..2}.tar") | fl::map(text);
  const auto remote =
      fl::tar_samples("s3://shards/{0..2}.tar", {.remote = fl::remote({.part_bytes = 3000})}) | fl::map(text);
  CHECK(fl::test::collect(remote.finite({.seed = 3, .epochs = 2})) ==
        fl::test::collect(local.finite({.seed = 3, .epochs = 2})));
}
