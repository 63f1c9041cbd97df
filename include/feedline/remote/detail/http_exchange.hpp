// SPDX-License-Identifier: MIT
#pragma once
// What every use of libcurl shares, and a single request, for keys.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <curl/curl.h>
#include <signal.h>

#include <feedline/detail/readable_text.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct easy_deleter {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

struct multi_deleter {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

struct list_deleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

using curl_easy = std::unique_ptr<CURL, easy_deleter>;
using curl_multi = std::unique_ptr<CURLM, multi_deleter>;
using curl_list = std::unique_ptr<curl_slist, list_deleter>;

/// Initializes libcurl, once.
inline curl_multi make_multi() {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialized != CURLE_OK)
    throw std::runtime_error(std::string("feedline::remote: ") + curl_easy_strerror(initialized));
  curl_multi multi(curl_multi_init());
  if (!multi) throw std::bad_alloc();
  return multi;
}

/// Throws std::runtime_error unless it is CURLM_OK.
inline void check_multi(CURLMcode code) {
  if (code != CURLM_OK) throw std::runtime_error(std::string("libcurl fails: ") + curl_multi_strerror(code));
}

/// Sets an option. Throws std::runtime_error.
template <class Value>
void set_option(CURL* easy, CURLoption option, Value value) {
  if (const CURLcode code = curl_easy_setopt(easy, option, value); code != CURLE_OK)
    throw std::runtime_error(std::string("libcurl can't do what is needed: ") + curl_easy_strerror(code));
}

inline void append_header(curl_list& list, const std::string& header) {
  curl_slist* const longer = curl_slist_append(list.get(), header.c_str());
  if (!longer) throw std::bad_alloc();
  static_cast<void>(list.release());
  list.reset(longer);
}

/// Rounded up, so that a wait never ends early.
inline long milliseconds(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  return static_cast<long>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
}

/// This thread gets no SIGPIPE: libcurl may write to a connection that the server has closed.
inline void block_broken_pipe() {
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
}

/// Options of every request.
class common_options {
 public:
  /// Reads the variables that the program curl reads.
  common_options()
      : user_agent_("feedline/" + std::to_string(version_major) + "." + std::to_string(version_minor) + "." +
                    std::to_string(version_patch)) {
    const auto variable = [](const char* name) -> std::string {
      const char* const value = std::getenv(name);
      return value ? value : "";
    };
    certificates_ = variable("CURL_CA_BUNDLE");
    if (!certificates_.empty()) return;
    certificates_ = variable("SSL_CERT_FILE");
    certificate_folder_ = variable("SSL_CERT_DIR");
  }

  void set(CURL* easy) const {
#if LIBCURL_VERSION_NUM >= 0x075500
    set_option(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    set_option(easy, CURLOPT_PROTOCOLS, long{CURLPROTO_HTTP | CURLPROTO_HTTPS});
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    set_option(easy, CURLOPT_QUICK_EXIT,
               1L); // a slow look-up of a host's name doesn't delay other transfers' end
#endif
    set_option(easy, CURLOPT_NOSIGNAL, 1L);
    set_option(easy, CURLOPT_USERAGENT, user_agent_.c_str());
    set_option(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); // a proxy's answer isn't the server's
    if (!certificates_.empty()) set_option(easy, CURLOPT_CAINFO, certificates_.c_str());
    if (!certificate_folder_.empty()) set_option(easy, CURLOPT_CAPATH, certificate_folder_.c_str());
  }

 private:
  std::string user_agent_;
  std::string certificates_;
  std::string certificate_folder_;
};

struct http_exchange {
  std::string method;
  std::string url;
  std::vector<std::string> headers{};
  std::string body{};
  std::chrono::seconds timeout{5}; ///< to connect; all of it may take three times as long
  bool is_direct = false;          ///< past any proxy
};

struct http_reply {
  int status = 0;        ///< 0: none, and `problem` says why
  std::string body{};    ///< the first 64 KiB
  std::string problem{}; ///< without secrets
};

/// Makes a request and waits for its answer, until a stop; follows no redirects.
inline http_reply exchange(const common_options& options, const http_exchange& e,
                           const std::stop_token& stop) {
  http_reply reply;
  curl_list headers;
  const curl_multi multi = make_multi();
  const curl_easy easy(curl_easy_init());
  if (!easy) throw std::bad_alloc();
  const auto set = [&](CURLoption option, auto value) { set_option(easy.get(), option, value); };
  options.set(easy.get());
  set(CURLOPT_URL, e.url.c_str());
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(e.timeout.count()));
  set(CURLOPT_TIMEOUT, static_cast<long>(e.timeout.count()) * 3);
  if (e.is_direct) set(CURLOPT_NOPROXY, "*");
  if (!e.body.empty()) {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(e.body.size()));
    set(CURLOPT_POSTFIELDS, e.body.c_str());
  }
  set(CURLOPT_CUSTOMREQUEST, e.method.c_str());
  for (const std::string& header : e.headers) append_header(headers, header);
  set(CURLOPT_HTTPHEADER, headers.get());
  const auto write = +[](char* data, std::size_t, std::size_t size, void* context) noexcept -> std::size_t {
    constexpr std::size_t most = std::size_t{64} << 10;
    auto& body = static_cast<http_reply*>(context)->body;
    try {
      if (size > most - body.size()) return 0;
      body.append(data, size);
    } catch (...) {
      return 0;
    }
    return size;
  };
  set(CURLOPT_WRITEFUNCTION, write);
  set(CURLOPT_WRITEDATA, &reply);
  const auto count_header = +[](char*, std::size_t, std::size_t size, void* context) noexcept -> std::size_t {
    constexpr std::size_t most = std::size_t{64} << 10;
    auto& all = *static_cast<std::size_t*>(context);
    all += size;
    return all > most ? 0 : size;
  };
  std::size_t header_bytes = 0;
  set(CURLOPT_HEADERFUNCTION, count_header);
  set(CURLOPT_HEADERDATA, &header_bytes);
  check_multi(curl_multi_add_handle(multi.get(), easy.get()));

  struct removal {
    ~removal() { curl_multi_remove_handle(multi, easy); }

    CURLM* multi;
    CURL* easy;
  } const removes{multi.get(), easy.get()};

  {
    const std::stop_callback wake(stop, [&] { curl_multi_wakeup(multi.get()); });
    for (int running = 1; running != 0 && !stop.stop_requested();) {
      check_multi(curl_multi_perform(multi.get(), &running));
      if (running != 0) check_multi(curl_multi_poll(multi.get(), nullptr, 0, 1000, nullptr));
    }
  }
  int left = 0;
  const CURLMsg* const message = curl_multi_info_read(multi.get(), &left);
  if (!message) {
    reply.problem = "it was stopped";
  } else if (message->data.result != CURLE_OK) {
    reply.problem = message->data.result == CURLE_WRITE_ERROR ? "the answer exceeds 64 KiB"
                                                              : curl_easy_strerror(message->data.result);
  } else {
    long status = 0;
    curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
    reply.status = static_cast<int>(status);
  }
  return reply;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
