// SPDX-License-Identifier: MIT
#pragma once
// Feeds packets into a segment's chain of stages.
#include <cstddef>
#include <utility>

#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/stream_position.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Pushes some of a packet's samples, of type In, through a segment's chain.
template <class In, class Chain>
flow feed_samples(Chain& chain, packet& p, std::size_t begin, std::size_t end, const watch& wanted) {
  In* const values = p.values<In>();
  const id_row ids = p.ids();
  std::size_t& taken = chain.progress().input.items;
  if constexpr (Chain::takes_rows) {
    return chain.push_row({values + begin, values + end}, ids.from(begin), wanted, taken);
  } else {
    bool& is_timed = chain.progress().timed_stages.is_timed;
    is_timed = true; // the first one
    for (std::size_t i = begin; i < end; ++i) {
      flow result = wanted();
      if (result == flow::more) [[likely]] {
        taken = i + 1;
        result = chain.push(sample<In>{std::move(values[i]), ids[i]});
        is_timed = false;
      }
      if (result != flow::more) [[unlikely]]
        return result;
    }
    return flow::more;
  }
}

/// Pushes a packet's samples, of type In, and events through a segment's chain.
template <class In, class Chain>
flow feed(Chain& chain, packet& p, channel_base& from, const run_context& run) {
  stream_position& position = chain.progress().input;
  const bool passes_over_epoch = position.passes_over_epoch();
  position.begin(p, run.may_have_enough);
  // Only if nothing upstream carries samples into the next epoch.
  const bool may_cut_short = run.drain && !chain.is_after_state();
  if (passes_over_epoch && may_cut_short && !position.expects_failures()) from.abandon(p.generation);
  flow wanted = flow::more; // for this packet's samples, which are all of one epoch
  // If a worker has enough, others may still process earlier samples of the same epoch.
  const auto want = [&](flow result) {
    wanted = result;
    if (wanted == flow::enough && !chain.sink().is_worker()) from.abandon(p.generation);
  };
  // The earlier run had already received all that it wanted of this epoch.
  if ((chain.progress().ending != 0 || chain.progress().enough) && !passes_over_epoch) {
    wanted = flow::enough;
    // A stage that had enough declared it, which has an effect only if nothing upstream is kept for later.
    const bool had_enough = chain.progress().enough && !chain.is_after_state();
    if ((may_cut_short || had_enough) && !position.passes_over()) from.abandon(p.generation);
  }
  std::size_t i = position.items;
  for (std::size_t number = position.events; number < p.events().size(); ++number) {
    event& e = p.events()[number];
    if (wanted == flow::more) want(feed_samples<In>(chain, p, i, e.position, {run, from, p.generation}));
    if (wanted == flow::stop) return flow::stop;
    i = e.position;
    flow result = flow::more;
    if (e.kind == event_kind::epoch_end) {
      result = chain.end_epoch({e.epoch, e.samples}, run.drain);
    } else if ((wanted == flow::more &&
                !from.is_abandoned(p.generation)) || // otherwise a run on one thread would not get here
               (!may_cut_short && e.cause->ends_at_once)) {
      if (e.kind == event_kind::skipped) {
        position.events = number + 1;
        result = chain.skipped(std::move(e.cause));
      } else {
        result = chain.fail(std::move(e.cause));
        position.events = number + 1;
        if (result != flow::stop) want(flow::enough);
      }
    }
    if (result == flow::stop) return flow::stop;
  }
  if (wanted == flow::more) want(feed_samples<In>(chain, p, i, p.size(), {run, from, p.generation}));
  if (!chain.sink().is_worker()) position.end(); // a worker's packet carries its snapshot
  return wanted == flow::stop ? flow::stop : flow::more;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
