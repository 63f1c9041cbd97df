// SPDX-License-Identifier: MIT
#pragma once
// Feeds packets into a segment's chain of stages.
#include <cstddef>
#include <cstdint>
#include <utility>

#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/packer.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A segment's chain of stages as its run sees it, which calls it for each packet or end of an epoch, but not for each item.
class segment_chain {
 public:
  explicit segment_chain(packer_base& sink) noexcept : sink_(sink) {}

  segment_chain(segment_chain&&) = delete;

  packer_base& sink() const noexcept { return sink_; }

  /// See node.
  virtual void publish() noexcept = 0;

 protected:
  ~segment_chain() = default;

  virtual flow end_epoch(const epoch_end& e, bool drain) = 0;

 private:
  packer_base& sink_;
};

/// A chain that packets are fed into.
class packet_chain : public segment_chain {
 public:
  /// `is_after_state`: see stage_place.
  packet_chain(packer_base& sink, bool is_after_state) noexcept
      : segment_chain(sink), is_after_state_(is_after_state) {}

  /// See node.
  virtual void begin_packet(std::uint64_t first_place) = 0;

  /// Pushes a packet's samples and events through the chain.
  flow feed(packet& p, channel_base& from, const run_context& run);

 protected:
  ~packet_chain() = default;

 private:
  // Pushes some of a packet's samples.
  virtual flow feed_samples(packet& p, std::size_t begin, std::size_t end, const watch& wanted) = 0;

  bool is_after_state_;
};

/// The same for a chain whose first stage receives items of type In.
template <class In, class Chain>
class packet_chain_of final : public packet_chain {
 public:
  explicit packet_chain_of(Chain& chain) noexcept
      : packet_chain(chain.sink(), chain.is_after_state()), chain_(chain) {}

  void begin_packet(std::uint64_t first_place) override { chain_.begin_packet(first_place); }

  void publish() noexcept override { chain_.publish(); }

 private:
  flow feed_samples(packet& p, std::size_t begin, std::size_t end, const watch& wanted) override {
    In* const values = p.values<In>();
    const id_row ids = p.ids();
    std::size_t& taken = chain_.progress().input.items;
    if constexpr (Chain::takes_rows) {
      return chain_.push_row({values + begin, values + end}, ids.from(begin), wanted, taken);
    } else {
      bool& is_timed = chain_.progress().timed_stages.is_timed;
      is_timed = true; // the first one
      for (std::size_t i = begin; i < end; ++i) {
        flow result = wanted();
        if (result == flow::more) [[likely]] {
          taken = i + 1;
          result = chain_.push(sample<In>{std::move(values[i]), ids[i]});
          is_timed = false;
        }
        if (result != flow::more) [[unlikely]]
          return result;
      }
      return flow::more;
    }
  }

  flow end_epoch(const epoch_end& e, bool drain) override { return chain_.end_epoch(e, drain); }

  Chain& chain_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/feed.ipp>
#endif
