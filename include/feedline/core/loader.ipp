// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/loader.hpp>

#include <stdexcept>
#include <utility>

#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/core/run/run_link.hpp>
#include <feedline/core/run/waiting_for.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

FEEDLINE_INLINE owned_run::owned_run(std::shared_ptr<pipeline_run> planned)
    : run(std::move(planned)), at(*run), link(std::make_shared<run_link>(at)) {
  run->start();
}

FEEDLINE_INLINE owned_run::~owned_run() { link->end(); }

} // namespace detail

FEEDLINE_INLINE run_handle::run_handle(run_handle&&) noexcept = default;

FEEDLINE_INLINE run_handle& run_handle::operator=(run_handle&&) noexcept = default;

FEEDLINE_INLINE run_handle::~run_handle() = default;

FEEDLINE_INLINE void run_handle::stop() {
  if (owned_) owned_->run->stop();
}

FEEDLINE_INLINE void run_handle::close() {
  if (owned_) owned_->run->close();
}

FEEDLINE_INLINE bool run_handle::stopped() const { return !owned_ || owned_->run->stopped(); }

FEEDLINE_INLINE run_state run_handle::state() const {
  if (owned_ && (owned_->at.failed || owned_->run->panic())) return run_state::failed;
  if (stopped()) return run_state::stopped;
  return owned_->at.spent ? run_state::finished : run_state::running;
}

FEEDLINE_INLINE const std::vector<failure>& run_handle::failures() const {
  static const std::vector<failure> none;
  return owned_ ? owned_->at.failures->last() : none;
}

FEEDLINE_INLINE const std::vector<failure_count>& run_handle::failure_counts() const {
  static const std::vector<failure_count> none;
  return owned_ ? owned_->at.failures->counts() : none;
}

FEEDLINE_INLINE metrics run_handle::metrics() {
  return owned_ ? owned_->at.collector->report(*owned_->run, owned_->at.consumer, *owned_->at.failures)
                : feedline::metrics{};
}

FEEDLINE_INLINE std::string run_handle::waiting_for() const {
  return owned_ ? detail::find_wait(*owned_->run).to_string() : "nothing: the loader has no run";
}

FEEDLINE_INLINE memory_plan run_handle::memory() const {
  return owned_ ? owned_->run->memory() : memory_plan{};
}

FEEDLINE_INLINE std::uint64_t run_handle::digest() const { return owned_ ? owned_->at.digest.value() : 0; }

FEEDLINE_INLINE bool run_handle::can_be_resumed() const { return owned_ && owned_->run->has_checkpoints(); }

FEEDLINE_INLINE checkpoint run_handle::checkpoint() const {
  if (!owned_) throw std::logic_error("feedline: a loader that was moved from has no checkpoint");
  const detail::pipeline_run& run = *owned_->run;
  if (!run.has_checkpoints())
    throw std::logic_error(
        "feedline: a run with unordered workers or stages, a queue that drops samples or a live "
        "source can't be resumed");
  return owned_->at.checkpoint();
}

FEEDLINE_INLINE void run_handle::refuse_spent() const {
  if (state() == run_state::finished)
    throw std::logic_error(
        "feedline: the run of this loader has ended: start another run with finite() or infinite() for "
        "another pass over the data");
}

} // namespace feedline::inline FEEDLINE_ABI
