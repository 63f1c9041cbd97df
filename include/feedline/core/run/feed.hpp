// SPDX-License-Identifier: MIT
#pragma once
// Feeds packets into a segment's chain of stages.
#include <cstddef>
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Pushes the packet's samples from `begin` to `end` into a chain.
using feed_function = flow (*)(void* chain, packet& p, std::size_t begin, std::size_t end,
                               const watch& wanted);

/// A segment's chain of stages as its run sees it, which calls `feed` for each packet.
struct packet_chain {
  packer_base& sink;
  void* chain;
  feed_function feed;
};

/// Pushes a packet's samples and events through the chain.
flow feed(const packet_chain& chain, packet& p, channel_base& from, const run_context& run);

/// Feeds a chain whose first stage receives items of type In.
template <class In, class Chain>
flow feed_chain(void* to, packet& p, std::size_t begin, std::size_t end, const watch& wanted) {
  Chain& chain = *static_cast<Chain*>(to);
  carried<In>* const values = p.values<carried<In>>();
  const sample_ids ids = p.ids();
  segment_progress& progress = chain.sink().progress();
  std::size_t& taken = progress.input.items;
  bool& is_timed = progress.timed_stages.is_timed;
  is_timed = true; // the first one
  if constexpr (Chain::takes_rows && !is_large_item<In>) {
    const std::size_t count = end - begin;
    std::uint64_t made_at = 0;
    return chain.push_row({values + begin, count}, {row_ids(ids).part(begin, count), wanted, taken, made_at});
  } else {
    work_in_hand& at = chain.sink().at();
    for (std::size_t i = begin; i < end; ++i) {
      flow result = wanted();
      if (result == flow::more) [[likely]] {
        taken = i + 1;
        at.begin_sample(ids[i].index);
        result = chain.push(sample<carried<In>>{std::move(values[i]), ids[i]});
        is_timed = false;
      }
      if (result != flow::more) [[unlikely]]
        return result;
    }
    return flow::more;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
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
#endif
