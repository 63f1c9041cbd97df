// SPDX-License-Identifier: MIT
#pragma once
// A pseudo-terminal, and a model of the terminal at its other end.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace feedline::test {

/// What a terminal shows after some output. It knows the escape sequences that a live view uses, and throws on others. Every
/// byte below 0x80 takes a column.
class terminal_model {
 public:
  terminal_model(std::size_t rows, std::size_t columns) { resize(rows, columns); }

  void resize(std::size_t rows, std::size_t columns) {
    screen_.resize(rows);
    columns_ = columns;
    bottom_ = rows;
    row_ = std::min(row_, rows - 1);
  }

  void print(std::string_view output) {
    rest_ += output;
    while (!rest_.empty() && print_next()) {
    }
  }

  /// The lines, without spaces at their end.
  std::string text() const {
    std::string all;
    for (const std::string& line : screen_) all += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    return all;
  }

  bool shows(std::string_view words) const { return text().find(words) != std::string::npos; }

  /// Whether something was outside of the screen.
  bool has_overflown() const { return has_overflown_; }

  std::size_t rows() const { return screen_.size(); }

  std::size_t row() const { return row_; } ///< of the cursor, from 0

  std::size_t column() const { return column_; } ///< of the cursor, from 0

  std::size_t scrolled_rows() const { return bottom_; } ///< of the scroll region

 private:
  // Returns false if the rest isn't a whole sequence.
  bool print_next() {
    const char c = rest_[0];
    if (c == '\033') return escape();
    rest_.erase(0, 1);
    if (c == '\n') index();
    else if (c == '\r') column_ = 0;
    else if (c == '\b') column_ -= column_ > 0;
    else if (static_cast<unsigned char>(c) < ' ') throw std::logic_error("a control character");
    else put(c);
    return true;
  }

  bool escape() {
    if (rest_.size() < 2) return false;
    const char kind = rest_[1];
    std::size_t size = 2;
    if (kind == '7') saved_row_ = row_, saved_column_ = column_;
    else if (kind == '8') row_ = saved_row_, column_ = saved_column_;
    else if (kind == 'D') index();
    else if (kind == '\033') size = 1; // interrupted, see below
    else if (kind == '[') {
      const std::size_t end = rest_.find_first_not_of("0123456789;?", 2);
      if (end == std::string::npos) return false;
      const bool is_interrupted = rest_[end] == '\033'; // by the sequence of a signal's handler
      if (!is_interrupted) control(rest_.substr(2, end - 2), rest_[end]);
      size = is_interrupted ? end : end + 1;
    } else throw std::logic_error("unknown escape sequence");
    rest_.erase(0, size);
    return true;
  }

  void control(const std::string& parameters, char command) {
    std::size_t number = 1, second = 1;
    std::from_chars(parameters.data(), parameters.data() + parameters.size(), number);
    const std::size_t semicolon = parameters.find(';');
    if (semicolon != std::string::npos)
      std::from_chars(parameters.data() + semicolon + 1, parameters.data() + parameters.size(), second);
    if (command == 'r') {
      bottom_ = parameters.empty() ? rows() : second;
      has_overflown_ |= bottom_ > rows();
      bottom_ = std::min(bottom_, rows());
      row_ = column_ = 0;
    } else if (command == 'H') {
      has_overflown_ |= number > rows();
      row_ = std::min(number, rows()) - 1, column_ = second - 1;
    } else if (command == 'A') row_ -= std::min(row_, number);
    else if (command == 'B') row_ = std::min(row_ + number, rows() - 1);
    else if (command == 'K') screen_[row_].resize(std::min(screen_[row_].size(), column_));
    else if (command == 'J') {
      screen_[row_].resize(std::min(screen_[row_].size(), column_));
      for (std::size_t i = row_ + 1; i < rows(); ++i) screen_[i].clear();
    } else if (command != 'm') throw std::logic_error("unknown sequence " + parameters + command);
  }

  void index() {
    if (row_ + 1 == bottom_) {
      screen_.erase(screen_.begin());
      screen_.insert(screen_.begin() + static_cast<std::ptrdiff_t>(bottom_) - 1, std::string());
    } else row_ = std::min(row_ + 1, rows() - 1);
  }

  void put(char c) {
    if (static_cast<unsigned char>(c) >= 0x80) { // part of a character: not counted
      screen_[row_] += c;
      return;
    }
    std::string& line = screen_[row_];
    has_overflown_ |= column_ >= columns_;
    if (column_ >= columns_) return;
    if (line.size() < column_) line.resize(column_, ' ');
    if (column_ < line.size()) line[column_] = c;
    else line += c;
    ++column_;
  }

  std::vector<std::string> screen_;
  std::size_t columns_ = 0, bottom_ = 0, row_ = 0, column_ = 0, saved_row_ = 0, saved_column_ = 0;
  bool has_overflown_ = false;
  std::string rest_;
};

/// The two ends of a pseudo-terminal that isn't the controlling terminal of a process. The model shows what arrived.
class pseudo_terminal {
 public:
  pseudo_terminal(std::size_t rows, std::size_t columns) : shown(rows, columns) {
    ::winsize size = size_of(rows, columns);
    if (::openpty(&master_, &slave, nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty failed");
  }

  /// The master of a terminal that another process uses.
  pseudo_terminal(int master, std::size_t rows, std::size_t columns)
      : shown(rows, columns), master_(master) {}

  pseudo_terminal(const pseudo_terminal&) = delete;

  ~pseudo_terminal() {
    hang_up();
    if (slave >= 0) ::close(slave);
  }

  static ::winsize size_of(std::size_t rows, std::size_t columns) {
    return {static_cast<unsigned short>(rows), static_cast<unsigned short>(columns), 0, 0};
  }

  void resize(std::size_t rows, std::size_t columns) {
    read_for(0);
    const ::winsize size = size_of(rows, columns);
    ::ioctl(master_, TIOCSWINSZ, &size);
    shown.resize(rows, columns);
  }

  void type(std::string_view keys) {
    if (::write(master_, keys.data(), keys.size()) < 0) throw std::runtime_error("can't type");
  }

  void hang_up() {
    if (master_ >= 0) ::close(master_);
    master_ = -1;
  }

  /// Reads until the condition is met. Returns false if the terminal has no more users, or nothing arrives for a minute.
  template <class Condition>
  bool read_until(Condition is_met) {
    while (!is_met())
      if (!read_for(60'000)) return false;
    return true;
  }

  bool read_until_it_shows(const std::string& words) {
    return read_until([&] { return shown.shows(words); });
  }

  void read_all() {
    while (read_for(60'000)) {
    }
  }

  terminal_model shown;
  std::string output; ///< all of it
  int slave = -1;

 private:
  bool read_for(int milliseconds) {
    ::pollfd ready{master_, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds) <= 0) return false;
    char bytes[4096];
    const ::ssize_t n = ::read(master_, bytes, sizeof bytes);
    if (n <= 0) return false;
    output.append(bytes, static_cast<std::size_t>(n));
    shown.print({bytes, static_cast<std::size_t>(n)});
    return true;
  }

  int master_ = -1;
};

} // namespace feedline::test
