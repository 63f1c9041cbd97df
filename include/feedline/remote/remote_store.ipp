// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/remote_store.hpp>

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
