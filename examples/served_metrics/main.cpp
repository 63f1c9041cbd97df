// SPDX-License-Identifier: MIT
// A training whose metrics Prometheus scrapes, from a web server of cpp-httplib in a thread of its own. Point a scrape job at
// the address that it prints. It ends after --steps batches, or with Ctrl-C.
// Usage: served_metrics [--port N] [--steps N]     (port 0: any that is free)
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <ranges>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/telemetry.hpp>
#include <httplib.h>

namespace fl = feedline;

namespace {

/// Serves /metrics while it exists.
class metrics_server {
 public:
  template <class Loader>
  metrics_server(Loader& loader, int port) {
    server_.Get("/metrics", [&loader](const httplib::Request&, httplib::Response& response) {
      response.set_content(to_prometheus(loader.metrics()), "text/plain; version=0.0.4"); // from any thread
    });
    server_.set_socket_options([](socket_t s) { // by default another program could use the same port
      const int yes = 1;
      ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    const std::string host = "127.0.0.1";
    if (port == 0) port = server_.bind_to_any_port(host);
    else if (!server_.bind_to_port(host, port)) port = -1;
    if (port < 0) throw std::runtime_error("the port can't be used: another program may listen there");
    server_.set_keep_alive_timeout(1); // seconds that stop() may take
    thread_ = std::thread([this] {
      server_.listen_after_bind();
      has_ended_ = true;
    });
    while (!server_.is_running() && !has_ended_) std::this_thread::yield(); // stop() would be lost before
    std::printf("serving http://%s:%d/metrics\n", host.c_str(), port);
    std::fflush(stdout);
  }

  metrics_server(const metrics_server&) = delete;

  ~metrics_server() {
    server_.stop();
    thread_.join();
  }

 private:
  httplib::Server server_;
  std::atomic<bool> has_ended_{false};
  std::thread thread_;
};

/// Work on a sample; it tells how large the numbers are that come out.
float decode(std::uint64_t n, fl::context& context) {
  std::this_thread::sleep_for(std::chrono::microseconds(200));
  const double value = static_cast<double>(n) * context.random.uniform();
  context.gauge("value", value);
  if (n % 1000 == 0) context.count("thousands");
  return static_cast<float>(value);
}

int number(std::string_view name, std::string_view text, int most) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    throw std::invalid_argument(std::string(name) + " must be a number from 0 to " + std::to_string(most) +
                                ", not " + std::string(text));
  return value;
}

} // namespace

int main(int count, char** arguments) {
  try {
    int port = 9464, steps = std::numeric_limits<int>::max();
    for (int i = 1; i < count; i += 2) {
      const std::string_view name = arguments[i];
      if (i + 1 == count || (name != "--port" && name != "--steps"))
        throw std::invalid_argument("usage: served_metrics [--port N] [--steps N]");
      if (name == "--port") port = number(name, arguments[i + 1], 65'535);
      else steps = number(name, arguments[i + 1], steps);
    }
    const fl::stop_on_signal interrupt(SIGINT, SIGTERM);
    auto loader = (fl::from(std::views::iota(std::uint64_t{0}, std::uint64_t{100'000})) |
                   fl::global_shuffle() | fl::map(decode, fl::workers{2}, fl::name{"decode"}) | fl::batch(64))
                      .infinite({.seed = 1, .stop = interrupt.token()});
    const metrics_server server(loader, port);
    double sum = 0;
    for (int step = 0; step < steps; ++step) {
      const auto batch = loader.next();
      if (!batch) break;
      for (const float value : batch->values()) sum += value;
    }
    std::printf("%llu batches, sum %.0f\n",
                static_cast<unsigned long long>(loader.metrics().total.consumer.items), sum);
    return interrupt.signal() != 0 ? 128 + interrupt.signal() : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "served_metrics: %s\n", error.what());
    return 1;
  }
}
