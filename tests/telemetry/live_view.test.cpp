// SPDX-License-Identifier: MIT
// The live view: its lines fit into every terminal, and the terminal is as before on every way out.
#include <feedline/telemetry/live_view.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <fcntl.h>
#include <feedline/feedline.hpp>
#include <feedline/telemetry/detail/terminal_text.hpp>
#include <feedline/telemetry/detail/view_lines.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>

#include "support/catch.hpp"
#include "support/sanitizers.hpp"
#include "support/terminal_model.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using feedline::test::pseudo_terminal;
using namespace std::chrono_literals;

static_assert(!std::is_move_constructible_v<fl::live_view>);

namespace {

/// Numbers of a pipeline with this many segments.
fl::interval_metrics interval(double seconds, std::size_t segments, const std::string& name, double number) {
  fl::interval_metrics m;
  m.seconds = seconds;
  m.bottleneck =
      name + " is busy 83 % on all 4 workers: it limits the pipeline; the consumer waits 35 % of the time";
  for (std::size_t i = 0; i < segments; ++i) {
    m.segments.push_back({name, i % 2 == 0, 4, std::vector<fl::worker_metrics>(4)});
    for (fl::worker_metrics& w : m.segments.back().workers)
      w = {number, number / 2, number / 4, number / 8, 0, number / 16};
    for (std::size_t k = 0; k <= i % 3; ++k) {
      fl::stage_metrics s{.name = name, .received = 1000, .emitted = 123'456'789, .failures = i};
      s.time = {.timed = 10, .mean = number};
      s.held.latest = number;
      s.capacity = 1000 * k;
      s.user_metrics = {{name, number}, {"b", -1e30}};
      s.busy = number;
      s.segment = i;
      m.stages.push_back(s);
    }
    m.queues.push_back({name, 64, 100, 90, i, {.latest = number, .mean = number}});
    m.failures.push_back({name, name, 3});
  }
  m.consumer.items = 1'234'567;
  m.consumer.waited = number;
  return m;
}

std::string without_colors(std::string line) {
  for (std::size_t at; (at = line.find("\033[")) != std::string::npos;)
    line.erase(at, line.find('m', at) + 1 - at);
  return line;
}

std::vector<std::string> plain_lines(const fl::metrics& m, std::size_t width, std::size_t height) {
  return fl::detail::view_lines(m, {.width = width, .height = height, .utf8 = false, .color = false}, false);
}

/// The columns of UTF-8 of which each character takes one.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Sets an environment variable while it exists.
class environment {
 public:
  environment(const char* name, const char* value) : name_(name) {
    if (const char* former = std::getenv(name)) former_ = former;
    ::setenv(name, value, 1);
  }

  environment(const environment&) = delete;

  ~environment() {
    if (former_) ::setenv(name_, former_->c_str(), 1);
    else ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> former_;
};

struct terminal_environment {
  environment term{"TERM", "xterm"}, locale{"LC_ALL", "C"}, color{"NO_COLOR", ""};
};

auto numbers() {
  return (fl::from(std::views::iota(0, 1000)) | fl::shuffle({.capacity = 100}) |
          fl::map([](int n) { return n + 1; }, fl::workers{2}, fl::name{"add \033[31m"}) | fl::batch(8))
      .infinite({.seed = 1});
}

/// A loader whose items nobody takes, and a view of it.
struct viewed {
  explicit viewed(int descriptor)
      : view(loader, {.descriptor = descriptor, .every = 10ms, .every_line = 10ms}) {}

