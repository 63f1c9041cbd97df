// SPDX-License-Identifier: MIT
// The example that serves metrics: a client and a real Prometheus get them while it trains.
#include <cstdlib>
#include <string>

#include "support/catch.hpp"
#include "support/free_port.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

using feedline::test::temporary_folder;

namespace {

// Starts the program, runs `then` when it serves, and ends it with SIGTERM.
feedline::test::program_outcome while_it_serves(const temporary_folder& folder, const std::string& then) {
  const std::string script = R"(
    cd ")" + folder.path() + R"("
    )" FEEDLINE_SERVED_METRICS R"( --port 0 > printed & program=$!
    until port=$(sed -n 's#.*127.0.0.1:\([0-9]*\)/metrics#\1#p' printed) && [ "$port" ]; do
      kill -0 $program || exit 1
      sleep 0.02
    done
    get() { exec 3<>"/dev/tcp/127.0.0.1/$1" && printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3 && cat <&3; }
    )" + then + R"(
    kill -TERM $program
    wait $program
    echo "status $?"
    cat printed)";
  return feedline::test::run_command("timeout 120 bash " + folder.write("script", script), folder);
}

} // namespace

TEST_CASE("A client gets the metrics of the training, again and again, until it is ended") {
  const temporary_folder folder;
  const auto outcome = while_it_serves(folder, R"(
    for i in 1 2 3; do get $port /metrics > answer_$i; done
    get $port /other > other)");
  INFO(outcome.log);
  CHECK(outcome.says("status 143\n"));
  CHECK(outcome.says("batches, sum "));
  for (const std::string i : {"1", "2", "3"}) {
    const std::string answer = feedline::test::contents_of(folder / ("answer_" + i));
    INFO(answer);
    CHECK(answer.find("200 OK\r\n") != answer.npos);
    CHECK(answer.find("Content-Type: text/plain; version=0.0.4\r\n") != answer.npos);
    CHECK(answer.find("\nfeedline_consumer_items_total ") != answer.npos);
    CHECK(answer.find("\nfeedline_stage_emitted_items_total{stage=\"map `decode`\"} ") != answer.npos);
  }
  CHECK(feedline::test::contents_of(folder / "other").find(" 404 ") != std::string::npos);
}

TEST_CASE("A Prometheus scrapes it") {
  const temporary_folder folder;
  if (feedline::test::run_command("command -v prometheus", folder).status != 0) {
    WARN("Prometheus isn't installed: on Debian its package is prometheus");
    CHECK(std::getenv("CI") == nullptr); // there it is
    return;
  }
  const std::string port = std::to_string(feedline::test::free_port());
  const auto outcome = while_it_serves(folder, R"(
    cat > prometheus.yml <<END
scrape_configs:
  - {job_name: training, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{targets: ["127.0.0.1:$port"]}]}
END
    prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:)" +
                                                   port +
                                                   R"( > prometheus.log 2>&1 & server=$!
    query() { get )" + port + R"( "/api/v1/query?query=$1" 2>/dev/null; }
    for i in $(seq 400); do
      answer=$(query feedline_user_value; query feedline_consumer_queued_seconds_count)
      case $answer in *'"value":'*queued_seconds_count*) break ;; esac
      kill -0 $server || break
      sleep 0.1
    done
    echo "$answer"
    kill $server
    wait $server)");
  INFO(outcome.log << feedline::test::contents_of(folder / "prometheus.log"));
  CHECK(outcome.says(R"("name":"value")"));
  CHECK(outcome.says("\"stage\":\"map `decode`\""));
  CHECK(outcome.says(R"("__name__":"feedline_consumer_queued_seconds_count")"));
  CHECK(outcome.says("status 143\n"));
}

TEST_CASE("Wrong arguments and a port in use are errors") {
  const temporary_folder folder;
  const auto run = [&](const std::string& flags) {
    return feedline::test::run_command(FEEDLINE_SERVED_METRICS " " + flags, folder);
  };
  CHECK(run("--steps x").says("served_metrics: --steps must be a number from 0 to 2147483647, not x\n"));
  CHECK(run("--port 65536").says("--port must be a number from 0 to 65535, not 65536\n"));
  CHECK(run("--port -1").status == 1);
  CHECK(run("--steps").says("usage: served_metrics"));
  CHECK(run("--port 0 --steps 3").says("3 batches, sum "));
  CHECK(while_it_serves(folder, FEEDLINE_SERVED_METRICS " --port $port --steps 1; echo ended $?")
            .says("the port can't be used: another program may listen there\nended 1\n"));
}
