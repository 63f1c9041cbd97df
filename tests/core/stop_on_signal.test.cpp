// SPDX-License-Identifier: MIT
#include <feedline/core/stop_on_signal.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <latch>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

void await_stop(const std::stop_token& token) {
  std::latch stopped(1);
  const std::stop_callback tell(token, [&] { stopped.count_down(); });
  stopped.wait();
}

auto handler_of(int signal) {
  struct sigaction now {};

  ::sigaction(signal, nullptr, &now);
  return now.sa_handler;
}

} // namespace

TEST_CASE("The first signal requests a stop, and signal() returns it") {
  const watchdog guard("first signal");
  const fl::stop_on_signal interrupt(SIGUSR1, SIGUSR2);
  CHECK(interrupt.signal() == 0);
  CHECK_FALSE(interrupt.token().stop_requested());
  std::raise(SIGUSR2);
  await_stop(interrupt.token());
  CHECK(interrupt.signal() == SIGUSR2);
  CHECK(handler_of(SIGUSR1) == SIG_DFL); // so that a second one kills as usual
  CHECK(handler_of(SIGUSR2) == SIG_DFL);
}

TEST_CASE("A signal ends a loader's run cleanly") {
  const watchdog guard("signal and loader");
  const fl::stop_on_signal interrupt(SIGUSR1);
  auto loader = (fl::from(numbers(100)) | fl::prefetch(4)).infinite({.stop = interrupt.token()});
  CHECK(loader.next() == 0);
  std::raise(SIGUSR1);
  while (loader.next()) {
  }
  CHECK(loader.stopped());
}

TEST_CASE("Destruction restores the former handlers, with or without a signal") {
  std::signal(SIGUSR1, SIG_IGN);
  { const fl::stop_on_signal unused(SIGUSR1); }
  CHECK(handler_of(SIGUSR1) == SIG_IGN);
  {
    const fl::stop_on_signal used(SIGUSR1);
    std::raise(SIGUSR1);
  }
  CHECK(handler_of(SIGUSR1) == SIG_IGN);
  std::signal(SIGUSR1, SIG_DFL);
}

TEST_CASE("A signal that arrives during destruction leaves nothing behind") {
  const watchdog guard("signal against destruction");
  const auto ignore_all = [] {
    for (const int s : {SIGUSR1, SIGUSR2, SIGHUP, SIGWINCH, SIGURG, SIGCONT, SIGIO}) std::signal(s, SIG_IGN);
  };
  const auto dawdle = [](int steps) {
    for (; steps > 0; --steps) std::atomic_signal_fence(std::memory_order_seq_cst);
  };
  ignore_all();
  constexpr int times = 1000;
  std::atomic<int> begun{0}, reached{0}, raised{0};
  std::thread sender([&] {
    for (int i = 1; i <= times; ++i) {
      while (begun < i) std::this_thread::yield();
      reached = i;
      dawdle(i % 61 * 40);
      std::raise(SIGIO); // this thread handles it
      raised = i;
    }
  });
  int left_behind = 0;
  for (int i = 1; i <= times; ++i) {
    {
      const fl::stop_on_signal interrupt(SIGUSR1, SIGUSR2, SIGHUP, SIGWINCH, SIGURG, SIGCONT, SIGIO);
      begun = i;
      while (reached < i) std::this_thread::yield();
      dawdle(i % 67 * 40);
    }
    while (raised < i) std::this_thread::yield();
    for (const int s : {SIGUSR1, SIGUSR2, SIGHUP, SIGWINCH, SIGURG, SIGCONT, SIGIO})
      left_behind += handler_of(s) != SIG_IGN;
    ignore_all();
  }
  sender.join();
  CHECK(left_behind == 0);
  for (const int s : {SIGUSR1, SIGUSR2, SIGHUP, SIGWINCH, SIGURG, SIGCONT, SIGIO}) std::signal(s, SIG_DFL);
}

TEST_CASE("Only one object can exist, and only for signals that can be caught") {
  {
    const fl::stop_on_signal first(SIGUSR1);
    CHECK_THROWS_AS(fl::stop_on_signal(SIGUSR2), std::logic_error);
    CHECK(handler_of(SIGUSR2) == SIG_DFL);
  }
  CHECK_THROWS_AS(fl::stop_on_signal(SIGUSR1, SIGKILL), std::system_error);
  CHECK(handler_of(SIGUSR1) == SIG_DFL);
  const fl::stop_on_signal again(SIGUSR1);
}

TEST_CASE("A second signal kills as usual") {
  const pid_t child = ::fork(); // without a watchdog: its thread wouldn't exist in the child
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(100);
    const fl::stop_on_signal interrupt(SIGTERM);
    std::raise(SIGTERM);
    await_stop(interrupt.token());
    std::raise(SIGTERM);
    std::_Exit(0); // not reached
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}