  decltype(numbers()) loader = numbers();
  fl::live_view view;
};

} // namespace

TEST_CASE("the lines fit into every width and height, with any names and numbers") {
  const std::string names[] = {"map `decode`",
                               std::string(300, 'x'),
                               "",
                               "a\nb\tc\033[31m\x9b\xff\xc3",
                               "\xc2\x9b\x85",
                               "\xe2\x80\xae\xed\xa0\x80\xf4\x90\x80\x80\xe2\x80"};
  const double numbers[] = {
      0, 0.4, 1e300, -5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  constexpr std::size_t stride = fl::test::is_sanitized ? 17 : 5;
  for (std::size_t n = 0; n < std::size(numbers); ++n)
    for (const std::string& name : {names[n], names[(n + 1) % std::size(names)]}) {
      const double number = numbers[n];
      for (const bool utf8 : {false, true}) {
        const fl::metrics m{interval(number * 100, 5, name, number), interval(number, 5, name, number)};
        for (std::size_t width = 1; width <= 200; width += width < 20 ? 1 : stride)
          for (std::size_t height = 1; height <= 50; height += height < 8 ? 1 : stride) {
            const auto lines = fl::detail::view_lines(
                m, {.width = width, .height = height, .utf8 = utf8, .color = width % 2 == 0},
                height % 2 == 0);
            bool fits = !lines.empty() && lines.size() <= height;
            for (const std::string& line : lines) {
              const std::string text = without_colors(line);
              fits = fits && characters(text) <= width && text.find("nan") == std::string::npos &&
                     std::ranges::none_of(text, [&](char c) {
                       const auto byte = static_cast<unsigned char>(c);
                       return byte < ' ' || byte == 0x7f || (!utf8 && byte >= 0x80);
                     });
            }
            if (!fits) {
              INFO(name << " " << number << " " << width << "x" << height);
              for (const std::string& line : lines) UNSCOPED_INFO(line);
              FAIL();
            }
          }
        const std::string summary = fl::detail::view_summary(m, utf8, false);
        CHECK(std::ranges::none_of(summary, [](char c) { return static_cast<unsigned char>(c) < ' '; }));
      }
    }
  SUCCEED();
}

TEST_CASE("a view of nothing has a headline and no number that isn't one") {
  const auto lines = plain_lines({}, 80, 24);
  REQUIRE(!lines.empty());
  CHECK(lines[0].find("0 items/s") != std::string::npos);
}

TEST_CASE("what a terminal would interpret is replaced, and wide characters take two columns") {
  using fl::detail::text_columns, fl::detail::visible_text;
  CHECK(visible_text("a\033[31mb\r\n\x7f", false) == "a?[31mb???");
  CHECK(visible_text("\xc3\xa9\xff\xc3", true) == "\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(visible_text("\xc3\xa9\xff\xc3", false) == "???");
  CHECK(visible_text("\xc2\x9b"
                     "31m",
                     true) == "\xef\xbf\xbd"
                              "31m");                                          // CSI as one character
  CHECK(visible_text("\xe2\x80\xae", true) == "\xef\xbf\xbd");                 // right-to-left override
  CHECK(visible_text("\xed\xa0\x80", true).find("\xed") == std::string::npos); // a surrogate
  CHECK(visible_text("\xc0\xaf\xf4\x90\x80\x80", false) == "??????");          // too long, too large
  CHECK(text_columns("ab\xc3\xa9") == 3);
  CHECK(text_columns("\xe6\xbc\xa2\xe5\xad\x97") == 4);
  CHECK(text_columns("\xf0\x9f\x98\x80") == 2);
}

TEST_CASE("the lines show rates, loads, fill levels, failures and what limits the pipeline") {
  fl::metrics m{interval(100, 2, "map `decode`", 40), interval(1, 2, "map `decode`", 0.4)};
  m.recent.consumer.items = 50;
  const auto lines = plain_lines(m, 120, 40);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  INFO(text);
  for (const std::string words :
       {"50 items/s, consumer waits 40 %; since the start 12.3k items/s, waits 40 %",
        "map `decode` is busy 83 %", "3x map `decode`: map `decode`", "map `decode` x4 ####", "52 %",
        "400 ms", "> queue", "0.40/64", "b --", "# busy"})
    CHECK(text.find(words) != std::string::npos);
  const auto few = plain_lines(m, 80, 4);
  REQUIRE(few.size() == 4); // the most important ones
  CHECK(few[0].find("items/s") != std::string::npos);
  CHECK(few[1].find("is busy 83 %") != std::string::npos);
  CHECK(few[3].starts_with("consumer"));
  const auto lines_of_colors = fl::detail::view_lines(m, {.width = 120, .height = 40, .utf8 = false}, false);
  REQUIRE(lines_of_colors.size() == lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(without_colors(lines_of_colors[i]) == lines[i]);
}

TEST_CASE("a view takes the bottom rows of a terminal, follows its size, and gives the rows back") {
  const terminal_environment set;
  pseudo_terminal terminal(24, 80);
  std::optional<viewed> run;
  run.emplace(terminal.slave);
  REQUIRE(terminal.read_until_it_shows("items/s"));
  CHECK(terminal.shown.scrolled_rows() < 24);
  CHECK(terminal.shown.shows("map `add ?[31m` x2"));
  ::dprintf(terminal.slave, "first line\nsecond line\nunfinished");
  REQUIRE(terminal.read_until_it_shows("unfinished"));
  CHECK(!terminal.shown.has_overflown());
  for (const std::size_t rows : {40u, 12u, 24u, 6u, 50u}) {
    terminal.resize(rows, 3 * rows + 10);
    REQUIRE(terminal.read_until(
        [&] { return terminal.shown.scrolled_rows() < rows && terminal.shown.shows("items/s"); }));
    CHECK(terminal.shown.shows("unfinished"));
  }
  terminal.resize(4, 80); // too small
  REQUIRE(terminal.read_until_it_shows("feedline: "));
  terminal.resize(30, 80);
  REQUIRE(terminal.read_until([&] { return terminal.shown.scrolled_rows() < 30; }));
  run.reset();
  ::dprintf(terminal.slave, "\nlast line\n");
  REQUIRE(terminal.read_until_it_shows("last line"));
  INFO(terminal.shown.text());
  CHECK(terminal.shown.scrolled_rows() == 30);
  CHECK(terminal.shown.text().find("last line\n\n") != std::string::npos);
  CHECK(terminal.shown.text().find_last_not_of('\n') ==
        terminal.shown.text().find("last line") + std::string("last line").size() - 1);
}

TEST_CASE("NO_COLOR, and the charset of the locale") {
  const terminal_environment set;
  const auto first_drawing = [](const char* locale, const char* no_color) {
    const environment charset("LC_ALL", locale), color("NO_COLOR", no_color);
    pseudo_terminal terminal(24, 80);
    const viewed run(terminal.slave);
    terminal.read_until_it_shows("consumer ");
    CHECK(!terminal.shown.has_overflown());
    return terminal.output;
  };
  const std::string utf8 = first_drawing("en_US.UTF-8", ""), ascii = first_drawing("C", "1");
  CHECK(utf8.find("━") != std::string::npos);
  CHECK(utf8.find("\033[1m") != std::string::npos);
  CHECK(ascii.find("━") == std::string::npos);
  CHECK(ascii.find("\033[1m") == std::string::npos);
  CHECK(ascii.find("\033[3") == std::string::npos);
}

TEST_CASE("a view that is not on a terminal prints lines") {
  const terminal_environment set;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const auto read_line = [&] {
    std::string line;
    for (char c = 0; c != '\n' && ::read(ends[0], &c, 1) == 1;) line += c;
    return line;
  };
  {
    const viewed run(ends[1]);
    for (int i = 0; i < 3; ++i) {
      const std::string line = read_line();
      CHECK(line.starts_with("feedline: "));
      CHECK(line.find('\033') == std::string::npos);
      CHECK(line.ends_with("\n"));
    }
    // Nobody reads any more: the last line meets a closed pipe.
    ::close(ends[0]);
  }
  ::close(ends[1]);

  REQUIRE(::pipe(ends) == 0);
  {
    auto loader = numbers();
    const fl::live_view view(loader, {.descriptor = ends[1], .every_line = 1h});
  }
  CHECK(read_line().starts_with("feedline: ")); // a short run has one line, too
  ::close(ends[0]);
  ::close(ends[1]);
  { const viewed of_nothing(-1); } // a descriptor that isn't open
}

TEST_CASE("a pipe that nobody reads doesn't keep a view from ending") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  const std::string text(4096, 'x');
  while (::write(ends[1], text.data(), text.size()) > 0) {
  }
  ::fcntl(ends[1], F_SETFL, 0);
  { const viewed run(ends[1]); }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a terminal whose output is suspended doesn't keep a view from ending") {
  const terminal_environment set;
  const pseudo_terminal terminal(24, 80);
  const int flags = ::fcntl(terminal.slave, F_GETFL);
  ::fcntl(terminal.slave, F_SETFL, flags | O_NONBLOCK);
  const std::string text(4096, 'x');
  while (::write(terminal.slave, text.data(), text.size()) > 0) { // nobody reads: its buffer becomes full
  }
  ::fcntl(terminal.slave, F_SETFL, flags);
  const viewed run(terminal.slave);
}

TEST_CASE("TERM=dumb, and a second view, print lines") {
  const terminal_environment set;
  {
    const environment dumb("TERM", "dumb");
    pseudo_terminal terminal(24, 300);
    const viewed run(terminal.slave);
    REQUIRE(terminal.read_until_it_shows("feedline: "));
    CHECK(terminal.shown.scrolled_rows() == 24);
  }
  pseudo_terminal first(24, 80), second(24, 300);
  {
    const viewed run(first.slave);
    const viewed other(second.slave);
    REQUIRE(second.read_until_it_shows("feedline: "));
    CHECK(second.output.find('\033') == std::string::npos);
    REQUIRE(first.read_until_it_shows("consumer "));
  }
  const viewed later(second.slave); // the first has ended
  REQUIRE(second.read_until_it_shows("consumer "));
}

TEST_CASE("a terminal that goes away ends the drawing, not the program") {
  const terminal_environment set;
  pseudo_terminal terminal(24, 80);
  viewed run(terminal.slave);
  REQUIRE(terminal.read_until_it_shows("consumer "));
  terminal.hang_up();
  for (int i = 0; i < 100; ++i) CHECK(run.loader.next().has_value());
}

TEST_CASE("a view may outlive its loader, which fails or ends, and see several runs one after another") {
  const terminal_environment set;
  pseudo_terminal terminal(24, 80);
  for (int i = 0; i < 3; ++i) {
    auto pipeline = fl::from(std::views::iota(0, 100)) | fl::map([i](int n) {
                      if (i == 1 && n == 50) throw std::runtime_error("number 50");
                      return n;
                    });
    auto loader = std::make_unique<decltype(pipeline.finite())>(pipeline.finite());
    const fl::live_view view(*loader, {.descriptor = terminal.slave, .every = 10ms});
    try {
      for ([[maybe_unused]] const int n : *loader) {
      }
    } catch (const fl::pipeline_error&) {
    }
    loader.reset();
    CHECK(terminal.read_until_it_shows("ended: "));
  }
}

TEST_CASE("views of runs that begin, end, fail and move, from several threads") {
  const terminal_environment set;
  pseudo_terminal terminal(24, 300);
  std::vector<std::jthread> threads;
  std::atomic<int> running = 3;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        std::optional<viewed> run(std::in_place, terminal.slave);
        for (int k = 0; k < i; ++k) run->loader.next();
        const auto moved = std::move(run->loader);
        if (i % 2 == 0) run.reset();
      }
      if (--running == 0) ::dprintf(terminal.slave, "\nthe end\n");
    });
  CHECK(terminal.read_until_it_shows("the end"));
}

