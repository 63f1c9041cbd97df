// SPDX-License-Identifier: MIT
#pragma once
// Keys of S3, found where other programs for AWS find them.
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <feedline/remote/detail/request_keys.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using text_map = std::map<std::string, std::string, std::less<>>;

/// Adds the settings of a section of an INI file, with names in lower case, and returns whether it has that section. Lines
/// that aren't settings, and nested settings, have no meaning.
bool add_ini_section(std::string_view text, std::string_view section, text_map& settings);

/// The texts among the members of a JSON object; nothing if it isn't one. Other values are ignored, and characters beyond
/// ASCII become '?'.
std::optional<text_map> json_texts(std::string_view text);

/// The text of the first XML element of that name, which has no attributes and no elements in it, without blanks around it.
std::optional<std::string> xml_text(std::string_view document, std::string_view name);

/// "2030-01-02T03:04:05Z", also with a fraction, which is left out.
std::optional<std::chrono::system_clock::time_point> parse_utc(std::string_view text);

/// The environment's variables for AWS, and the profile of the shared files.
class aws_settings {
 public:
  aws_settings();

  /// The first variable that isn't empty; else empty.
  std::string variable(std::initializer_list<std::string_view> names) const;

  /// Of the profile in the shared credentials file, or else in the config file; else empty.
  std::string of_profile(std::string_view name) const;

  std::string region() const;

  /// Of a service such as S3; empty: Amazon's.
  std::string endpoint(const std::string& service) const;

  std::optional<request_keys> keys_of_environment() const;

  /// `default`, or as AWS_PROFILE says.
  const std::string& profile() const noexcept { return profile_; }

  /// Where the profile was found or should be, for messages.
  std::string files() const { return credentials_file_ + " or " + config_file_; }

  bool has_profile() const noexcept { return has_profile_; }

  /// Reads the shared files again.
  void read_files();

 private:
  text_map variables_;
  std::string profile_;
  std::string credentials_file_;
  std::string config_file_;
  text_map credentials_;
  text_map config_;
  bool has_profile_ = false;
};

/// Finds keys in the order of the SDKs: web identity, shared files, container, instance metadata. None of them: keys that
/// sign nothing, for a minute. It throws keys_error if the first that is set up fails.
key_ring::finder aws_key_finder(aws_settings settings);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_REMOTE)
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/http_answer.hpp>
#include <feedline/remote/detail/http_exchange.hpp>
#include <feedline/remote/detail/url.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE bool add_ini_section(std::string_view text, std::string_view section, text_map& settings) {
  constexpr std::string_view blank = " \t";
  bool is_in = false, has_section = false;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const bool is_nested = line.find_first_of(blank) == 0;
    for (std::size_t i = 0; i < line.size(); ++i) // a comment begins the line or follows a blank
      if ((line[i] == '#' || line[i] == ';') && (i == 0 || blank.find(line[i - 1]) != blank.npos))
        line = line.substr(0, i);
    line = trimmed(line);
    if (line.starts_with('[') && !is_nested) {
      std::string name;
      for (const char c : line.substr(1, line.find(']') - 1)) // "profile  x" is "profile x"
        if (blank.find(c) == blank.npos) name += c;
        else if (!name.empty() && name.back() != ' ') name += ' ';
      is_in = trimmed(name) == section;
      has_section = has_section || is_in;
    } else if (const std::size_t equals = line.find('='); is_in && !is_nested && equals != line.npos) {
      settings.insert_or_assign(lower_case(trimmed(line.substr(0, equals))),
                                std::string(trimmed(line.substr(equals + 1))));
    }
  }
  return has_section;
}

/// Reads a JSON text from its beginning to its end.
class json_reader {
 public:
  explicit json_reader(std::string_view text) : rest_(text) {}

