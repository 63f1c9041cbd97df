// SPDX-License-Identifier: MIT
#pragma once
// An nginx that serves a folder on the loopback: over HTTP, and over HTTPS with a certificate of its own authority.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/free_port.hpp"
#include "support/temporary_folder.hpp"

namespace feedline::test {

/// Whether the programs that it needs are installed.
inline bool has_nginx() {
  return std::system("command -v nginx >/dev/null 2>&1 && command -v openssl >/dev/null 2>&1") == 0;
}

class nginx {
 public:
  /// Serves the files of `folder`, each request after `delay`.
  explicit nginx(const std::string& folder, std::chrono::milliseconds delay = {}) : delay_(delay) {
    make_certificates();
    for (int attempt = 0; attempt < 5; ++attempt) { // another program may take the port first
      port_ = free_port();
      tls_port_ = free_port();
      configure(folder);
      if (start()) return;
    }
    throw std::runtime_error("nginx doesn't start: " + contents_of(folder_ / "error.log"));
  }

  nginx(const nginx&) = delete;
  nginx& operator=(const nginx&) = delete;

  ~nginx() { stop(); }

  /// "http://127.0.0.1:PORT/"
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

  /// "https://localhost:PORT/", over HTTP/2
  std::string tls_url() const { return "https://localhost:" + std::to_string(tls_port_) + "/"; }

  /// The file with the certificate of the authority that a client must trust.
  std::string authority() const { return folder_ / "authority.pem"; }

 private:
  static void run(const std::string& command) {
    if (std::system((command + " >/dev/null 2>&1").c_str()) != 0)
      throw std::runtime_error("this command failed: " + command);
  }

  void make_certificates() {
    const std::string key = " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout ";
    run("openssl req -x509" + key + folder_ / "authority.key" + " -out " + authority() +
        " -days 2 -subj '/CN=test authority'");
    run("openssl req" + key + folder_ / "server.key" + " -out " + folder_ / "server.csr" +
        " -subj /CN=localhost");
    folder_.write("names", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    run("openssl x509 -req -in " + folder_ / "server.csr" + " -CA " + authority() + " -CAkey " +
        folder_ / "authority.key" + " -CAcreateserial -days 2 -extfile " + folder_ / "names" + " -out " +
        folder_ / "server.pem");
  }

  void configure(const std::string& folder) {
    std::string text = "daemon off;\nworker_processes 1;\npid " + folder_ / "pid" + ";\nerror_log " +
                       folder_ / "error.log" + ";\n";
    if (::geteuid() == 0) text += "user root;\n";
    text += "events { worker_connections 1024; }\nhttp {\naccess_log off;\nsendfile on;\n"
            "keepalive_requests 100000;\nroot " +
            folder + ";\n";
    for (const std::string_view kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"})
      text.append(kind).append("_temp_path ").append(folder_ / kind).append(";\n");
    std::string location;
    if (delay_.count() > 0) {
      // Without a module, nginx delays only the refusal of a request without a password; then it serves the file.
      text += "auth_basic delay;\nauth_basic_user_file " + folder_.write("users", "") + ";\nauth_delay " +
              std::to_string(delay_.count()) + "ms;\nerror_page 401 = @file;\n";
      location = "location @file { auth_basic off; } ";
    }
    text += "server { listen 127.0.0.1:" + std::to_string(port_) + "; " + location +
            "}\nserver { listen 127.0.0.1:" + std::to_string(tls_port_) + " ssl http2; ssl_certificate " +
            folder_ / "server.pem" + "; ssl_certificate_key " + folder_ / "server.key" + "; " + location +
            "}\n}\n";
    folder_.write("nginx.conf", text);
  }

  bool start() {
    const std::string configuration = folder_ / "nginx.conf", errors = folder_ / "error.log";
    process_ = ::fork();
    if (process_ < 0) throw std::runtime_error("can't start a process");
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGTERM); // also if a test aborts
      ::execlp("nginx", "nginx", "-e", errors.c_str(), "-c", configuration.c_str(),
               static_cast<char*>(nullptr));
      ::_exit(127);
    }
    for (int attempt = 0; attempt < 500; ++attempt) {
      if (answers(port_) && answers(tls_port_)) return true;
      if (::waitpid(process_, nullptr, WNOHANG) == process_) {
        process_ = -1;
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    stop();
    return false;
  }

  static bool answers(std::uint16_t port) {
    const int number = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    const bool connects = ::connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(number);
    return connects;
  }

  void stop() noexcept {
    if (process_ <= 0) return;
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

  temporary_folder folder_;
  std::chrono::milliseconds delay_;
  std::uint16_t port_ = 0;
  std::uint16_t tls_port_ = 0;
  pid_t process_ = -1;
};

} // namespace feedline::test
