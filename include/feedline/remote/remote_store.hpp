// SPDX-License-Identifier: MIT
#pragma once
// remote: an object store that reads from web servers and S3.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/transfers.hpp>
#include <feedline/remote/detail/url.hpp>
#include <feedline/remote/remote_options.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI {
namespace detail {

class remote_read final : public object_read {
 public:
  remote_read(std::shared_ptr<transfers> all, std::shared_ptr<part_ticket> t);

  ~remote_read() override;

  bool ready() const override;

  object_part get(const std::stop_token& stop) override;

 private:
  const std::shared_ptr<transfers> all_; // a read may outlive the store
  const std::shared_ptr<part_ticket> ticket_;
};

class remote_store final : public object_store {
 public:
  explicit remote_store(const remote_options& options) : options_(checked(options)) {}

  ~remote_store() override;

  bool serves(std::string_view name) const override {
    return has_scheme(name, "http") || has_scheme(name, "https") || has_scheme(name, "s3");
  }

  std::string shown(std::string_view name) const override { return without_secrets(name); }

  std::unique_ptr<object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                    const std::optional<object_info>& expected) override;

  std::size_t part_bytes() const override { return options_.part_bytes; }

  std::size_t bytes_ahead() const override { return options_.bytes_ahead; }

  std::string outage() const override;

  void metrics(const std::function<void(const char* name, double value)>& out,
               const std::function<void(const char* name, double value)>& total) const override;

 private:
  static const remote_options& checked(const remote_options& o);

  const remote_options options_;
  const std::shared_ptr<transfers> transfers_ = std::make_shared<transfers>(options_);
  const s3_settings s3_ = s3_settings::from_environment(options_.anonymous, options_.virtual_hosted);
  const web_secrets web_{options_}; // these end first, as they wake the transfers
};

} // namespace detail

/// Reads objects from web servers and S3, for sources that take an object_store. Each is read in parts, several at
/// once, over connections that are reused (HTTP/1.1, and HTTP/2 where the server has it). One thread does all of it;
/// it starts with the first read.
///
/// Takes: names that begin with `http://`, `https://` or `s3://bucket/`. In a URL, special characters are
/// percent-encoded; the key of an S3 object is written as it is. `https://user:password@host/` sends basic
/// authentication; `headers` and `token` of the options are sent to web servers, and HF_TOKEN to https://huggingface.co or
/// to HF_ENDPOINT. None of these follows a redirect to another host, port or scheme. Proxies and certificates are those
/// that the program `curl` takes from the environment.
///
/// S3 takes its settings where other programs take them. The variables are read once, when the store is made; for servers
/// other than Amazon's set AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL. The region is AWS_REGION, AWS_DEFAULT_REGION or that of the
/// profile (AWS_PROFILE). Keys are the first of: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; a web
/// identity (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN); the profile in ~/.aws/credentials and ~/.aws/config; the server of a
/// container (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or …_FULL_URI); the instance's metadata. They are renewed five
/// minutes before they expire, and when S3 says ExpiredToken. Without keys, requests aren't signed, and keys are looked for
/// again after a minute and when S3 refuses a request (401, 403); `anonymous` saves the search for them, which can take some
/// seconds for the metadata.
///
/// Fails: with an error that names the object without its secrets, and has the code and the message of an error of S3.
/// - outage_error: a connection that fails or breaks, a server that is silent for too long, and the status codes 408, 429
///   and 500 to 599 (but 501 and 505). It is tried again, as `retry` says and not before the server's Retry-After; a
///   part continues after the bytes that have arrived. After `retry.attempts` this is an outage: `on_notice` and metrics
///   say so, and it is tried again until `retry.for_at_most` has passed. Then the run ends, whatever on_error is.
/// - outage_error at once: no valid certificate, S3's ExpiredToken and RequestTimeTooSkewed, and a Retry-After that
///   is longer than what is left of `retry.for_at_most`, unless that is 0.
/// - Keys and tokens that can't be found: an outage_error, which says where they were looked for. It is tried again if a
///   server fails, and not if a file or a variable is wrong.
/// - object_error: other status codes, and an object that changes while it is read. From a server that ignores ranges an
///   object can only be read in order, and only if it isn't larger than `part_bytes`.
///
/// Throws std::invalid_argument if an option is out of range.
///
/// Example: `tar_samples("https://host/train-{0000..0146}.tar", {.remote = remote({.in_flight = 64})})`
std::shared_ptr<object_store> remote(remote_options options = {});

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/remote/remote_store.ipp>
#endif
