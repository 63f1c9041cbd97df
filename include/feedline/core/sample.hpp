// SPDX-License-Identifier: MIT
#pragma once
// The items of a pipeline, values with their identities, and the context of a user's function.
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The sample that a value was made from: the same in every epoch, with any number of workers.
struct sample_id {
  static constexpr std::uint64_t no_index = ~std::uint64_t{0}; ///< no sample

  std::uint64_t index = no_index; ///< the source's index of the sample, unique over all its files
  std::uint64_t sub_index = 0;    ///< which of the items that were made from it, as by flat_map
  std::uint32_t epoch = 0;        ///< the epoch in which the source yielded it, from 0
  /// Tells apart the times that the epoch has this sample: with_replacement() numbers its draws, mix() the passes over a
  /// source that it repeats. 0 where a source yields each sample once.
  std::uint32_t repetition = 0;

  friend auto operator<=>(const sample_id&, const sample_id&) = default;
};

/// The identities of samples, in their order: a range with random access, whose elements are sample_ids by value. It doesn't own
/// them.
class sample_ids {
 public:
  using value_type = sample_id; ///< of its elements

  class iterator;

  sample_ids() = default;

  /// `size` samples whose indices count up from that of `first`, and which share the rest of its identity.
  sample_ids(const sample_id& first, std::size_t size) noexcept : common_(first), size_(size) {}

  /// Samples with these indices, which share the rest of an identity. The list must outlive it, …
  sample_ids(const sample_id& common, std::span<const std::uint64_t> indices) noexcept
      : common_(common), indices_(indices.data()), size_(indices.size()) {}

  /// … and so must this one.
  explicit sample_ids(std::span<const sample_id> listed) noexcept
      : listed_(listed.data()), size_(listed.size()) {}

  /// How many there are.
  std::size_t size() const noexcept { return size_; }

  /// Whether there are none.
  bool empty() const noexcept { return size_ == 0; }

  /// The identity of sample number i, which must be less than size().
  sample_id operator[](std::size_t i) const noexcept {
    if (listed_) return listed_[i];
    sample_id id = common_;
    id.index = indices_ ? indices_[i] : id.index + i;
    return id;
  }

  /// The first one.
  sample_id front() const noexcept { return (*this)[0]; }

  /// The last one.
  sample_id back() const noexcept { return (*this)[size_ - 1]; }

  /// Those from number `begin` on, at most `count` of them.
  sample_ids subrange(std::size_t begin, std::size_t count = std::size_t(-1)) const noexcept {
    sample_ids part = *this;
    if (listed_) part.listed_ += begin;
    else if (indices_) part.indices_ += begin;
    else part.common_.index += begin;
    part.size_ = std::min(count, size_ - begin);
    return part;
  }

  /// Whether they are known to differ in the index only.
  bool differ_in_index() const noexcept { return !listed_; }

  /// Whether their indices are known to count up, and nothing else to differ.
  bool count_up() const noexcept { return !listed_ && !indices_; }

  /// The place of the first one.
  inline iterator begin() const noexcept;

  /// The place behind the last one.
  inline iterator end() const noexcept;

  /// Whether both are the same identities in the same order.
  friend bool operator==(const sample_ids& a, const sample_ids& b) noexcept {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  sample_id common_; // what they have in common; without `indices_` also the first index
  const std::uint64_t* indices_ = nullptr;
  const sample_id* listed_ = nullptr; // instead of the two above
  std::size_t size_ = 0;
};

/// The place of an identity in a sample_ids, which it must not outlive what that refers to.
class sample_ids::iterator {
 public:
  ///@{
  /// For std::iterator_traits.
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;
  using value_type = sample_id;
  using difference_type = std::ptrdiff_t;
  using reference = sample_id;
  using pointer = void;

  ///@}

  iterator() = default;

  ///@{
  /// As of every iterator with random access.
  sample_id operator*() const noexcept { return of_[at_]; }

  sample_id operator[](std::ptrdiff_t n) const noexcept { return *(*this + n); }

  iterator& operator+=(std::ptrdiff_t n) noexcept {
    at_ += static_cast<std::size_t>(n);
    return *this;
  }

  iterator& operator-=(std::ptrdiff_t n) noexcept { return *this += -n; }

  iterator& operator++() noexcept { return *this += 1; }

  iterator& operator--() noexcept { return *this -= 1; }

  iterator operator++(int) noexcept {
    iterator before = *this;
    ++*this;
    return before;
  }

  iterator operator--(int) noexcept {
    iterator before = *this;
    --*this;
    return before;
  }

