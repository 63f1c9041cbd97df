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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_REMOTE)
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/aws_keys.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

FEEDLINE_INLINE void append_escaped(std::string& text, char c, std::string_view kept) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  for (const std::string_view set : {lower_digits, upper_letters, std::string_view("-_.~"), kept})
    if (set.find(c) != set.npos) return text.append(1, c), void();
  text.append(1, '%').append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
}

FEEDLINE_INLINE std::string without(std::string text, std::vector<std::string> secrets) {
  constexpr std::string_view hidden = "…";
  // The longest first: nothing remains of one that contains another.
  std::ranges::sort(secrets, std::greater<>(), &std::string::size);
  for (const std::string& secret : secrets)
    for (std::size_t at = 0; !secret.empty() && (at = text.find(secret, at)) != text.npos;
         at += hidden.size())
      text.replace(at, secret.size(), hidden);
  return text;
}

FEEDLINE_INLINE std::string base64(std::string_view text) {
  const std::string digits =
      std::string(upper_letters) + std::string(lower_digits.substr(0, 26)) + "0123456789+/";
  std::string code;
  for (; !text.empty(); text.remove_prefix(std::min<std::size_t>(3, text.size()))) {
    std::size_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) code += i <= text.size() ? digits[(bits >> (18 - 6 * i)) & 63] : '=';
  }
  return code;
}

FEEDLINE_INLINE bool has_scheme(std::string_view name, std::string_view scheme) {
  return name.size() > scheme.size() + 3 && lower_case(name.substr(0, scheme.size())) == scheme &&
         name.substr(scheme.size(), 3) == "://";
}

FEEDLINE_INLINE bool is_harmless(std::string_view parameter) {
  constexpr std::string_view names[] = {
      "alt",      "download", "expires", "file",    "filename",  "format",     "index",        "generation",
      "limit",    "offset",   "page",    "part",    "path",      "partnumber", "raw",          "rev",
      "revision", "shard",    "split",   "version", "versionid", "x-amz-date", "x-amz-expires"};
  return std::ranges::find(names, lower_case(parameter)) != std::end(names);
}

FEEDLINE_INLINE std::string without_secrets(std::string_view name, std::vector<std::string>* hidden) {
  // `hidden` gets the text itself and, if it is percent-encoded, what it stands for.
  const auto hide = [&](std::string_view text) {
    constexpr std::size_t shortest = 4; // shorter ones guard nothing, and occur in any message
    if (!hidden || text.size() < shortest) return;
    hidden->emplace_back(text);
    int length = 0;
    const int size = static_cast<int>(std::min<std::size_t>(text.size(), 1 << 20));
    const std::unique_ptr<char, void (*)(void*)> decoded(
        curl_easy_unescape(nullptr, text.data(), size, &length), curl_free);
    if (decoded) hidden->emplace_back(decoded.get(), static_cast<std::size_t>(length));
  };
  const std::size_t scheme = name.find("://");
  const std::size_t host = scheme == name.npos ? 0 : scheme + 3;
  std::string shown(name.substr(0, host));
  name.remove_prefix(host);

  std::string_view authority = name.substr(0, name.find_first_of("/?#"));
  const std::size_t colon = authority.find(':');
  if (authority.find('@') == authority.npos && !authority.starts_with('[') && colon != authority.npos &&
      authority.find_first_not_of("0123456789", colon + 1) != authority.npos)
    authority = name; // not a port, so it may be a password that has one of these characters
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    hide(name.substr(0, at));
    hide(name.substr(0, at).substr(std::min(name.find(':') + 1, at)));
    name.remove_prefix(at + 1);
  } else if (authority.size() == name.size() && colon != name.npos) {
    hide(name.substr(colon + 1));
    name = name.substr(0, colon);
  }

  // A path may have parameters too, such as `;jsessionid=…`. Each piece begins with its separator.
  const std::size_t path = std::min(name.find_first_of(";?#"), name.size());
  shown += name.substr(0, path);
  name.remove_prefix(path);
  for (bool is_path = true; !name.empty();) {
    is_path = is_path && name[0] != '?' && name[0] != '#';
    const std::string_view piece = name.substr(0, name.find_first_of(is_path ? ";/?#" : "?&;#", 1));
    name.remove_prefix(piece.size());
    const std::size_t equals = std::min(piece.find('='), piece.size());
    const std::string_view parameter = piece.substr(1, equals - 1);
    const std::string_view value = piece.substr(std::min(equals + 1, piece.size()));
    const bool is_plain =
        lower_case(value).find_first_not_of(std::string(lower_digits) + "._-~/") == value.npos;
    if (piece[0] == '/' || (is_plain && is_harmless(parameter))) {
      shown += piece;
    } else if (equals < piece.size()) {
      shown.append(piece, 0, equals + 1) += value.empty() ? "" : "…";
      hide(value);
    } else if (piece[0] == '#' || is_path || parameter.empty()) {
      shown += piece;
    } else { // as a name it says nothing, and it may be a token
      shown.append(piece, 0, 1) += "…";
      hide(parameter);
    }
  }
  return readable(shown);
}

