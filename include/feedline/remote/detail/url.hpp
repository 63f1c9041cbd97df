// SPDX-License-Identifier: MIT
#pragma once
// Names of remote objects: what to request for a name, and how to show it without its secrets.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <curl/curl.h>

#include <feedline/remote/detail/request_keys.hpp>
#include <feedline/remote/remote_options.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// ASCII only: the rules for URLs and headers don't depend on a locale.
std::string lower_case(std::string_view text);

inline constexpr std::string_view lower_digits = "abcdefghijklmnopqrstuvwxyz0123456789";
inline constexpr std::string_view upper_letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Appends a character, percent-encoded unless it is a letter, a digit, one of -_.~ or one of those to be kept.
void append_escaped(std::string& text, char c, std::string_view kept);

/// The text with "…" in the place of each secret.
std::string without(std::string text, std::vector<std::string> secrets);

std::string base64(std::string_view text);

bool has_scheme(std::string_view name, std::string_view scheme);

/// Whether the value of a parameter with this name is known to be no secret.
bool is_harmless(std::string_view parameter);

/// The name without user and password, and with names of parameters only: of the values, those remain that are known to be
/// harmless. `hidden`: gets what was left out.
std::string without_secrets(std::string_view name, std::vector<std::string>* hidden = nullptr);

/// What the environment and the files of AWS's programs say about S3.
struct s3_settings {
  std::string endpoint; ///< empty: Amazon's
  std::string region;
  std::shared_ptr<key_ring> keys;
  bool virtual_hosted = false; ///< the endpoint takes the bucket as part of its name

  static s3_settings from_environment(bool anonymous, bool virtual_hosted = false);
};

/// Where and how to request an object.
struct request_target {
  std::string url; ///< without user and password
  std::string user{};
  std::string password{};
  std::string signature{};            ///< how to sign with the keys, for CURLOPT_AWS_SIGV4
  std::vector<std::string> headers{}; ///< more headers, which may be secret
  std::shared_ptr<key_ring> keys{};   ///< null: needs none
  bool is_s3 = false;
  bool ignores_etag = false;
};

/// What web servers get besides the request.
class web_secrets {
 public:
  /// Takes HF_TOKEN and HF_ENDPOINT from the environment. Throws std::invalid_argument.
  explicit web_secrets(const remote_options& options);

  void add_to(request_target& target) const;

 private:
  std::vector<std::string> headers_;
  bool has_authorization_ = false; // among them
  std::shared_ptr<key_ring> token_;
  std::shared_ptr<key_ring> hugging_face_;
  std::string hugging_face_origin_;
};

/// Scheme, host and port of a URL, in lower case; empty if libcurl doesn't understand it.
std::string origin_of(const std::string& url);

/// Where a server redirects to: without secrets if that is another origin. Nothing if it isn't a URL.
std::optional<request_target> redirected(const request_target& from, const std::string& location);

/// Moves user and password out of a URL. Throws object_error if libcurl doesn't understand the URL.
request_target target_of_url(const std::string& url, unsigned int flags, const std::string& shown);

/// The same for `s3://bucket/key`.
request_target target_of_s3(std::string_view name, const s3_settings& s, const std::string& shown);

/// What to request for the name of an object. Throws object_error.
request_target target_of(const std::string& name, const s3_settings& s, const web_secrets& web);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/url.ipp>
#endif
