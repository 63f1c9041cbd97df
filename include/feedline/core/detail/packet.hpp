// SPDX-License-Identifier: MIT
#pragma once
// The unit that crosses queues: samples in order and, between them, what happened to the stream.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/sample.hpp>

namespace feedline::detail {

enum class event_kind : unsigned char {
  skipped,   ///< a sample was left out because of its failure; the stream goes on
  epoch_end, ///< the source came to the end of an epoch
  failed,    ///< the stream ends here with the failure
};

/// Something that happened in front of the packet's sample number `position`.
struct event {
  std::size_t position;
  event_kind kind;
  std::uint32_t epoch;                      // that ends, for epoch_end
  std::unique_ptr<feedline::failure> cause; // null for epoch_end
};

/// Queues and threads handle packets without knowing the type of the samples, so that they exist once for all
/// types; only who fills or empties one names it.
class packet {
 public:
  template <class T>
  static std::unique_ptr<packet> make(std::size_t capacity) {
    constexpr std::align_val_t alignment{std::max<std::size_t>(alignof(sample<T>), 64)};
    return std::unique_ptr<packet>(
        new packet(::operator new(capacity * sizeof(sample<T>), alignment), alignment,
                   [](packet& p) noexcept { std::destroy_n(&p.at<T>(0), p.size_); }));
  }

  packet(packet&&) = delete;

  ~packet() {
    clear();
    ::operator delete(samples_, alignment_);
  }

  template <class T>
  void add(sample<T>&& s) noexcept {
    ::new (static_cast<void*>(&at<T>(size_))) sample<T>(std::move(s));
    ++size_;
  }

  void add(event_kind kind, std::uint32_t epoch, std::unique_ptr<feedline::failure> cause) {
    events_.push_back({size_, kind, epoch, std::move(cause)});
  }

  void clear() noexcept {
    destroy_samples_(*this);
    size_ = 0;
    events_.clear();
  }

  std::size_t size() const noexcept { return size_; }

  /// Sample number i, of the type that the packet was made for.
  template <class T>
  sample<T>& at(std::size_t i) noexcept {
    return static_cast<sample<T>*>(samples_)[i];
  }

  std::vector<event>& events() noexcept { return events_; }

  bool ends_epoch() const noexcept {
    return !events_.empty() && events_.back().kind == event_kind::epoch_end;
  }

  std::uint64_t sequence = 0;   ///< place in the order that workers must restore
  std::uint64_t generation = 0; ///< how many ends of epochs came before it in the stream
  std::uint64_t put_at = 0;     ///< when it was pushed, in ns
  bool last = true;             ///< false: more packets of the same sequence follow

 private:
  using destroyer = void (*)(packet&) noexcept;

  packet(void* samples, std::align_val_t alignment, destroyer destroy_samples)
      : samples_(samples), alignment_(alignment), destroy_samples_(destroy_samples) {}

  void* samples_;
  std::size_t size_ = 0;
  std::align_val_t alignment_;
  destroyer destroy_samples_;
  std::vector<event> events_;
};

using packet_ptr = std::unique_ptr<packet>;

/// The most samples that one packet carries: as many small ones as share the cost of a queue well, one large
/// one.
template <class T>
inline constexpr std::size_t packet_limit = std::clamp<std::size_t>(65536 / sizeof(sample<T>), 1, 4096);

} // namespace feedline::detail
