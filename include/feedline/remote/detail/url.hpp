// SPDX-License-Identifier: MIT
#pragma once
// Names of remote objects: what to request for a name, and how to show it without its secrets.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// ASCII only: the rules for URLs and headers don't depend on a locale.
std::string lower_case(std::string_view text);

bool has_scheme(std::string_view name, std::string_view scheme);

/// Whether the value of a query's parameter may be a secret.
bool is_secret(std::string_view parameter);

/// The name without user, password and the values of parameters that may be secret.
std::string without_secrets(std::string_view name);

/// What the environment says about S3.
struct s3_settings {
  std::string endpoint; ///< empty: Amazon's
  std::string region;
  std::string access_key; ///< empty: requests aren't signed
  std::string secret_key;
  std::string session_token;
  bool virtual_hosted = false; ///< the endpoint takes the bucket as part of its name

  static s3_settings from_environment(bool anonymous, bool virtual_hosted = false);
};

/// Where and how to request an object.
struct request_target {
  std::string url; ///< without user and password
  std::string user{};
  std::string password{};
  std::string signature{};            ///< how to sign, for CURLOPT_AWS_SIGV4; empty: not at all
  std::vector<std::string> headers{}; ///< more headers
  bool is_s3 = false;
  bool ignores_etag = false;
};

/// Moves user and password out of a URL. Throws object_error if libcurl doesn't understand the URL.
request_target target_of_url(const std::string& url, unsigned int flags, const std::string& shown);

/// The same for `s3://bucket/key`.
request_target target_of_s3(std::string_view name, const s3_settings& s, const std::string& shown);

/// What to request for the name of an object. Throws object_error.
request_target target_of(const std::string& name, const s3_settings& s);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/url.ipp>
#endif