TEST_CASE("intervals that are too short are refused") {
  auto loader = numbers();
  const auto refuses = [&](const fl::live_view_options& options) {
    return fl::test::throws_saying<std::invalid_argument>("at least 10 ms",
                                                          [&] { fl::live_view(loader, options); });
  };
  CHECK(refuses({.every = 0ms}));
  CHECK(refuses({.every_line = -1ms}));
}

#if !FEEDLINE_TEST_TSAN // its runtime delays signals, and starts no threads after a fork

namespace {

/// A child on a terminal of its own, whose controlling terminal it is. It shows a view, reads a line, and leaves in some way.
struct outcome {
  int status;
  std::string output, text;
  std::size_t scrolled_rows, row;
};

/// Makes all output of this process arrive as it is: a terminal adds what is typed to it, anywhere, and at Ctrl-C and the like
/// drops what is on its way.
void keep_output_whole() {
  ::termios settings{};
  ::tcgetattr(0, &settings);
  settings.c_lflag = (settings.c_lflag & ~static_cast<::tcflag_t>(ECHO)) | NOFLSH;
  ::tcsetattr(0, TCSANOW, &settings);
}

template <class Leave>
outcome run_on_terminal(Leave leave, const std::string& keys) {
  int master = -1;
  ::winsize size = pseudo_terminal::size_of(24, 80);
  std::fflush(nullptr);
  const ::pid_t child = ::forkpty(&master, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("forkpty failed");
  if (child == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGABRT, SIGSEGV, SIGQUIT, SIGHUP})
      std::signal(signal, SIG_DFL); // not Catch's
    ::rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    std::set_terminate([] { std::abort(); });
    keep_output_whole();
    leave();
    std::_Exit(0);
  }
  pseudo_terminal terminal(master, 24, 80);
  outcome o{};
  CHECK(terminal.read_until_it_shows("consumer "));
  CHECK(terminal.shown.scrolled_rows() < 24);
  terminal.type(keys);
  terminal.read_all();
  ::waitpid(child, &o.status, 0);
  o.output = terminal.output;
  o.text = terminal.shown.text();
  o.scrolled_rows = terminal.shown.scrolled_rows();
  o.row = terminal.shown.row();
  return o;
}

