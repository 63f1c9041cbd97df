// SPDX-License-Identifier: MIT
#pragma once
// What a function prints on standard error.
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace feedline::test {

/// The text that `call` prints on standard error; it must not throw.
template <class Call>
std::string printed(Call call) {
  std::FILE* const capture = std::tmpfile();
  if (!capture) throw std::runtime_error("no temporary file");
  std::fflush(stderr);
  const int standard_error = ::dup(2);
  ::dup2(::fileno(capture), 2);
  call();
  std::fflush(stderr);
  ::dup2(standard_error, 2);
  ::close(standard_error);
  std::fseek(capture, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::ftell(capture)), ' ');
  std::rewind(capture);
  text.resize(std::fread(text.data(), 1, text.size(), capture));
  std::fclose(capture);
  return text;
}

} // namespace feedline::test
