// SPDX-License-Identifier: MIT
#pragma once
// Computes what a composition of sources and stages must yield, one item at a time in one thread, without the
// library's core. Of the library it uses only the keys of random decisions, which define orders.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/permutation.hpp>
#include <feedline/core/random.hpp>

namespace feedline::test {

// Items are numbers, so that batches of them are tensors. An item has the index of the sample (16 bits), the
// epoch and the part (8 bits each), as functions saw them, and a hash of all functions applied to it (32
// bits).

using item = std::uint64_t;

constexpr item make_item(std::uint64_t number) { return number << 48; }

constexpr std::uint64_t number_of(item x) { return x >> 48; }

constexpr item with_epoch(item x, std::uint64_t epoch) {
  return (x & ~(item{0xff} << 40)) | (epoch & 0xff) << 40;
}

constexpr item with_part(item x, std::uint64_t part) {
  return (x & ~(item{0xff} << 32)) | (part & 0xff) << 32;
}

constexpr item mixed(item x, std::uint64_t with) {
  return (x & ~item{0xffffffff}) | (detail::key(x, with) & 0xffffffff);
}

std::string text_of(item x);

// The user's functions.

item mapped(item x, std::uint32_t epoch, random_generator& random);
bool is_kept(item x, std::uint64_t keep, random_generator& random); ///< `keep` 1: keeps none
std::vector<item> parts_of(item x, std::uint64_t most, random_generator& random);
std::size_t length_of(item x);
item mapped_inside(item x, std::uint32_t epoch);    ///< by a stage inside a source, …
bool is_kept_inside(item x);                        ///< … and by another one
std::vector<int> document_of(item x);               ///< a few tokens, none of them 0
item item_of(const int* tokens, std::size_t count); ///< makes an item from a sequence

/// The length of the sequences that a packer makes from documents.
inline constexpr std::size_t packed_length = 6;

/// What a custom stage does with an item, …
enum class own_call {
  passes,      ///< emits it
  counts,      ///< emits it with the number of items before it
  sums,        ///< emits a value made from every three; resets its state before that
  emits_first, ///< the same, but resets its state after that
  delays,      ///< emits the previous item, then holds this one
  repeats,     ///< emits it several times or not at all
  packs,       ///< emits any number of pieces of equal size
};

/// … and at the end of an epoch of finite mode.
enum class own_finish {
  nothing,
  rest,    ///< emits what it holds, if anything
  several, ///< emits several items
  keeps,   ///< emits an item and keeps its state for the next epoch
};

struct own_plan {
  own_call call = own_call::passes;
  own_finish finish = own_finish::nothing;
  bool resets = false; ///< at the end of each epoch; otherwise its state continues
};

/// The stage itself, used by the library's pipelines and by the reference.
class own_behaviour {
 public:
  own_behaviour() = default;

  explicit own_behaviour(const own_plan& plan) : plan_(plan) {}

  void take(item x, auto& emit) {
    switch (plan_.call) {
    case own_call::passes:
      emit(x);
      break;
    case own_call::counts:
      emit(mixed(x, ++count_));
      break;
    case own_call::sums:
      sum_ = mixed(x, sum_);
      if (++count_ % 3 == 0) {
        const item sum = std::exchange(sum_, 0);
        emit(sum);
      }
      break;
    case own_call::emits_first:
      sum_ = mixed(x, sum_);
      if (++count_ >= 3) { // can be more, as finish() counts too
        emit(sum_);
        sum_ = count_ = 0;
      }
      break;
    case own_call::delays:
      if (count_ > 0) emit(mixed(sum_, count_));
      sum_ = x;
      ++count_;
      break;
    case own_call::repeats:
      for (std::uint64_t k = number_of(x) % 4; k > 0; --k) {
        ++count_;
        emit(mixed(x, count_));
        sum_ = mixed(x, sum_);
      }
      break;
    case own_call::packs:
      count_ += number_of(x) % 8;
      for (sum_ = mixed(x, sum_); count_ >= 3; count_ -= 3) {
        emit(sum_);
        sum_ = mixed(sum_, count_);
      }
      break;
    }
  }