void read_line() {
  char c = 0;
  while (c != '\n' && ::read(0, &c, 1) > 0) {
  }
}

void fail() { throw std::runtime_error("not caught"); }

void say(const char* words) { ::dprintf(1, "%s", words); }

void check_restored(const outcome& o) {
  INFO(o.text);
  CHECK(o.scrolled_rows == 24);
  CHECK(o.text.find("consumer ") == std::string::npos);
  CHECK(o.text.find("items/s") == std::string::npos);
  CHECK(o.text.starts_with("own output\n"));
  CHECK(o.row < 5); // the cursor is where it was
}

/// Runs the view in a child that reads a line and then does this.
template <class Then>
outcome leave_by(Then then, const std::string& keys = "\n") {
  const terminal_environment set;
  const outcome o = run_on_terminal(
      [&] {
        say("own output\n");
        const viewed run(2);
        read_line();
        then();
      },
      keys);
  check_restored(o);
  return o;
}

bool ended_by(const outcome& o, int signal) { return WIFSIGNALED(o.status) && WTERMSIG(o.status) == signal; }

} // namespace

TEST_CASE("the terminal is as before after the normal end, an exception, exit and quick_exit") {
  CHECK(leave_by([] {}).status == 0);
  CHECK(WEXITSTATUS(leave_by([] { std::exit(3); }).status) == 3);
  CHECK(WEXITSTATUS(leave_by([] { std::quick_exit(4); }).status) == 4);
  const terminal_environment set;
  const outcome o = run_on_terminal(
      [] {
        say("own output\n");
        try {
          const viewed run(2);
          read_line();
          throw std::runtime_error("");
        } catch (const std::runtime_error&) {
          say("caught\n");
        }
      },
      "\n");
  check_restored(o);
  CHECK(o.text.find("caught\n") != std::string::npos);
}

