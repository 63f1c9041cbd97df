// SPDX-License-Identifier: MIT
#pragma once
// Finds a port of the loopback for a server. Another program may take it before the server does.
#include <cstdint>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace feedline::test {

inline std::uint16_t free_port() {
  const int number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool is_bound = ::bind(number, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                        ::getsockname(number, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(number);
  if (!is_bound) throw std::runtime_error("no port is free on the loopback");
  return ntohs(address.sin_port);
}

} // namespace feedline::test
