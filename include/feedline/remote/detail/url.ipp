// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/detail/url.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>

#include <feedline/detail/readable_text.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

FEEDLINE_INLINE bool has_scheme(std::string_view name, std::string_view scheme) {
  return name.size() > scheme.size() + 3 && lower_case(name.substr(0, scheme.size())) == scheme &&
         name.substr(scheme.size(), 3) == "://";
}

FEEDLINE_INLINE bool is_secret(std::string_view parameter) {
  if (parameter.empty()) return false;
  int length = 0;
  const std::unique_ptr<char, void (*)(void*)> decoded(
      curl_easy_unescape(nullptr, parameter.data(),
                         static_cast<int>(std::min<std::size_t>(parameter.size(), 1 << 20)), &length),
      curl_free);
  if (!decoded) return true;
  const std::string name = lower_case({decoded.get(), static_cast<std::size_t>(length)});
  constexpr std::array<std::string_view, 8> words{"sig",   "token",      "key",  "secret",
                                                  "passw", "credential", "auth", "policy"};
  return std::ranges::any_of(words, [&](std::string_view word) { return name.find(word) != name.npos; });
}

FEEDLINE_INLINE std::string without_secrets(std::string_view name) {
  const std::size_t scheme = name.find("://");
  const std::size_t host = scheme == name.npos ? 0 : scheme + 3;
  std::string shown(name.substr(0, host));
  name.remove_prefix(host);

  std::string_view authority = name.substr(0, name.find_first_of("/?#"));
  const std::size_t colon = authority.find(':');
  if (authority.find('@') == authority.npos && !authority.starts_with('[') && colon != authority.npos &&
      authority.find_first_not_of("0123456789", colon + 1) != authority.npos)
    authority = name; // not a port, so it may be a password that has one of these characters
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) name.remove_prefix(at + 1);
  else if (authority.size() == name.size() && colon != name.npos) name = name.substr(0, colon);

  const std::size_t query = std::min(name.find_first_of("?#"), name.size());
  shown += name.substr(0, query);
  name.remove_prefix(query);
  while (!name.empty()) { // each begins with its separator
    const std::string_view part = name.substr(0, name.find_first_of("?&;#", 1));
    const std::size_t equals = part.find('=');
    if (equals != part.npos && is_secret(part.substr(1, equals - 1)))
      shown.append(part, 0, equals + 1) += "…";
    else shown += part;
    name.remove_prefix(part.size());
  }
  return readable(shown);
}

FEEDLINE_INLINE s3_settings s3_settings::from_environment(bool anonymous, bool virtual_hosted) {
  const auto first_of = [](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names)
      if (const char* const value = std::getenv(name); value && *value) return value;
    return {};
  };
  s3_settings s;
  s.virtual_hosted = virtual_hosted;
  s.endpoint = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  s.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (s.region.empty()) s.region = "us-east-1";
  if (anonymous) return s;
  s.access_key = first_of({"AWS_ACCESS_KEY_ID"});
  s.secret_key = first_of({"AWS_SECRET_ACCESS_KEY"});
  s.session_token = first_of({"AWS_SESSION_TOKEN"});
  if (s.access_key.empty() || s.secret_key.empty()) s.access_key.clear();
  return s;
}

FEEDLINE_INLINE request_target target_of_url(const std::string& url, unsigned int flags,
                                             const std::string& shown) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parsed(curl_url(), curl_url_cleanup);
  if (!parsed) throw std::bad_alloc();
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), flags) != CURLUE_OK)
    throw object_error(shown + ": isn't a valid URL; special characters must be percent-encoded");
  const auto part = [&](CURLUPart which, unsigned int how) -> std::string {
    char* text = nullptr;
    if (curl_url_get(parsed.get(), which, &text, how) != CURLUE_OK) return {};
    const std::unique_ptr<char, void (*)(void*)> owned(text, curl_free);
    return text;
  };
  request_target target;
  target.user = part(CURLUPART_USER, CURLU_URLDECODE);
  target.password = part(CURLUPART_PASSWORD, CURLU_URLDECODE);
  curl_url_set(parsed.get(), CURLUPART_USER, nullptr, 0);
  curl_url_set(parsed.get(), CURLUPART_PASSWORD, nullptr, 0);
  target.url = part(CURLUPART_URL, 0);
  return target;
}

FEEDLINE_INLINE request_target target_of_s3(std::string_view name, const s3_settings& s,
                                            const std::string& shown) {
  name.remove_prefix(std::string_view("s3://").size());
  const std::string_view bucket = name.substr(0, name.find('/'));
  const std::string_view key = name.substr(std::min(bucket.size() + 1, name.size()));
  constexpr std::string_view lower_digits = "abcdefghijklmnopqrstuvwxyz0123456789";
  constexpr std::string_view upper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const auto has_only = [](std::string_view text, std::string_view allowed) {
    return !text.empty() && text.find_first_not_of(allowed) == text.npos;
  };
  if (!has_only(bucket, std::string(lower_digits).append(upper) + ".-_") || key.empty())
    throw object_error(shown + ": isn't a name of an S3 object, s3://bucket/key");

  std::string path;
  for (const char c : key) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (has_only({&c, 1}, lower_digits) || has_only({&c, 1}, upper) || has_only({&c, 1}, "-_.~/")) path += c;
    else path.append(1, '%').append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }

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
  target.user = s.access_key;
  target.password.clear();
  if (s.access_key.empty()) return target;
  target.password = s.secret_key;
  target.signature = "aws:amz:" + s.region + ":s3";
  // The hash of an empty body, which libcurl before 7.87 signs but doesn't send.
  target.headers.emplace_back(
      "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  if (!s.session_token.empty()) target.headers.push_back("x-amz-security-token: " + s.session_token);
  return target;
}

FEEDLINE_INLINE request_target target_of(const std::string& name, const s3_settings& s) {
  const std::string shown = without_secrets(name);
  if (name.find('\0') != name.npos) throw object_error(shown + ": isn't a valid URL: it has a zero byte");
  if (has_scheme(name, "s3")) return target_of_s3(name, s, shown);
  if (has_scheme(name, "http") || has_scheme(name, "https"))
    return target_of_url(name, CURLU_URLENCODE, shown);
  throw object_error(shown + ": doesn't begin with http://, https:// or s3://");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