TEST_CASE("the terminal is as before after signals, and they end the process as usual") {
  CHECK(ended_by(leave_by([] {}, "\003"), SIGINT));
  CHECK(ended_by(leave_by([] {}, "\034"), SIGQUIT));
  for (const int signal : {SIGTERM, SIGHUP, SIGPIPE, SIGABRT})
    CHECK(ended_by(leave_by([signal] { ::kill(::getpid(), signal), ::pause(); }), signal));
  CHECK(ended_by(leave_by([] { std::abort(); }), SIGABRT));
  CHECK(ended_by(leave_by([]() noexcept { fail(); }), SIGABRT));
  if constexpr (!FEEDLINE_TEST_ASAN) CHECK(ended_by(leave_by([] { std::raise(SIGSEGV); }), SIGSEGV));
}

TEST_CASE("the program's own handlers stay, and a second Ctrl-C of stop_on_signal restores the terminal") {
  const terminal_environment set;
  const outcome o = run_on_terminal(
      [] {
        say("own output\n");
        const fl::stop_on_signal interrupt(SIGINT);
        const viewed run(2);
        read_line();
        std::raise(SIGINT); // only asks for a stop
        struct sigaction now {};

        do ::sigaction(SIGINT, nullptr, &now);
        while (now.sa_handler == SIG_DFL); // until the view handles it
        std::raise(SIGINT);
      },
      "\n");
  check_restored(o);
  CHECK(ended_by(o, SIGINT));
}

