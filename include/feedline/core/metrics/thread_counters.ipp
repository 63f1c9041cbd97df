// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/metrics/thread_counters.hpp>

#include <sched.h>

namespace feedline::inline FEEDLINE_ABI::detail {

struct user_numbers::kept_number {
  std::string name;
  bool adds_up;
  double total = 0;
  gauge_counter gauge{};
};

FEEDLINE_INLINE void user_numbers::count(std::string_view name, std::uint64_t times) {
  const std::lock_guard lock(mutex_);
  find(name, true).total += static_cast<double>(times);
}

FEEDLINE_INLINE void user_numbers::set(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  find(name, false).gauge.set(value);
}

FEEDLINE_INLINE void user_numbers::set_total(std::string_view name, double value) {
  const std::lock_guard lock(mutex_);
  find(name, true).total = value;
}

FEEDLINE_INLINE void user_numbers::report_to(std::vector<number>& all) {
  const std::lock_guard lock(mutex_);
  for (const auto& kept : all_) {
    auto same = std::find_if(all.begin(), all.end(), [&](const number& n) {
      return n.adds_up == kept->adds_up && n.name == kept->name;
    });
    if (same == all.end()) same = all.insert(all.end(), {kept->name, kept->adds_up});
    same->total += kept->total;
    same->gauge.add(kept->gauge.report());
  }
}

FEEDLINE_INLINE user_numbers::kept_number& user_numbers::find(std::string_view name, bool adds_up) {
  for (const auto& kept : all_)
    if (kept->adds_up == adds_up && kept->name == name) return *kept;
  return *all_.emplace_back(std::shared_ptr<kept_number>(new kept_number{std::string(name), adds_up}));
}

FEEDLINE_INLINE thread_counters::thread_counters(std::size_t stage_count, std::size_t number_among_workers)
    : number(number_among_workers), stages(stage_count) {
  for (stage_counters& s : stages) s.thread = this;
}

FEEDLINE_INLINE worker_times read_times(const thread_counters& a, std::uint64_t until) noexcept {
  const std::uint64_t began = a.began.load(std::memory_order_relaxed);
  if (began == 0) return {};
  std::array<std::uint64_t, wait_kinds> waited{};
  std::uint64_t now = 0;
  for (int left = 1000; left > 0;
       --left) { // a thread that lost its processor in the middle isn't waited for long
    const std::uint64_t changes = a.changes.load(std::memory_order_acquire);
    for (std::size_t kind = 0; kind < waited.size(); ++kind)
      waited[kind] = a.waits[kind].load(std::memory_order_acquire);
    const std::uint64_t waiting = a.waiting.load(std::memory_order_acquire);
    now = until != 0 ? until : now_ns();
    if (const std::uint64_t begin = waiting >> 3; now > begin && begin > 0)
      waited[waiting & 7] += now - begin;
    if (changes % 2 == 0 && changes == a.changes.load(std::memory_order_relaxed)) break;
    if (left % 32 == 0) ::sched_yield(); // it may have lost its processor to this thread
  }
  const std::uint64_t ended = a.ended.load(std::memory_order_relaxed);
  const auto of = [&](wait_kind kind) { return waited[static_cast<std::size_t>(kind)]; };
  const std::uint64_t alive = std::max(ended ? ended : now, began) - began;
  return {alive - std::min(alive, of(wait_kind::parked)),
          of(wait_kind::starved),
          of(wait_kind::blocked),
          of(wait_kind::inside),
          of(wait_kind::throttled),
          0};
}

FEEDLINE_INLINE void worker_times::continue_from(const worker_times& before) noexcept {
  constexpr std::uint64_t worker_times::*kinds[] = {&worker_times::starved, &worker_times::blocked,
                                                    &worker_times::inside, &worker_times::throttled};
  alive = std::max(alive, before.alive);
  for (const auto kind : kinds) this->*kind = std::max(this->*kind, before.*kind);
  for (const auto kind : kinds)
    if (busy() < before.busy()) this->*kind -= std::min(this->*kind - before.*kind, before.busy() - busy());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
