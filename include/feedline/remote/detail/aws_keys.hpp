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

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/detail/aws_keys.ipp>
#endif