TEST_CASE("the destructor puts the default actions back") {
  const terminal_environment set;
  const outcome o = run_on_terminal(
      [] {
        say("own output\n");
        {
          const viewed run(2);
          read_line();
        }
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGABRT, SIGTSTP}) {
          struct sigaction now {};

          ::sigaction(signal, nullptr, &now);
          if (now.sa_handler != SIG_DFL) std::_Exit(signal);
        }
      },
      "\n");
  CHECK(o.status == 0);
}

TEST_CASE("a child of fork leaves the terminal to its parent") {
  const auto is_restored_once = [](const outcome& o) {
    const std::string restored = "\033[r\033[";
    return o.output.find(restored) != std::string::npos &&
           o.output.find(restored) == o.output.rfind(restored);
  };
  const auto in_child = [](auto leave) {
    return [leave] {
      const ::pid_t child = ::fork();
      if (child == 0) leave();
      int status = 0;
      ::waitpid(child, &status, 0);
    };
  };
  CHECK(is_restored_once(leave_by([] {})));
  CHECK(is_restored_once(leave_by(in_child([] { std::raise(SIGTERM); }))));
  if constexpr (!FEEDLINE_TEST_ASAN) // it reports what the threads of the parent held
    CHECK(is_restored_once(leave_by(in_child([] { std::exit(0); }))));
  // It may destroy the view that it inherited.
  const terminal_environment set;
  const outcome o = run_on_terminal(
      [] {
        say("own output\n");
        auto loader = numbers();
        std::optional<fl::live_view> view(std::in_place, loader);
        read_line();
        const ::pid_t child = ::fork();
        int status = 1;
        view.reset();
        if (child == 0) std::_Exit(0);
        ::waitpid(child, &status, 0);
        std::_Exit(status);
      },
      "\n");
  check_restored(o);
  CHECK(o.status == 0);
}

TEST_CASE("Ctrl-Z gives the rows back until the process goes on") {
  const terminal_environment set;
  int master = -1;
  ::winsize size = pseudo_terminal::size_of(24, 80);
  const ::pid_t child = ::forkpty(&master, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    keep_output_whole();
    // The child of a shell: the system doesn't stop a process without one.
    const ::pid_t job = ::fork();
    if (job == 0) {
      ::setpgid(0, 0);
      std::signal(SIGTTOU, SIG_IGN);
      ::tcsetpgrp(0, ::getpgrp());
      const viewed run(2);
      read_line();
      std::_Exit(0);
    }
    int status = 0;
    ::waitpid(job, &status, WUNTRACED);
    if (!WIFSTOPPED(status)) std::_Exit(1);
    say("stopped");
    ::kill(job, SIGCONT);
    ::waitpid(job, &status, 0);
    std::_Exit(WEXITSTATUS(status));
  }
  pseudo_terminal terminal(master, 24, 80);
  REQUIRE(terminal.read_until_it_shows("consumer "));
  terminal.type("\032");
  const auto restored_at = [&] { return terminal.output.find("\033[r\033["); };
  REQUIRE(terminal.read_until([&] { return restored_at() != std::string::npos; }));
  REQUIRE(terminal.read_until_it_shows("stopped"));
  REQUIRE(terminal.read_until([&] { return terminal.shown.scrolled_rows() < 24; }));
  terminal.type("\n");
  terminal.read_all();
  int status = 1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

#endif
