// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/async/detail/flight.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE completions::completions(std::size_t limit) { ended_.reserve(limit); }

FEEDLINE_INLINE void completions::add(const operation_base& o) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.push_back(&o);
  some_ended_.notify_one();
}

FEEDLINE_INLINE void completions::wait() {
  std::unique_lock lock(mutex_);
  some_ended_.wait(lock, [this] { return !ended_.empty(); });
}

FEEDLINE_INLINE void completions::take(std::vector<const operation_base*>& all) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.swap(all);
}

FEEDLINE_INLINE operation_base::operation_base(std::shared_ptr<flight> all, event_loop& loop)
    : flight_(std::move(all)), loop_(loop) {}

FEEDLINE_INLINE void operation_base::announce_to(std::shared_ptr<completions> list) {
  completions_ = std::move(list);
  std::uint32_t state = running;
  // The release pairs with the acquire in finish.
  if (!state_.compare_exchange_strong(state, announced, std::memory_order_acq_rel)) completions_->add(*this);
}

FEEDLINE_INLINE flight::flight(std::size_t limit, const std::stop_token& stop)
    : limit_(limit), stop_(stop), on_stop_(stop, canceller{this}) {}

FEEDLINE_INLINE void flight::drop(operation_base& o) noexcept {
  std::unique_lock lock(mutex_);
  if (o.stage_ == operation_base::stage::in_flight) cancel(o);
  if (o.stage_ != operation_base::stage::due) return;
  remove_due(o);
  lock.unlock();
  o.release(); // it never gets to its loop
}

FEEDLINE_INLINE operation_base* flight::finished(operation_base& o) noexcept {
  const std::lock_guard lock(mutex_);
  (o.before_ ? o.before_->after_ : first_) = o.after_;
  if (o.after_) o.after_->before_ = o.before_;
  o.stage_ = operation_base::stage::ended;
  operation_base* const next = first_due_;
  const std::uint64_t now = note_count(count_ - (next ? 0 : 1));
  times_.add(now - o.began_, 1);
  ++finished_;
  took_ += now - o.began_;
  if (count_ == 0) has_room_.notify_all();
  if (!next) return nullptr;
  remove_due(*next);
  begin(*next, now);
  if (is_stopped_ || &next->loop_ != &o.loop_) {
    launch_on_its_loop(*next);
    return nullptr;
  }
  return next;
}

FEEDLINE_INLINE void flight::join() {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [&] { return count_ == 0; });
}

FEEDLINE_INLINE void flight::canceller::operator()() const noexcept {
  const std::lock_guard lock(self->mutex_);
  self->is_stopped_ = true;
  for (operation_base* o = self->first_; o; o = o->after_) self->cancel(*o);
}

FEEDLINE_INLINE void flight::remove_due(operation_base& o) noexcept {
  (o.before_ ? o.before_->after_ : first_due_) = o.after_;
  (o.after_ ? o.after_->before_ : last_due_) = o.before_;
  if (--due_ == wanted_) has_room_.notify_all();
}

FEEDLINE_INLINE flight_session::flight_session(std::shared_ptr<event_loops> all, std::size_t limit,
                                               const std::stop_token& stop)
    : loops_(std::move(all)), operations_(std::make_shared<flight>(limit, stop)) {
  loops_->enter();
}

FEEDLINE_INLINE flight_session::~flight_session() {
  operations_->join();
  loops_->leave();
}

FEEDLINE_INLINE event_loop& flight_session::next_loop() noexcept { return loops_->next(); }

FEEDLINE_INLINE void flight_report::see(const operation_base& o) {
  if (!operations_) operations_ = o.operations();
}

FEEDLINE_INLINE void operation_base::drop() noexcept {
  if (!is_done()) flight_->drop(*this);
}

FEEDLINE_INLINE void operation_base::throw_if_stopped() const {
  if (flight_->stop_token().stop_requested()) throw asio::system_error(asio::error::operation_aborted);
}

FEEDLINE_INLINE void operation_base::finish() noexcept {
  const std::shared_ptr<flight> all = flight_;
  event_loop& here = loop_;
  operation_base* const next = all->finished(*this);
  const std::uint32_t before = state_.exchange(done, std::memory_order_acq_rel);
  if (before == awaited) unpark(state_, 1);
  if (before == announced) completions_->add(*this);
  release();
  if (next) here.run(next->launching_);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