  bool take(char c) {
    rest_ = rest_.substr(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool has_ended() { return trimmed(rest_).empty(); }

  std::optional<std::string> text() {
    if (!take('"')) return {};
    std::string text;
    while (!rest_.empty()) {
      char c = next();
      if (c == '"') return text;
      if (static_cast<unsigned char>(c) < ' ' || (c == '\\' && rest_.empty())) return {};
      if (c == '\\') {
        constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
        const char letter = next();
        if (const std::size_t which = letters.find(letter); which != letters.npos) c = meanings[which];
        else if (const auto code = letter == 'u' ? hexadecimal() : std::nullopt)
          c = *code < 0x80 ? static_cast<char>(*code) : '?';
        else return {};
      }
      text += static_cast<unsigned char>(c) < 0x80 ? c : '?';
    }
    return {};
  }

  // Passes over a number, a word, or what is in brackets.
  bool skip_value() {
    int depth = 0;
    do {
      if (take('"')) {
        rest_ = std::string_view(rest_.data() - 1, rest_.size() + 1);
        if (!text()) return false;
      } else if (take('{') || take('[')) {
        ++depth;
      } else if (depth > 0 && (take('}') || take(']'))) {
        --depth;
      } else if (depth == 0 || !(take(',') || take(':'))) {
        const std::size_t size =
            std::min(rest_.find_first_not_of("+-.0123456789abcdefghijklmnopqrstuvwxyzE"), rest_.size());
        if (size == 0) return false;
        rest_.remove_prefix(size);
      }
    } while (depth > 0);
    return true;
  }

 private:
  char next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  std::optional<unsigned> hexadecimal() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      constexpr std::string_view digits = "0123456789abcdef";
      const std::size_t digit = rest_.empty() ? digits.npos : digits.find(lower_case({&rest_.front(), 1}));
      if (digit == digits.npos) return {};
      code = code * 16 + static_cast<unsigned>(digit);
      rest_.remove_prefix(1);
    }
    return code;
  }

  std::string_view rest_;
};

FEEDLINE_INLINE std::optional<text_map> json_texts(std::string_view text) {
  json_reader json(text);
  text_map texts;
  if (!json.take('{')) return {};
  for (bool is_first = true; !json.take('}'); is_first = false) {
    if (!is_first && !json.take(',')) return {};
    const auto name = json.text();
    if (!name || !json.take(':')) return {};
    if (auto value = json.text()) texts.insert_or_assign(*name, *std::move(value));
    else if (!json.skip_value()) return {};
  }
  if (!json.has_ended()) return {};
  return texts;
}

FEEDLINE_INLINE std::optional<std::string> xml_text(std::string_view document, std::string_view name) {
  const std::string begin = "<" + std::string(name) + ">", end = "</" + std::string(name) + ">";
  const std::size_t found = document.find(begin);
  if (found == document.npos) return {};
  document.remove_prefix(found + begin.size());
  const std::size_t size = document.find('<');
  if (size == document.npos || !document.substr(size).starts_with(end)) return {};
  return without_entities(trimmed(document.substr(0, size)));
}

FEEDLINE_INLINE std::optional<std::chrono::system_clock::time_point> parse_utc(std::string_view text) {
  constexpr std::string_view form = "dddd-dd-ddTdd:dd:dd";
  if (text.size() <= form.size() || !text.ends_with('Z')) return {};
  std::string_view fraction = text.substr(form.size(), text.size() - form.size() - 1);
  if (!fraction.empty() && (fraction[0] != '.' || !parse_number(fraction.substr(1, 9)))) return {};
  for (std::size_t i = 0; i < form.size(); ++i)
    if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return {};
  const auto number = [&](std::size_t at, std::size_t size) {
    return static_cast<unsigned>(parse_number(text.substr(at, size)).value_or(0));
  };
  namespace chrono = std::chrono;
  const chrono::year_month_day date{chrono::year(static_cast<int>(number(0, 4))), chrono::month(number(5, 2)),
                                    chrono::day(number(8, 2))};
  if (!date.ok() || number(0, 4) < 1970 || number(0, 4) > 2200 || number(11, 2) > 23 || number(14, 2) > 59 ||
      number(17, 2) > 60)
    return {};
  return chrono::sys_days(date) + chrono::hours(number(11, 2)) + chrono::minutes(number(14, 2)) +
         chrono::seconds(number(17, 2));
}

/// The whole of a small file; nothing, and errno, if it can't be read.
FEEDLINE_INLINE std::optional<std::string> small_file(const std::string& path) {
  constexpr std::size_t most = std::size_t{1} << 20;
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a pipe has no size
  if (!file) return {};
  errno = EFBIG;
  if (file.size() > most) return {};
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  errno = EIO; // unless reading says otherwise
  if (file.read(text.data(), text.size(), 0) < text.size()) return {};
  return text;
}

