// SPDX-License-Identifier: MIT
#pragma once
// A small web server (HTTP/1.1) that answers as a test says, well or badly.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/exempt_thread.hpp"

namespace feedline::test {

/// A socket that listens on an unused port of 127.0.0.1.
class listening_socket {
 public:
  listening_socket() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (socket_ < 0 || ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        ::listen(socket_, 128) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("can't listen on 127.0.0.1");
    port_ = ntohs(address.sin_port);
  }

  listening_socket(const listening_socket&) = delete;

  ~listening_socket() { ::close(socket_); }

  int handle() const { return socket_; }

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int socket_;
  int port_ = 0;
};

/// A request as it came.
struct http_request {
  std::size_t number = 0;                     ///< how many came before it
  std::string line;                           ///< "GET /a.tar HTTP/1.1"
  std::map<std::string, std::string> headers; ///< names in lower case

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }

  std::string path() const {
    const std::size_t begin = line.find(' ') + 1;
    return line.substr(begin, line.rfind(' ') - begin);
  }

  /// The bounds of `Range: bytes=first-last`.
  std::pair<std::uint64_t, std::uint64_t> range() const {
    const std::string value = header("range");
    std::pair<std::uint64_t, std::uint64_t> bounds{0, 0};
    const char* const end = value.data() + value.size();
    if (!value.starts_with("bytes=")) throw std::runtime_error("a request without a range: " + line);
    const char* const dash = std::from_chars(value.data() + 6, end, bounds.first).ptr;
    std::from_chars(dash + 1, end, bounds.second);
    return bounds;
  }
};

class misbehaving_server {
 public:
  /// The server's side of a connection, for the answer to one request.
  class connection {
   public:
    /// Returns false if the client has gone or the server ends.
    bool send(std::string_view bytes) {
      while (!bytes.empty()) {
        if (!wait_for(POLLOUT)) return false;
        const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
        else if (errno != EAGAIN && errno != EINTR) return false;
      }
      return true;
    }

    /// Answers correctly: the requested range of the object. `at_most`: breaks off after as many bytes of the body.
    bool send_range(const http_request& r, std::string_view object, const std::string& etag = "\"1\"",
                    std::size_t at_most = std::string_view::npos) {
      const auto [first, last] = r.range();
      if (first >= object.size())
        return send("HTTP/1.1 416 no\r\nContent-Length: 0\r\nETag: " + etag + "\r\nContent-Range: bytes */" +
                    std::to_string(object.size()) + "\r\n\r\n");
      const std::string_view body = object.substr(first, last - first + 1);
      return send("HTTP/1.1 206 Partial Content\r\nETag: " + etag +
                  "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nContent-Range: bytes " +
                  std::to_string(first) + "-" + std::to_string(first + body.size() - 1) + "/" +
                  std::to_string(object.size()) + "\r\n\r\n") &&
             send(body.substr(0, at_most));
    }

    /// An answer without a body.
    bool send_status(std::string_view status, std::string_view more_headers = {}) {
      return send("HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 0\r\n" +
                  std::string(more_headers) + "\r\n");
    }

    /// Waits until the client closes the connection or the server ends.
    void stall() {
      std::array<char, 4096> ignored;
      while (wait_for(POLLIN) && ::recv(socket_, ignored.data(), ignored.size(), 0) > 0) {
      }
      close();
    }

    /// Sends a byte about every 2 ms, until the client closes the connection or the server ends.
    void drip(std::string_view bytes) {
      for (pollfd end{end_, POLLIN, 0}; !bytes.empty(); bytes.remove_prefix(1))
        if (::poll(&end, 1, 2) != 0 || !send(bytes.substr(0, 1))) return close();
    }

    /// Closes the connection after what was sent.
    void close() { is_open_ = false; }

    /// Closes the connection with a reset, which may overtake what was sent.
    void reset() {
      const linger at_once{1, 0};
      ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      close();
    }

   private:
    friend misbehaving_server;

    connection(int socket, int end) : socket_(socket), end_(end) {}

