// SPDX-License-Identifier: MIT
#pragma once
// What a composition of sources and stages must give, worked out one item at a time in one thread, without the
// library's core: of the library it uses the keys of random decisions alone, which are the definition of orders.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/permutation.hpp>
#include <feedline/core/random.hpp>

namespace feedline::test {

// Items. They are numbers, so that batches of them are tensors: which sample (16 bits), epoch and part (8 bits
// each) as functions saw them, and a hash of all that was made of it (32 bits).

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

// What the user's functions do.

item mapped(item x, std::uint32_t epoch, random_generator& random);
bool is_kept(item x, std::uint64_t keep, random_generator& random); ///< `keep` 1: none is
std::vector<item> parts_of(item x, std::uint64_t most, random_generator& random);
std::size_t length_of(item x);
std::vector<int> document_of(item x);               ///< a few tokens, none of them 0
item item_of(const int* tokens, std::size_t count); ///< of a sequence

/// The tokens of a sequence that a packer makes of documents.
inline constexpr std::size_t packed_length = 6;

/// What a stage of a user's own does with an item, …
enum class own_call {
  passes,      ///< hands it on
  counts,      ///< hands it on with how many came before
  sums,        ///< gives what every three together make; its state is reset before it is given
  emits_first, ///< the same, reset after that
  delays,      ///< gives the item before, then remembers this one
  repeats,     ///< gives it several times or not at all
  packs,       ///< gives any number of pieces of equal size
};

/// … and at the end of an epoch of finite mode.
enum class own_finish {
  nothing,
  rest,    ///< gives what it has, if anything
  several, ///< gives several items
  keeps,   ///< gives an item, and goes on with the same state in the next epoch
};

struct own_plan {
  own_call call = own_call::passes;
  own_finish finish = own_finish::nothing;
  bool resets = false; ///< at the end of each epoch; else its state goes on through them
};

/// The stage itself, in the library's pipelines and in the reference alike.
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
      if (++count_ >= 3) { // more: finish() counts, too
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

/// What a stage of a user's own that holds samples does with them.
enum class own_holding {
  exchanges, ///< gives the one in a random place, where the new one then lies
  replaces,  ///< the same, but gives it before the new one has a place
  flushes,   ///< gives all of them, one after another, when it is full
};

// Descriptions.

enum class source_kind {
  list,             ///< from(vector)
  plain,            ///< of a user's own: next() and nothing else
  stated,           ///< of a user's own, with a state and indices
  placed,           ///< of a user's own: size() and at() and nothing else
  shuffled_list,    ///< from(vector) | shuffled()
  shuffled_indexed, ///< of a user's own with places | shuffled()
  shuffled_placed,  ///< placed | shuffled()
  replaced,         ///< from(vector) | with_replacement()
  zipped,           ///< zip(stated, list)
  mixed,            ///< mix(stated, list)
  joined,           ///< concat(list, stated)
};

struct source_plan {
  source_kind kind = source_kind::list;
  std::uint64_t size = 1;        ///< of the first source
  std::uint64_t second_size = 1; ///< of the second one
  std::uint64_t samples = 1;     ///< drawn with replacement
  double weight = 0.5;           ///< of the first source of a mix
  bool stops = false;            ///< a mix, when one of its sources ends
};

/// The samples of a second source have numbers of their own.
inline constexpr std::uint64_t second_numbers = 10'000;

/// Where the index of a sample of shuffled_indexed comes from.
constexpr std::uint64_t index_of_place(std::uint64_t place) { return 3 * place + 1; }

/// Whether a sample that the source can't read is known by its place alone, the same in every epoch.
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
  opaque_own,  ///< one that says nothing of its state
  hold,        ///< one that holds samples
  reservoir,   ///< one that gives some of an epoch's samples at its end
  document,    ///< map to a list of tokens
  pack,        ///< a stage of a user's own that makes sequences of equal length of documents
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

/// In which runs a sample fails: a run that is resumed is number 1, then 2, …
enum class fault_time {
  always,
  first_run,  ///< it has healed when the run is resumed
  later_runs, ///< it is broken since
  hiccup,     ///< in run 2 when it is first asked for, and never again
};

struct fault {
  static constexpr std::uint32_t any_epoch = ~std::uint32_t{0};

  std::size_t place = 0; ///< of the stage that fails, 1 being the first one; 0: the source
  std::uint64_t number = 0;
  std::uint32_t epoch = any_epoch;
  fault_time time = fault_time::always;

  /// Whether it strikes in that run, if the sample wasn't asked for before in it.
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
  bool skips[3] = {true, true, true}; ///< on_error of run 1, 2 and 3
  std::size_t failure_limit = 1000;
  std::uint32_t rank = 0, ranks = 1;
  rank_rest rest = rank_rest::drop;
  std::uint64_t grown_size = 0;  ///< of the source from run 2 on; 0: as before
  bool parts_are_defined = true; ///< else a second flat_map makes of parts what it likes

  bool skips_in(int run) const { return skips[run - 1]; }
};

std::string describe(const composition& c);

/// Whether what comes out are the samples that go in, each by itself.
bool keeps_samples(const composition& c);

// Results.

enum class step_kind { gives, end, error };

/// What one call of next() gives.
struct step {
  step_kind kind = step_kind::gives;
  std::vector<std::string> failures; ///< told before it
  std::vector<std::string> samples;  ///< of the item
  std::string error;

  friend bool operator==(const step&, const step&) = default;
};

std::string to_string(const step& s);

/// The same with what the reference knows of it.
struct reference_step : step {
  bool drained = false;    ///< it was given because of a failure,
  bool over_limit = false; ///< … one more than the limit
  bool may_fail = false;   ///< an epoch without any sample came before it: an infinite run may give up there
  std::uint32_t epoch = 0; ///< to which the source had come
  bool ends_epoch = false; ///< … and it has nothing more in it
  /// Of each fault: whether it was asked for before this step was given, and whether it struck.
  std::vector<bool> asked, struck;
  std::vector<bool> asked_since; ///< … whether it was asked for since the step before
};

/// What a run gives that is left after so many items, `left[0]`, then resumed, left after `left[1]` items in
/// all, and so on; up to `most` items. `grown_from`: the first epoch in which a data set that has grown has its
/// new size; by default the one after that in which the first run was left.
std::vector<reference_step> reference(const composition& c, std::size_t most,
                                      const std::vector<std::size_t>& left = {},
                                      std::optional<std::uint32_t> grown_from = {});

/// The error of an infinite run that never yields anything.
inline constexpr const char* empty_error = "would never yield anything";

} // namespace feedline::test