  friend iterator operator+(iterator i, std::ptrdiff_t n) noexcept { return i += n; }

  friend iterator operator+(std::ptrdiff_t n, iterator i) noexcept { return i += n; }

  friend iterator operator-(iterator i, std::ptrdiff_t n) noexcept { return i -= n; }

  friend std::ptrdiff_t operator-(const iterator& a, const iterator& b) noexcept {
    return static_cast<std::ptrdiff_t>(a.at_ - b.at_);
  }

  friend bool operator==(const iterator& a, const iterator& b) noexcept { return a.at_ == b.at_; }

  friend auto operator<=>(const iterator& a, const iterator& b) noexcept { return a.at_ <=> b.at_; }

  ///@}

 private:
  friend class sample_ids;

  iterator(const sample_ids& of, std::size_t at) noexcept : of_(of), at_(at) {}

  sample_ids of_;
  std::size_t at_ = 0;
};

inline sample_ids::iterator sample_ids::begin() const noexcept { return {*this, 0}; }

inline sample_ids::iterator sample_ids::end() const noexcept { return {*this, size_}; }

/// A value and its identity. Stages that hold items back or change their order receive and emit these.
template <class T>
struct sample {
  T value;      ///< the item
  sample_id id; ///< the sample that it was made from
};

/// The second argument of a function `(item, context)`. Two calls for the same sample, epoch, seed and stage
/// see the same numbers, whichever worker makes them.
struct context {
  std::uint64_t index;         ///< as in sample_id
  std::uint64_t sub_index;     ///< as in sample_id
  std::uint32_t epoch;         ///< as in sample_id
  random_generator random;     ///< for this call, keyed by (seed, stage, sample_id)
  const std::stop_token& stop; ///< a long call should return when it is requested; valid during the call
  detail::stage_counters* counters = nullptr; ///< the run's
  std::uint32_t repetition = 0;               ///< as in sample_id

  /// Adds to a counter with that name, which metrics() reports with the stage's counters.
  void count(std::string_view name, std::uint64_t times = 1) const {
    if (counters) counters->numbers.count(name, times);
  }

  /// Sets a gauge with that name, which metrics() reports in the same way. Each worker has its own, and they are added up.
  void gauge(std::string_view name, double value) const {
    if (counters) counters->numbers.set(name, value);
  }

  /// While the returned object exists, the thread counts as waiting, not as busy: for a disk or a network,
  /// say. Only one object at a time.
  std::optional<detail::wait_timer> waiting() const {
    if (!counters) return std::nullopt;
    return std::optional<detail::wait_timer>(std::in_place, *counters->thread, detail::wait_kind::inside);
  }

  /// The sample.
  sample_id id() const noexcept { return {index, sub_index, epoch, repetition}; }
};

namespace detail {

/// Whether an item is a batch, made from several samples.
template <class T>
inline constexpr bool comes_in_batches = requires { typename T::feedline_batch; };

/// The identity of item k of those that a stage makes from one sample. If several stages do so, the parts are
/// hashes: two parts of a sample are equal with a probability of 2^-64.
inline sample_id part_of(sample_id id, std::uint64_t k) noexcept {
  id.sub_index = id.sub_index == 0 ? k : key(id.sub_index, k);
  return id;
}

/// How a stage names what it makes of a sample where part_of() alone won't do: some of its items keep the identity of their
/// sample, and if that is a part already, the plain number of another item may be its identity too.
struct part_names {
  std::uint64_t place = 0; ///< tells the stage from all others of the pipeline
  bool of_parts = false;   ///< what the stage receives may be parts already

  /// The identity of item k of a sample, of which the first keeps that of the sample.
  sample_id part_of(const sample_id& id, std::uint64_t k) const noexcept {
    return k == 0 ? id : made_inside(id, detail::part_of(id, k));
  }

  /// The identity of an item that stages inside this one made of sample `whole`, and named.
  sample_id made_inside(const sample_id& whole, sample_id id) const noexcept {
    if (of_parts && id.sub_index != whole.sub_index) id.sub_index = key(place, id.sub_index);
    return id;
  }
};

inline context make_context(const sample_id& id, std::uint64_t stage_key, const std::stop_token& stop,
                            stage_counters* counters = nullptr) {
  const std::uint64_t pass = std::uint64_t{id.repetition} << 32 | id.epoch;
  return {
      id.index, id.sub_index, id.epoch,     random_generator(key(stage_key, pass, id.index, id.sub_index)),
      stop,     counters,     id.repetition};
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