  void give_rest(auto& emit) {
    constexpr item none = make_item(0xffff);
    switch (plan_.finish) {
    case own_finish::nothing:
      break;
    case own_finish::rest:
      if (count_ % 3 != 0) emit(mixed(none, sum_));
      reset();
      break;
    case own_finish::several:
      for (std::uint64_t k = count_ % 4 + 1; k > 0; --k) emit(mixed(none, sum_ + k));
      reset();
      break;
    case own_finish::keeps:
      emit(mixed(none, sum_));
      ++count_;
      break;
    }
  }

  void end_epoch() {
    if (plan_.resets) reset();
  }

  void state(auto& archive) { archive(sum_, count_); }

 private:
  void reset() { sum_ = count_ = 0; }

  own_plan plan_;
  item sum_ = 0;
  std::uint64_t count_ = 0;
};

/// What a custom stage does with the samples that it holds.
enum class own_holding {
  exchanges, ///< replaces a random held sample, then emits the old one
  replaces,  ///< the same, but emits before it stores the new sample
  flushes,   ///< emits all, one after another, when it is full
};

// Descriptions.

enum class source_kind {
  list,             ///< from(vector)
  plain,            ///< a custom source with only next()
  stated,           ///< a custom source with state and indices
  placed,           ///< a custom source with only size() and at()
  shuffled_list,    ///< from(vector) | global_shuffle()
  shuffled_indexed, ///< a custom indexed source | global_shuffle()
  shuffled_placed,  ///< placed | global_shuffle()
  replaced,         ///< from(vector) | with_replacement()
  zipped,           ///< zip(stated, list)
  mixed,            ///< mix(stated, list)
  joined,           ///< concat(list, stated)
  composed,         ///< concat(list | map, stated | filter)
  live,             ///< push_source
};

enum class mix_end { stop, go_on, repeat };

struct source_plan {
  source_kind kind = source_kind::list;
  std::uint64_t size = 1;        ///< of the first source
  std::uint64_t second_size = 1; ///< of the second one
  std::uint64_t samples = 1;     ///< drawn with replacement
  double weight = 0.5;           ///< of the first source of a mix
  mix_end end = mix_end::go_on;  ///< what a mix does when one of its sources ends
};

/// The first number of the samples of a second source.
inline constexpr std::uint64_t second_numbers = 10'000;

/// The index of the sample of shuffled_indexed at a position.
constexpr std::uint64_t index_of_place(std::uint64_t place) { return 3 * place + 1; }

/// Whether a sample that the source can't read is identified by its position alone, the same in every epoch.
constexpr bool fails_by_place(source_kind kind) {
  return kind == source_kind::placed || kind == source_kind::shuffled_indexed ||
         kind == source_kind::shuffled_placed;
}

enum class stage_kind {
  map,
  filter,
  flat_map,
  join,   ///< map of a pair
  number, ///< map of an item with its number in the epoch
  enumerate,
  own,
  opaque_own,  ///< a custom stage that doesn't declare its state
  hold,        ///< a custom stage that holds samples
  reservoir,   ///< a custom stage that emits some of an epoch's samples at its end
  document,    ///< map to a list of tokens
  pack,        ///< a custom stage that makes sequences of equal length from documents
  join_tokens, ///< map of a sequence to an item
  shuffle,
  take,
  skip,
  partition,
  batch,
  bucket_batch,
  unbatch, ///< flat_map of a batch
};

struct stage_plan {
  stage_kind kind = stage_kind::map;
  std::uint64_t size = 0; ///< keep, most parts, capacity, count, batch size
  std::uint64_t more = 0; ///< min_fill, tokens
  bool drop_last = false;
  own_plan own{};
  own_holding holding = own_holding::exchanges;
};

/// The runs in which a sample fails. The first run has number 1; resumed runs have 2, 3, …
enum class fault_time {
  always,
  first_run,  ///< it is readable when the run is resumed
  later_runs, ///< it is broken from run 2 on
  hiccup,     ///< in run 2 at the first request, and never again
};

struct fault {
  static constexpr std::uint32_t any_epoch = ~std::uint32_t{0};