    // False at the server's end.
    bool wait_for(short event) const {
      std::array<pollfd, 2> events{pollfd{socket_, event, 0}, pollfd{end_, POLLIN, 0}};
      while (::poll(events.data(), events.size(), -1) < 0)
        if (errno != EINTR) return false;
      return events[1].revents == 0;
    }

    std::optional<http_request> next_request() {
      std::size_t end = std::string::npos;
      while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
        std::array<char, 4096> piece;
        if (received_.size() > (1 << 20) || !wait_for(POLLIN)) return std::nullopt;
        const ssize_t size = ::recv(socket_, piece.data(), piece.size(), 0);
        if (size <= 0) return std::nullopt;
        received_.append(piece.data(), static_cast<std::size_t>(size));
        if (received_.front() < 'A' || received_.front() > 'Z')
          return std::nullopt; // TLS, which it doesn't speak
      }
      http_request r;
      std::string_view head = std::string_view(received_).substr(0, end);
      for (bool is_first = true; !head.empty(); is_first = false) {
        const std::string line(head.substr(0, head.find("\r\n")));
        head.remove_prefix(std::min(line.size() + 2, head.size()));
        const std::size_t colon = std::min(line.find(": "), line.size());
        if (is_first) {
          r.line = line;
        } else {
          std::string name = line.substr(0, colon);
          std::ranges::transform(name, name.begin(),
                                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
          r.headers[name] = line.substr(std::min(colon + 2, line.size()));
        }
      }
      received_.erase(0, end + 4);
      return r;
    }

    const int socket_;
    const int end_;
    bool is_open_ = true;
    std::string received_;
  };

  /// Called for each request, on the thread of its connection; the connection is kept open after it unless the
  /// script closes it.
  using script = std::function<void(connection&, const http_request&)>;

  explicit misbehaving_server(script answer) : answer_(std::move(answer)) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("can't make a pipe");
    end_ = ends[0];
    end_writer_ = ends[1];
    acceptor_ = std::thread([this] { accept_connections(); });
  }

  misbehaving_server(const misbehaving_server&) = delete;
  misbehaving_server& operator=(const misbehaving_server&) = delete;

  ~misbehaving_server() {
    ::close(end_writer_); // wakes every wait
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    ::close(end_);
  }

  std::string host() const { return listener_.host(); }

  std::string url(const std::string& path = "/a.tar") const { return "http://" + host() + path; }

  std::size_t connections() const {
    const std::lock_guard lock(mutex_);
    return threads_.size();
  }

  /// All requests until now.
  std::vector<http_request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  /// Waits until as many requests have come.
  void wait_for_requests(std::size_t count) const {
    std::unique_lock lock(mutex_);
    requested_.wait(lock, [&] { return requests_.size() >= count; });
  }

 private:
  static constexpr std::size_t most_connections = 1000;

  void accept_connections() {
    is_exempt = true;
    while (true) {
      std::array<pollfd, 2> events{pollfd{listener_.handle(), POLLIN, 0}, pollfd{end_, POLLIN, 0}};
      if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
      if (events[1].revents != 0) return;
      const int socket = ::accept4(listener_.handle(), nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) continue;
      const int at_once = 1; // the client may delay acknowledging a head that it gets alone
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      const std::lock_guard lock(mutex_);
      if (threads_.size() == most_connections) ::close(socket);
      else threads_.emplace_back([this, socket] { serve(socket); });
    }
  }

  void serve(int socket) {
    is_exempt = true;
    connection c(socket, end_);
    while (auto request = c.next_request()) {
      {
        const std::lock_guard lock(mutex_);
        request->number = requests_.size();
        requests_.push_back(*request);
      }
      requested_.notify_all();
      answer_(c, *request);
      if (!c.is_open_) break;
    }
    ::close(socket);
  }

  const script answer_;
  const listening_socket listener_;
  int end_ = -1; // readable when the server ends
  int end_writer_ = -1;
  mutable std::mutex mutex_;
  mutable std::condition_variable requested_;
  std::vector<http_request> requests_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

} // namespace feedline::test
