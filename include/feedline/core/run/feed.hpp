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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/feed.ipp>
#endif