  std::size_t place = 0; ///< of the stage that fails, from 1 on; 0: the source
  std::uint64_t number = 0;
  std::uint32_t epoch = any_epoch;
  fault_time time = fault_time::always;
  bool is_outage = false; ///< of a server, so that it ends the run

  /// Whether it strikes in a run in which the sample wasn't requested before.
  bool strikes(int run) const {
    switch (time) {
    case fault_time::always:
      return true;
    case fault_time::first_run:
      return run == 1;
    case fault_time::later_runs:
      return run > 1;
    case fault_time::hiccup:
      return run == 2;
    }
    return false;
  }

  bool is_of(std::size_t at_place, std::uint64_t of_number, std::uint32_t in_epoch) const {
    return place == at_place && number == of_number && (epoch == any_epoch || epoch == in_epoch);
  }
};

/// The message of a failure.
std::string text_of_fault(std::size_t place, std::uint64_t number, std::uint32_t epoch);

enum class rank_rest { drop, wrap, keep };

struct composition {
  std::string shape;
  std::uint64_t seed = 0;
  source_plan source;
  std::vector<stage_plan> stages;
  std::vector<fault> faults;
  bool finite = true;
  std::uint32_t epochs = 1;
  std::optional<std::uint32_t> first_epoch{}; ///< of a finite run
  bool skips[3] = {true, true, true};         ///< on_error of run 1, 2 and 3
  std::size_t failure_limit = 1000;
  std::uint32_t rank = 0, ranks = 1;
  rank_rest rest = rank_rest::drop;
  std::uint64_t grown_size = 0;  ///< of the source from run 2 on; 0: unchanged
  bool parts_are_defined = true; ///< otherwise a second flat_map may number parts as it likes

  bool skips_in(int run) const { return skips[run - 1]; }
};

std::string describe(const composition& c);

// Results.

enum class step_kind { gives, end, error };

/// The result of one call of next().
struct step {
  step_kind kind = step_kind::gives;
  std::vector<std::string> failures; ///< reported before it
  std::vector<std::string> samples;  ///< of the item
  std::string error;

  friend bool operator==(const step&, const step&) = default;
};

std::string to_string(const step& s);

/// The same with further facts that the reference knows.
struct reference_step : step {
  bool over_limit = false; ///< it is an error because of one failure more than the limit
  bool may_fail = false;   ///< an epoch without samples is before it, so an infinite run may fail there
  std::uint32_t epoch = 0; ///< the epoch that the source has reached
  bool ends_epoch = false; ///< … and whether that epoch has no more samples
  /// For each fault: whether its sample was requested before this step, and whether it struck.
  std::vector<bool> asked, struck;
  std::vector<bool> asked_since; ///< … whether it was requested since the previous step
};

/// Where a run is interrupted: after that many items in all, and that many failures since the last of them.
struct cut {
  std::size_t items = 0, failures = 0;

  friend bool operator==(const cut&, const cut&) = default;
};

/// The steps of a run that is interrupted at `left[0]`, resumed, interrupted at `left[1]`, and so on; at most `most` steps.
/// `grown_from` is the first epoch with the new size of a data set
/// that has grown; by default the epoch after the one in which the first run was interrupted.
std::vector<reference_step> reference(const composition& c, std::size_t most,
                                      const std::vector<cut>& left = {},
                                      std::optional<std::uint32_t> grown_from = {});

/// The error of an infinite run that never yields anything.
inline constexpr const char* empty_error = "would never yield anything";

} // namespace feedline::test
