// SPDX-License-Identifier: MIT
#pragma once
// remote: an object store that reads from web servers and S3.
#include <memory>

#include <feedline/remote/object_store.hpp>
#include <feedline/remote/remote_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Reads objects from web servers and S3, for sources that take an object_store. Each is read in parts, several at
/// once, over connections that are reused (HTTP/1.1, and HTTP/2 where it is agreed on with TLS). One thread does all of it;
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
/// - outage_error: a connection that fails or breaks, a server that is silent for too long or too slow, and the status codes
///   408, 429 and 500 to 599 (but 501 and 505). It is tried again, as `retry` says and not before the server's Retry-After; a
///   part continues after the bytes that have arrived. After `retry.attempts` this is an outage: `on_notice` and metrics
///   say so, and it is tried again until `retry.for_at_most` has passed. Then the run ends, whatever on_error is.
/// - outage_error at once: no valid certificate, S3's ExpiredToken and RequestTimeTooSkewed, and a Retry-After that
///   is longer than what is left of `retry.for_at_most`, unless that is 0.
/// - Keys and tokens that can't be found: an outage_error, which says where they were looked for. It is tried again if a
///   server fails, and not if a file or a variable is wrong.
/// - object_error: other status codes, and an object that changes while it is read. From a server that ignores ranges an
///   object can only be read in order, and only if it isn't larger than `part_bytes`.
///
/// A server may send less than was requested, and not say the size of an object in Content-Range: then it is asked for that
/// with HEAD. An object that is stored with Content-Encoding gzip or zstd is read as the compressed file that it is.
///
/// Messages have names of parameters in URLs, and their values only where these are known to be no secrets. An object is
/// identified by its whole name: to a checkpoint and to a cache, a URL with another signature is another object.
///
/// Throws std::invalid_argument if an option is out of range.
///
/// Example: `tar_samples("https://host/train-{0000..0146}.tar", {.remote = remote({.in_flight = 64})})`
std::shared_ptr<object_store> remote(remote_options options = {});

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_REMOTE)
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/detail/given_size.hpp>
#include <feedline/remote/detail/part_ticket.hpp>
#include <feedline/remote/detail/transfers.hpp>
#include <feedline/remote/detail/url.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class remote_read final : public object_read {
 public:
  remote_read(std::shared_ptr<transfers> all, std::shared_ptr<part_ticket> t)
      : all_(std::move(all)), ticket_(std::move(t)) {}

  ~remote_read() override {
    if (!ticket_->is_done()) all_->cancel(*ticket_);
  }

  bool ready() const override { return ticket_->is_done(); }

  object_part get(const std::stop_token& stop) override { return ticket_->get(stop); }

 private:
  const std::shared_ptr<transfers> all_; // a read may outlive the store
  const std::shared_ptr<part_ticket> ticket_;
};

class remote_store final : public object_store {
 public:
  explicit remote_store(const remote_options& options) : options_(checked(options)) {}

  ~remote_store() override { transfers_->close(); }

  bool serves(std::string_view name) const override {
    return has_scheme(name, "http") || has_scheme(name, "https") || has_scheme(name, "s3");
  }

  std::string shown(std::string_view name) const override { return without_secrets(name); }

  std::unique_ptr<object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                    const std::optional<object_info>& expected) override {
    const std::uint64_t most = std::numeric_limits<std::uint64_t>::max() - offset;
    auto t = std::make_shared<part_ticket>(
        name, offset, static_cast<std::size_t>(std::min<std::uint64_t>(count, most)), expected);
    auto handle = std::make_unique<remote_read>(transfers_, t);
    try {
      t->target = target_of(name, s3_, web_);
      t->target.ignores_etag = options_.ignore_etag;
      transfers_->add(t);
    } catch (const object_error& error) {
      t->fail_saying(error.what(), part_problem::of_object);
    }
    return handle;
  }

  std::size_t part_bytes() const override { return options_.part_bytes; }

  std::size_t bytes_ahead() const override { return options_.bytes_ahead; }

  std::string outage() const override { return transfers_->outage(); }

  void metrics(const std::function<void(const char* name, double value)>& out,
               const std::function<void(const char* name, double value)>& total) const override {
    transfers_->metrics(out, total);
  }

 private:
  static const remote_options& checked(const remote_options& o) {
    const auto refuse = [](const std::string& why) {
      throw std::invalid_argument("feedline::remote: " + why);
    };
    constexpr std::size_t most_in_flight = 65'536;
    if (o.in_flight < 1 || o.in_flight > most_in_flight)
      refuse("in_flight is " + size_text(o.in_flight) + ", but must be from 1 to 65,536");
    refuse_negative(o.part_bytes, "feedline::remote: part_bytes");
    refuse_negative(o.bytes_ahead, "feedline::remote: bytes_ahead");
    refuse_negative(o.min_bytes_per_second, "feedline::remote: min_bytes_per_second");
    if (o.part_bytes < 1) refuse("part_bytes is 0, but must be at least 1");
    if (o.bytes_ahead < o.part_bytes)
      refuse("bytes_ahead is " + size_text(o.bytes_ahead) + ", but must be at least part_bytes, " +
             size_text(o.part_bytes));
    if (o.connect_timeout.count() <= 0) refuse("connect_timeout must be positive");
    if (o.stall_timeout.count() <= 0) refuse("stall_timeout must be positive");
    o.retry.check();
    return o;
  }

  const remote_options options_;
  const std::shared_ptr<transfers> transfers_ = std::make_shared<transfers>(options_);
  const s3_settings s3_ = s3_settings::from_environment(options_.anonymous, options_.virtual_hosted);
  const web_secrets web_{options_}; // these end first, as they wake the transfers
};

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::shared_ptr<object_store> remote(remote_options options) {
  return std::make_shared<detail::remote_store>(options);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
