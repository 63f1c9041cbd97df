// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/remote_store.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE remote_read::remote_read(std::shared_ptr<transfers> all, std::shared_ptr<part_ticket> t)
    : all_(std::move(all)), ticket_(std::move(t)) {}

FEEDLINE_INLINE remote_read::~remote_read() {
  if (!ticket_->is_done()) all_->cancel(*ticket_);
}

FEEDLINE_INLINE bool remote_read::ready() const { return ticket_->is_done(); }

FEEDLINE_INLINE object_part remote_read::get(const std::stop_token& stop) { return ticket_->get(stop); }

FEEDLINE_INLINE remote_store::~remote_store() { transfers_->close(); }

FEEDLINE_INLINE std::unique_ptr<object_read> remote_store::read(const std::string& name, std::uint64_t offset,
                                                                std::size_t count,
                                                                const std::optional<object_info>& expected) {
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

FEEDLINE_INLINE std::string remote_store::outage() const { return transfers_->outage(); }

FEEDLINE_INLINE void
remote_store::metrics(const std::function<void(const char* name, double value)>& out,
                      const std::function<void(const char* name, double value)>& total) const {
  transfers_->metrics(out, total);
}

FEEDLINE_INLINE const remote_options& remote_store::checked(const remote_options& o) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("feedline::remote: " + why); };
  constexpr std::size_t most_in_flight = 65'536;
  if (o.in_flight < 1 || o.in_flight > most_in_flight)
    refuse("in_flight is " + size_text(o.in_flight) + ", but must be from 1 to 65,536");
  refuse_negative(o.part_bytes, "feedline::remote: part_bytes");
  refuse_negative(o.bytes_ahead, "feedline::remote: bytes_ahead");
  if (o.part_bytes < 1) refuse("part_bytes is 0, but must be at least 1");
  if (o.bytes_ahead < o.part_bytes)
    refuse("bytes_ahead is " + size_text(o.bytes_ahead) + ", but must be at least part_bytes, " +
           size_text(o.part_bytes));
  if (o.connect_timeout.count() <= 0) refuse("connect_timeout must be positive");
  if (o.stall_timeout.count() <= 0) refuse("stall_timeout must be positive");
  o.retry.check();
  return o;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::shared_ptr<object_store> remote(remote_options options) {
  return std::make_shared<detail::remote_store>(options);
}

} // namespace feedline::inline FEEDLINE_ABI