FEEDLINE_INLINE s3_settings s3_settings::from_environment(bool anonymous, bool virtual_hosted) {
  aws_settings aws;
  s3_settings s;
  s.virtual_hosted = virtual_hosted;
  s.endpoint = aws.endpoint("S3");
  s.region = aws.region();
  if (anonymous)
    s.keys = std::make_shared<key_ring>(request_keys{.why_none = "remote_options::anonymous is set"});
  else if (auto given = aws.keys_of_environment()) s.keys = std::make_shared<key_ring>(*std::move(given));
  else s.keys = std::make_shared<key_ring>(aws_key_finder(std::move(aws)));
  return s;
}

/// libcurl's parser of URLs.
class parsed_url {
 public:
  parsed_url() {
    if (!handle_) throw std::bad_alloc();
  }

  /// Takes a URL, also one that is relative to the last. Returns false if it isn't valid.
  bool take(const std::string& url, unsigned int flags) {
    return url.find('\0') == url.npos &&
           curl_url_set(handle_.get(), CURLUPART_URL, url.c_str(), flags) == CURLUE_OK;
  }

  std::string part(CURLUPart which, unsigned int how = 0) const {
    char* text = nullptr;
    if (curl_url_get(handle_.get(), which, &text, how) != CURLUE_OK) return {};
    const std::unique_ptr<char, void (*)(void*)> owned(text, curl_free);
    return text;
  }

  std::string origin() const {
    return lower_case(part(CURLUPART_SCHEME) + "://" + part(CURLUPART_HOST) + ":" +
                      part(CURLUPART_PORT, CURLU_DEFAULT_PORT));
  }

  request_target target() {
    request_target target;
    target.user = part(CURLUPART_USER, CURLU_URLDECODE);
    target.password = part(CURLUPART_PASSWORD, CURLU_URLDECODE);
    curl_url_set(handle_.get(), CURLUPART_USER, nullptr, 0);
    curl_url_set(handle_.get(), CURLUPART_PASSWORD, nullptr, 0);
    target.url = part(CURLUPART_URL);
    return target;
  }

 private:
  const std::unique_ptr<CURLU, void (*)(CURLU*)> handle_{curl_url(), curl_url_cleanup};
};

FEEDLINE_INLINE web_secrets::web_secrets(const remote_options& options) : headers_(options.headers) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("feedline::remote: " + why); };
  for (std::size_t i = 0; i < headers_.size(); ++i) { // what they say isn't shown
    const std::string_view header = headers_[i];
    const std::string_view name = header.substr(0, header.find(':'));
    if (!is_visible(name) || name.size() == header.size() ||
        trimmed(header.substr(name.size() + 1)).empty() ||
        header.find_first_of(std::string_view("\r\n\0", 3)) != header.npos)
      refuse("headers[" + std::to_string(i) + "] isn't one line of the form `Name: value`");
    const bool authorizes = lower_case(name) == "authorization";
    if (lower_case(name) == "range" || lower_case(name) == "host" || (authorizes && options.token))
      refuse("headers[" + std::to_string(i) + "] sets " + std::string(name) + ", which remote() sets itself");
    has_authorization_ = has_authorization_ || authorizes;
  }
  if (options.token)
    token_ = std::make_shared<key_ring>([find = options.token](const std::stop_token&) {
      const bearer_token token = find();
      if (!is_visible(token.text))
        throw keys_error("remote_options::token returned a text that is empty or can't be sent in a header");
      return request_keys{.headers = {"Authorization: Bearer " + token.text}, .expires = token.expires};
    });
  const auto variable = [](const char* name, const char* otherwise) -> std::string {
    const char* const value = std::getenv(name);
    return value && *value ? value : otherwise;
  };
  const std::string token(trimmed(variable("HF_TOKEN", "")));
  if (token.empty() || options.anonymous) return;
  if (!is_visible(token)) refuse("HF_TOKEN has characters that can't be sent in a header");
  hugging_face_origin_ = origin_of(variable("HF_ENDPOINT", "https://huggingface.co"));
  hugging_face_ = std::make_shared<key_ring>(request_keys{.headers = {"Authorization: Bearer " + token}});
}

