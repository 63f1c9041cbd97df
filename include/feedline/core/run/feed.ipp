// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/feed.hpp>

#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/stream_position.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE flow feed(const packet_chain& chain, packet& p, channel_base& from, const run_context& run) {
  packer_base& sink = chain.sink;
  const segment_progress& progress = sink.progress();
  stream_position& position = sink.progress().input;
  const bool passes_over_epoch = position.passes_over_epoch();
  position.begin(p, run.may_have_enough);
  const bool is_after_state = sink.first_node() && sink.first_node()->is_after_state();
  // Only if nothing upstream carries samples into the next epoch.
  const bool may_cut_short = run.drain && !is_after_state;
  // If a worker has enough, others may still process earlier samples of the same epoch.
  const auto abandon = [&] {
    if (!sink.is_worker()) from.abandon(p.generation);
  };
  if (passes_over_epoch && may_cut_short && !position.expects_failures()) abandon();
  flow wanted = flow::more; // for this packet's samples, which are all of one epoch
  const auto want = [&](flow result) {
    wanted = result;
    if (wanted == flow::enough) abandon();
  };
  // A stage that had enough declared it, which has an effect only if nothing upstream is kept for later.
  const bool had_enough = progress.enough && !is_after_state && !passes_over_epoch;
  // The earlier run had already received all that it wanted of this epoch.
  if ((progress.ending != 0 || progress.enough) && !passes_over_epoch) {
    wanted = flow::enough;
    if ((may_cut_short || had_enough) && !position.passes_over()) abandon();
  }
  std::size_t i = position.items;
  for (std::size_t number = position.events; number < p.events().size(); ++number) {
    event& e = p.events()[number];
    if (wanted == flow::more) want(chain.feed(chain.chain, p, i, e.position, {run, from, p.generation}));
    if (wanted == flow::stop) return flow::stop;
    i = e.position;
    flow result = flow::more;
    if (e.kind == event_kind::epoch_end) {
      result = sink.end_epoch({e.epoch, e.samples}, run.drain);
    } else if ((wanted == flow::more &&
                !from.is_abandoned(p.generation)) || // otherwise a run on one thread would not get here
               (!may_cut_short && !had_enough && e.cause->ends_at_once)) {
      if (e.kind == event_kind::skipped) {
        position.events = number + 1;
        result = sink.skipped(std::move(e.cause));
      } else {
        result = sink.fail(std::move(e.cause));
        position.events = number + 1;
        if (result != flow::stop) want(flow::enough);
      }
    }
    if (result == flow::stop) return flow::stop;
  }
  if (wanted == flow::more) want(chain.feed(chain.chain, p, i, p.size(), {run, from, p.generation}));
  if (!sink.is_worker()) position.end(); // a worker's packet carries its snapshot
  return wanted == flow::stop ? flow::stop : flow::more;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