/// A file that must be there, and not empty.
FEEDLINE_INLINE std::string needed_file(const std::string& path) {
  auto text = small_file(path);
  if (!text)
    throw keys_error(in_backticks(path) + " can't be read: " + std::generic_category().message(errno));
  if (trimmed(*text).empty()) throw keys_error(in_backticks(path) + " is empty or can't be read", true);
  return std::string(trimmed(*text));
}

FEEDLINE_INLINE request_keys signing_keys(std::string access, std::string secret, const std::string& token) {
  if (!is_visible(access) || secret.empty() || !(token.empty() || is_visible(token)))
    throw keys_error("a key or token is missing, or has characters that keys don't have");
  // The hash of an empty body, which libcurl before 7.87 signs but doesn't send.
  request_keys keys{
      std::move(access),
      std::move(secret),
      {"x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}};
  if (!token.empty()) keys.headers.push_back("x-amz-security-token: " + token);
  return keys;
}

FEEDLINE_INLINE aws_settings::aws_settings() {
  for (char** variable = ::environ; variable && *variable; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if ((name.starts_with("AWS_") || name == "HOME") && name.size() < text.size())
      variables_.emplace(name, text.substr(name.size() + 1));
  }
  const auto file = [&](std::string_view name, const char* otherwise) {
    const std::string given = variable({name});
    return given.empty() ? variable({"HOME"}) + otherwise : given;
  };
  profile_ = variable({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  if (profile_.empty()) profile_ = "default";
  credentials_file_ = file("AWS_SHARED_CREDENTIALS_FILE", "/.aws/credentials");
  config_file_ = file("AWS_CONFIG_FILE", "/.aws/config");
  read_files();
}

FEEDLINE_INLINE void aws_settings::read_files() {
  credentials_.clear();
  config_.clear();
  const std::string config = small_file(config_file_).value_or("");
  has_profile_ = add_ini_section(small_file(credentials_file_).value_or(""), profile_, credentials_);
  has_profile_ |= add_ini_section(config, "profile " + profile_, config_);
  if (profile_ == "default") has_profile_ |= add_ini_section(config, profile_, config_);
}

FEEDLINE_INLINE std::string aws_settings::variable(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    if (const auto found = variables_.find(name); found != variables_.end() && !found->second.empty())
      return found->second;
  return {};
}

FEEDLINE_INLINE std::string aws_settings::of_profile(std::string_view name) const {
  for (const text_map* file : {&credentials_, &config_})
    if (const auto found = file->find(name); found != file->end()) return found->second;
  return {};
}

FEEDLINE_INLINE std::string aws_settings::region() const {
  std::string region = variable({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (region.empty()) region = of_profile("region");
  return region.empty() ? "us-east-1" : region;
}

FEEDLINE_INLINE std::string aws_settings::endpoint(const std::string& service) const {
  return variable({"AWS_ENDPOINT_URL_" + service, "AWS_ENDPOINT_URL"});
}

FEEDLINE_INLINE std::optional<request_keys> aws_settings::keys_of_environment() const {
  const std::string access = variable({"AWS_ACCESS_KEY_ID"}), secret = variable({"AWS_SECRET_ACCESS_KEY"});
  if (access.empty() || secret.empty()) return {};
  try {
    return signing_keys(access, secret, variable({"AWS_SESSION_TOKEN"}));
  } catch (const keys_error&) {
    throw std::invalid_argument("feedline::remote: AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN has characters "
                                "that can't be sent in a header");
  }
}

/// The places where keys may be, one after another.
class aws_providers {
 public:
  aws_providers(aws_settings& settings, const common_options& options, const std::stop_token& stop)
      : settings_(settings), options_(options), stop_(stop) {}

  request_keys find() {
    settings_.read_files();
    using provider = std::optional<request_keys> (aws_providers::*)();
    constexpr std::pair<const char*, provider> all[] = {{"web identity", &aws_providers::of_web_identity},
                                                        {"shared files", &aws_providers::of_files},
                                                        {"container", &aws_providers::of_container},
                                                        {"instance metadata", &aws_providers::of_instance}};
    why_none_ = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY aren't both set";
    for (const auto& [name, from] : all) {
      try {
        if (auto keys = (this->*from)()) return *std::move(keys);
      } catch (const keys_error& error) {
        throw keys_error("no keys of S3 from " + std::string(name) + ": " + error.what(), error.may_heal);
      }
    }
    return {.expires = std::chrono::system_clock::now() + std::chrono::minutes(1), .why_none = why_none_};
  }

 private:
  std::nullopt_t none(const std::string& why) {
    why_none_ += "; " + why;
    return std::nullopt;
  }

  std::optional<request_keys> of_web_identity() {
    std::string file = settings_.variable({"AWS_WEB_IDENTITY_TOKEN_FILE"});
    std::string role = settings_.variable({"AWS_ROLE_ARN"}),
                session = settings_.variable({"AWS_ROLE_SESSION_NAME"});
    if (file.empty()) {
      file = settings_.of_profile("web_identity_token_file");
      role = settings_.of_profile("role_arn");
      session = settings_.of_profile("role_session_name");
    }
    if (file.empty()) return none("no web identity (AWS_WEB_IDENTITY_TOKEN_FILE)");
    if (role.empty()) throw keys_error("AWS_ROLE_ARN isn't set");
    const std::string token = needed_file(file);
    std::string url = settings_.endpoint("STS");
    if (url.empty()) {
      const std::string region = settings_.region();
      url = "https://sts." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
    }
    const http_reply reply =
        ask({.method = "POST",
             .url = url + (url.ends_with('/') ? "" : "/"),
             .body = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=" + escaped(role) +
                     "&RoleSessionName=" + escaped(session.empty() ? "feedline" : session) +
                     "&WebIdentityToken=" + escaped(token)},
            token);
    std::string_view answer = reply.body;
    const std::size_t begin = answer.find("<Credentials>"), end = answer.find("</Credentials>");
    if (begin == answer.npos || end == answer.npos || end < begin)
      throw keys_error("the answer of " + without_secrets(url) + " has no Credentials");
    answer = answer.substr(begin, end - begin);
    const auto value = [&](const char* name) { return xml_text(answer, name).value_or(""); };
    return expiring(value("AccessKeyId"), value("SecretAccessKey"), value("SessionToken"),
                    value("Expiration"));
  }

  std::optional<request_keys> of_files() {
    const auto value = [&](const char* name) { return settings_.of_profile(name); };
    const auto refuse = [&](std::initializer_list<const char*> others) {
      for (const char* other : others)
        if (!value(other).empty())
          throw keys_error(
              "the profile " + in_backticks(settings_.profile()) + " has " + other +
              ", which isn't supported: set the variables that `aws configure export-credentials "
              "--format env` prints");
    };
    refuse({"role_arn"}); // the keys beside it are for taking the role only
    if (!value("aws_access_key_id").empty())
      return signing_keys(value("aws_access_key_id"), value("aws_secret_access_key"),
                          value("aws_session_token"));
    refuse({"credential_process", "sso_session", "sso_start_url"});
    const std::string what =
        "no keys of the profile " + in_backticks(settings_.profile()) + " in " + settings_.files();
    if (!settings_.has_profile() && settings_.variable({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"}) != "")
      throw keys_error(what);
    return none(what);
  }

  std::optional<request_keys> of_container() {
    std::string url = settings_.variable({"AWS_CONTAINER_CREDENTIALS_FULL_URI"});
    const std::string relative = settings_.variable({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"});
    if (!relative.empty())
      url = "http://169.254.170.2" + std::string(relative.starts_with('/') ? "" : "/") + relative;
    if (url.empty()) return none("no container (AWS_CONTAINER_CREDENTIALS_FULL_URI)");
    // The token goes over an open connection to this machine only.
    std::string host = origin_of(url);
    host = host.substr(0, host.rfind(':'));
    constexpr std::string_view local[] = {"http://localhost", "http://169.254.170.2", "http://169.254.170.23",
                                          "http://[fd00:ec2::23]", "http://[::1]"};
    const bool is_loopback =
        host.starts_with("http://127.") && host.find_first_not_of("0123456789.", 7) == host.npos;
    if (!host.starts_with("https://") && !is_loopback && std::ranges::find(local, host) == std::end(local))
      throw keys_error("AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https:// or be on this machine");
    std::string token = settings_.variable({"AWS_CONTAINER_AUTHORIZATION_TOKEN"});
    if (const std::string file = settings_.variable({"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"});
        !file.empty())
      token = needed_file(file);
    http_exchange request{.method = "GET", .url = url, .is_direct = host.starts_with("http://")};
    if (!token.empty()) request.headers.push_back("Authorization: " + in_header(token));
    return of_json(ask(request, token).body);
  }

  std::optional<request_keys> of_instance() {
    if (lower_case(settings_.variable({"AWS_EC2_METADATA_DISABLED"})) == "true")
      return none("AWS_EC2_METADATA_DISABLED is set");
    std::string url = settings_.variable({"AWS_EC2_METADATA_SERVICE_ENDPOINT"});
    if (url.empty())
      url = lower_case(settings_.variable({"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"})) == "ipv6"
                ? "http://[fd00:ec2::254]"
                : "http://169.254.169.254";
    while (url.ends_with('/')) url.pop_back();
    const auto request = [&](const char* method, const std::string& path, const std::string& header) {
      return http_exchange{.method = method,
                           .url = url + "/latest/" + path,
                           .headers = {header},
                           .timeout = std::chrono::seconds(1),
                           .is_direct = true};
    };
    const http_exchange put = request("PUT", "api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600");
    http_reply token = exchange(options_, put, stop_);
    if (token.status == 0) token = exchange(options_, put, stop_); // the first may have been lost
    if (token.status == 0) return none("no instance metadata (" + token.problem + ")");
    if (token.status / 100 == 4 && token.status != 429)
      return none("no instance metadata (status " + status_text(token.status) + ")");
    check(token, {});
    const std::string header = "X-aws-ec2-metadata-token: " + in_header(token.body);
    const http_reply role =
        exchange(options_, request("GET", "meta-data/iam/security-credentials/", header), stop_);
    if (role.status == 404) return none("the instance has no role");
    check(role, token.body);
    const std::string name = escaped(trimmed(role.body.substr(0, role.body.find('\n'))));
    return of_json(
        ask(request("GET", "meta-data/iam/security-credentials/" + name, header), token.body).body);
  }

  http_reply ask(const http_exchange& e, const std::string& secret) {
    http_reply reply = exchange(options_, e, stop_);
    check(reply, secret);
    return reply;
  }

  static void check(const http_reply& reply, const std::string& secret) {
    if (reply.status == 200) return;
    if (reply.status == 0) throw keys_error(reply.problem, true);
    throw keys_error("status " + status_text(reply.status) + error_in_body(reply.body, {secret}),
                     reply.status >= 500 || reply.status == 429 || reply.status == 408);
  }

  static std::string in_header(std::string_view token) {
    token = trimmed(token);
    std::string visible(token); // but for "Basic xyz"
    std::erase(visible, ' ');
    if (!is_visible(visible)) throw keys_error("the token has characters that can't be sent in a header");
    return std::string(token);
  }

  static std::string escaped(std::string_view text) {
    std::string all;
    for (const char c : text) append_escaped(all, c, "");
    return all;
  }

  static request_keys expiring(const std::string& access, const std::string& secret, const std::string& token,
                               const std::string& expiration) {
    request_keys keys = signing_keys(access, secret, token);
    const auto expires = parse_utc(expiration);
    if (!expires && !expiration.empty()) throw keys_error("the answer's Expiration isn't a time");
    if (expires) keys.expires = *expires;
    return keys;
  }

  static request_keys of_json(const std::string& body) {
    const auto values = json_texts(body);
    if (!values) throw keys_error("the answer isn't JSON");
    const auto value = [&](const char* name) {
      const auto found = values->find(name);
      return found == values->end() ? std::string() : found->second;
    };
    if (const std::string code = value("Code"); !code.empty() && code != "Success")
      throw keys_error("the answer's Code is " + in_backticks(code), true);
    return expiring(value("AccessKeyId"), value("SecretAccessKey"), value("Token"), value("Expiration"));
  }

  aws_settings& settings_;
  const common_options& options_;
  const std::stop_token& stop_;
  std::string why_none_;
};

FEEDLINE_INLINE key_ring::finder aws_key_finder(aws_settings settings) {
  return [settings = std::move(settings), options = common_options(),
          had_keys = false](const std::stop_token& stop) mutable {
    block_broken_pipe();
    request_keys keys = aws_providers(settings, options, stop).find();
    if (keys.user.empty() && had_keys) throw keys_error("no keys of S3 any more: " + keys.why_none, true);
    had_keys = !keys.user.empty();
    return keys;
  };
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
