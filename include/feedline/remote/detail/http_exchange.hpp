// SPDX-License-Identifier: MIT
#pragma once
// What every use of libcurl shares, and a single request, for keys.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

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
curl_multi make_multi();

/// Throws std::runtime_error unless it is CURLM_OK.
void check_multi(CURLMcode code);

/// Sets an option. Throws std::runtime_error.
template <class Value>
void set_option(CURL* easy, CURLoption option, Value value) {
  if (const CURLcode code = curl_easy_setopt(easy, option, value); code != CURLE_OK)
    throw std::runtime_error(std::string("libcurl can't do what is needed: ") + curl_easy_strerror(code));
}

void append_header(curl_list& list, const std::string& header);

/// Rounded up, so that a wait never ends early.
long milliseconds(std::chrono::nanoseconds time);

/// This thread gets no SIGPIPE: libcurl may write to a connection that the server has closed.
void block_broken_pipe();

/// Options of every request.
class common_options {
 public:
  /// Reads the variables that the program curl reads.
  common_options();

  void set(CURL* easy) const;

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
http_reply exchange(const common_options& options, const http_exchange& e, const std::stop_token& stop);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/http_exchange.ipp>
#endif