FEEDLINE_INLINE void web_secrets::add_to(request_target& target) const {
  target.headers = headers_;
  if (has_authorization_ || !target.user.empty() || !target.password.empty()) return;
  if (token_) target.keys = token_;
  else if (hugging_face_ && origin_of(target.url) == hugging_face_origin_) target.keys = hugging_face_;
}

FEEDLINE_INLINE std::string origin_of(const std::string& url) {
  parsed_url parsed;
  return parsed.take(url, 0) ? parsed.origin() : std::string();
}

FEEDLINE_INLINE std::optional<request_target> redirected(const request_target& from,
                                                         const std::string& location) {
  parsed_url parsed;
  if (!parsed.take(from.url, 0)) return std::nullopt;
  const std::string origin = parsed.origin();
  if (!parsed.take(location, CURLU_URLENCODE)) return std::nullopt;
  const bool stays = parsed.origin() == origin;
  request_target to = parsed.target();
  to.ignores_etag = from.ignores_etag;
  if (!stays) return to;
  if (to.user.empty() && to.password.empty()) {
    to.user = from.user;
    to.password = from.password;
  }
  to.headers = from.headers;
  to.keys = from.keys;
  return to;
}

FEEDLINE_INLINE request_target target_of_url(const std::string& url, unsigned int flags,
                                             const std::string& shown) {
  parsed_url parsed;
  if (!parsed.take(url, flags))
    throw object_error(shown + ": isn't a valid URL; special characters must be percent-encoded");
  return parsed.target();
}

FEEDLINE_INLINE request_target target_of_s3(std::string_view name, const s3_settings& s,
                                            const std::string& shown) {
  name.remove_prefix(std::string_view("s3://").size());
  const std::string_view bucket = name.substr(0, name.find('/'));
  const std::string_view key = name.substr(std::min(bucket.size() + 1, name.size()));
  const auto has_only = [](std::string_view text, std::string_view allowed) {
    return !text.empty() && text.find_first_not_of(allowed) == text.npos;
  };
  if (!has_only(bucket, std::string(lower_digits).append(upper_letters) + ".-_") || key.empty())
    throw object_error(shown + ": isn't a name of an S3 object, s3://bucket/key");

  std::string path;
  for (const char c : key) append_escaped(path, c, "/");

  std::string url = s.endpoint;
  while (url.ends_with('/')) url.pop_back();
  const std::string host =
      "s3." + s.region + (s.region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
  // A certificate for *.s3.REGION.amazonaws.com doesn't cover names with dots.
  if (url.empty() && has_only(bucket, std::string(lower_digits) + "-"))
    url = "https://" + std::string(bucket) + "." + host;
  else if (const std::size_t scheme = url.find("://"); s.virtual_hosted && scheme != url.npos)
    url.insert(scheme + 3, std::string(bucket) + ".");
  else (url.empty() ? url = "https://" + host : url).append(1, '/').append(bucket);
  url.append(1, '/').append(path);
  if (!has_scheme(url, "http") && !has_scheme(url, "https"))
    throw object_error(shown + ": AWS_ENDPOINT_URL doesn't begin with http:// or https://");

  request_target target = target_of_url(url, CURLU_PATH_AS_IS, shown);
  target.is_s3 = true;
  target.user.clear();
  target.password.clear();
  target.signature = "aws:amz:" + s.region + ":s3";
  target.keys = s.keys;
  return target;
}

FEEDLINE_INLINE request_target target_of(const std::string& name, const s3_settings& s,
                                         const web_secrets& web) {
  const std::string shown = without_secrets(name);
  if (name.find('\0') != name.npos) throw object_error(shown + ": isn't a valid URL: it has a zero byte");
  if (has_scheme(name, "s3")) return target_of_s3(name, s, shown);
  if (has_scheme(name, "http") || has_scheme(name, "https")) {
    request_target target = target_of_url(name, CURLU_URLENCODE, shown);
    web.add_to(target);
    return target;
  }
  throw object_error(shown + ": doesn't begin with http://, https:// or s3://");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
