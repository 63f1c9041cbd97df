// SPDX-License-Identifier: MIT
#include "support/reference.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <initializer_list>
#include <set>
#include <stdexcept>

namespace feedline::test {

using detail::key;

std::string text_of(item x) {
  return std::to_string(number_of(x)) + "@" + std::to_string(x >> 40 & 0xff) + "/" +
         std::to_string(x >> 32 & 0xff) + "#" + std::to_string(x & 0xffffffff);
}

item mapped(item x, std::uint32_t epoch, random_generator& random) {
  return mixed(with_epoch(x, epoch), random.below(16));
}

bool is_kept(item x, std::uint64_t keep, random_generator& random) {
  return (number_of(x) + random.below(2)) % keep != 0;
}

std::vector<item> parts_of(item x, std::uint64_t most, random_generator& random) {
  std::vector<item> parts(random.below(most + 1), x);
  for (std::size_t k = 0; k < parts.size(); ++k) parts[k] = mixed(with_part(x, k), k);
  return parts;
}

item mapped_inside(item x, std::uint32_t epoch) { return mixed(with_epoch(x, epoch), 7); }

bool is_kept_inside(item x) { return number_of(x) % 3 != 0; }

std::size_t length_of(item x) { return static_cast<std::size_t>(x % 20); }

std::vector<int> document_of(item x) {
  std::vector<int> tokens(number_of(x) % 15);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int>(1 + key(x, i) % 1000);
  return tokens;
}

item item_of(const int* tokens, std::size_t count) {
  item x = make_item(0xfffe);
  for (std::size_t i = 0; i < count; ++i) x = mixed(x, static_cast<std::uint64_t>(tokens[i]));
  return x;
}

std::string text_of_fault(std::size_t place, std::uint64_t number, std::uint32_t epoch) {
  const std::string in = epoch == fault::any_epoch ? "any" : std::to_string(epoch);
  return "fault " + std::to_string(number) + "@" + in + " at stage " + std::to_string(place);
}

namespace {

/// A sample between two stages, or a batch of samples.
struct packed {
  item value = 0;
  item second = 0; // the second value of a pair
  std::uint64_t index = ~std::uint64_t{0};
  std::uint64_t part = 0;
  std::uint32_t epoch = 0;
  std::uint32_t repetition = 0;
  std::uint64_t number = 0; // set by enumerate
  std::vector<int> tokens;  // of a document or a sequence
  std::vector<packed> batch;
  bool is_batch = false;
};

/// The next sample of a source, or its failure.
struct entry {
  static constexpr std::uint64_t counted = ~std::uint64_t{0};

  packed value;
  std::uint64_t fault_number = ~std::uint64_t{0};
};

struct struck {
  std::string text;
  bool is_outage;
};

/// Thrown when the run is over.
struct over {};

std::uint64_t drawn(std::uint64_t places, std::uint64_t order_key, std::uint64_t i) {
  return random_generator(key(order_key, i)).below(places);
}

/// All samples of an epoch, over all ranks.
std::vector<entry> entries_of(const source_plan& s, std::uint64_t seed, std::uint32_t epoch) {
  std::vector<entry> all;
  const auto add = [&](item value, std::uint64_t index, std::uint64_t fault_number = ~std::uint64_t{0}) {
    entry e;
    e.value.value = value;
    e.value.index = index;
    e.value.epoch = epoch;
    e.fault_number = fault_number;
    all.push_back(e);
  };
  const auto own = [&](std::uint64_t number) { return with_epoch(make_item(number), epoch); };
  const std::uint64_t order_key = key(seed, epoch);
  switch (s.kind) {
  case source_kind::list:
  case source_kind::live:
    for (std::uint64_t i = 0; i < s.size; ++i) add(make_item(i), i);
    break;
  case source_kind::plain:
    for (std::uint64_t i = 0; i < s.size; ++i) add(make_item(i), entry::counted, i);
    break;
  case source_kind::stated:
    for (std::uint64_t i = 0; i < s.size; ++i) add(own(i), i, i);
    break;
  case source_kind::placed:
    for (std::uint64_t i = 0; i < s.size; ++i) add(make_item(i), i, i);
    break;
  case source_kind::shuffled_list:
  case source_kind::shuffled_indexed:
  case source_kind::shuffled_placed: {
    const permutation order(s.size, order_key);
    for (std::uint64_t i = 0; i < s.size; ++i)
      add(make_item(order[i]), s.kind == source_kind::shuffled_indexed ? index_of_place(order[i]) : order[i],
          s.kind == source_kind::shuffled_list ? ~std::uint64_t{0} : order[i]);
    break;
  }
  case source_kind::replaced:
    for (std::uint64_t i = 0; i < s.samples; ++i) {
      const std::uint64_t place = drawn(s.size, order_key, i);
      add(make_item(place), place);
      all.back().value.repetition = static_cast<std::uint32_t>(i);
    }
    break;
  case source_kind::zipped:
    for (std::uint64_t i = 0; i < std::min(s.size, s.second_size); ++i) {
      add(own(i), i, i);
      all.back().value.second = make_item(second_numbers + i);
    }
    break;
  case source_kind::mixed: {
    std::uint64_t next[2] = {0, 0};
    const std::uint64_t sizes[2] = {s.size, s.second_size};
    std::uint32_t passes[2] = {0, 0};
    bool ended[2] = {false, false}, ended_once[2] = {false, false};
    const auto is_over = [&] {
      if (s.end == mix_end::stop) return ended[0] || ended[1];
      return ended_once[0] && ended_once[1];
    };
    for (std::uint64_t choice = 0; !is_over(); ++choice) {
      const double first = ended[0] ? 0 : s.weight;
      const double sum = first + (ended[1] ? 0 : 1 - s.weight);
      const double place = sum * random_generator(key(seed, epoch, choice)).uniform();
      const std::size_t chosen = ended[1] || place < first ? 0 : 1;
      if (next[chosen] == sizes[chosen]) {
        ended_once[chosen] = true;
        ended[chosen] = s.end != mix_end::repeat || is_over() || sizes[chosen] == 0;
        if (ended[chosen]) continue;
        next[chosen] = 0;
        ++passes[chosen];
      }
      const std::uint64_t i = next[chosen]++;
      if (chosen == 0) add(own(i), i, i);
      else add(make_item(second_numbers + i), std::uint64_t{1} << 56 | i);
      all.back().value.repetition = passes[chosen];
    }
    break;
  }
  case source_kind::joined:
    for (std::uint64_t i = 0; i < s.size; ++i) add(make_item(i), i);
    for (std::uint64_t i = 0; i < s.second_size; ++i)
      add(own(second_numbers + i), std::uint64_t{1} << 56 | i, second_numbers + i);
    break;
  case source_kind::composed:
    for (std::uint64_t i = 0; i < s.size; ++i) add(mapped_inside(make_item(i), epoch), i, i);
    for (std::uint64_t i = 0; i < s.second_size; ++i)
      if (const item x = own(second_numbers + i); is_kept_inside(x))
        add(x, std::uint64_t{1} << 56 | i, second_numbers + i);
    break;
  }
  return all;
}

bool splits_samples_by_rank(source_kind kind) {
  return kind == source_kind::shuffled_list || kind == source_kind::shuffled_indexed ||
         kind == source_kind::shuffled_placed || kind == source_kind::replaced;
}

class walk {
 public:
  walk(const composition& c, std::size_t most, const std::vector<cut>& left,
       std::optional<std::uint32_t> grown_from)
      : c_(c), most_(most), left_(left), grown_from_(grown_from), states_(c.stages.size()) {
    for (std::size_t i = 0; i < states_.size(); ++i) {
      states_[i].own = own_behaviour(c.stages[i].own);
      states_[i].left = c.stages[i].size;
      states_[i].buckets.resize(3);
      states_[i].rounds = first_epoch();
    }
  }

  std::vector<reference_step> run() {
    begin_next_run();
    try {
      for (std::uint32_t epoch = first_epoch(); !c_.finite || epoch < first_epoch() + c_.epochs; ++epoch)
        run_epoch(epoch);
      next_.kind = step_kind::end;
      add_step();
    } catch (const over&) {
    }
    return std::move(steps_);
  }

 private:
  struct stage_state {
    own_behaviour own;
    std::uint64_t left = 0;        // samples left for take and skip
    std::uint64_t number = 0;      // of the sample in the epoch
    std::uint64_t number_kept = 0; // of the sample in the run
    std::vector<packed> held;
    std::vector<int> rest; // tokens that a packer holds
    bool growing = false;
    std::uint64_t picks = 0, rounds = 0;
    std::vector<std::vector<packed>> buckets;
  };

  static constexpr std::uint32_t endless = 2'000; // epochs without an item

  bool skips() const { return c_.skips_in(run_); }

  std::uint32_t first_epoch() const { return c_.first_epoch.value_or(0); }

  void run_epoch(std::uint32_t epoch) {
    now_.epoch = epoch;
    now_.ends_epoch = false;
    source_plan source = c_.source;
    if (c_.grown_size != 0 && run_ > 1 && epoch >= first_grown_) source.size = c_.grown_size;
    const std::vector<entry> all = entries_of(source, c_.seed, epoch);
    std::uint64_t given = 0; // samples yielded, over all ranks
    arrived_ = false;
    const std::vector<std::size_t> mine = share(all.size());
    const std::uint32_t text_epoch = fails_by_place(source.kind) ? fault::any_epoch : epoch;
    bool is_wanted = true;
    std::size_t counted = 0; // entries counted in `given`
    std::size_t failed = 0;  // failed samples in the source
    // Reads samples of other ranks: their failures are those of other runs, but an outage ends this one as well. Returns
    // how many can be read.
    const auto meet_outage = [&](std::size_t first, std::size_t end) {
      std::uint64_t readable = 0;
      for (std::size_t i = first; !splits_samples_by_rank(source.kind) && i < std::min(end, all.size()); ++i)
        if (!strikes(0, all[i].fault_number, epoch)) ++readable;
        else if (is_outage_) caught(text_of_fault(0, all[i].fault_number, text_epoch), packed().index, true);
      return readable;
    };
    for (std::size_t i = 0; is_wanted && i < mine.size(); ++i) {
      given += meet_outage(counted, mine[i]);
      const entry& e = all[mine[i] % all.size()];
      now_.ends_epoch = i + 1 == mine.size();
      packed value = e.value;
      const bool fails = strikes(0, e.fault_number, epoch), is_outage = is_outage_;
      // Whether each rank has a sample is known when the others' were read.
      if (c_.finite && c_.rest != rank_rest::keep) meet_outage(mine[i] + 1, (i + 1) * c_.ranks);
      if (fails) {
        caught(text_of_fault(0, e.fault_number, text_epoch),
               splits_samples_by_rank(source.kind) ? value.index : packed().index, is_outage);
        counted = mine[i] + 1;
        ++failed;
        continue;
      }
      if (value.index == entry::counted) value.index = mine[i] < all.size() ? given : mine[i] % all.size();
      given += mine[i] < all.size();
      counted = mine[i] + 1;
      is_wanted = push(0, std::move(value));
    }
    if (is_wanted) meet_outage(counted, all.size());
    if (!c_.finite && !splits_samples_by_rank(source.kind) && failed == mine.size() && failed > 0) {
      next_.may_fail = true;
      if (c_.ranks == 1) give_up();
    }
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (c_.finite) finish(i, epoch);
      states_[i].own.end_epoch();
      states_[i].number = 0;
      if (c_.stages[i].kind == stage_kind::reservoir) states_[i].held.clear();
      if (is_limited(i)) states_[i].left = c_.stages[i].size;
    }
    if (c_.finite) return;
    // If a stage can have enough before the epoch ends, a source that doesn't split samples by rank has an
    // unknown position.
    bool may_have_enough = !is_wanted;
    for (std::size_t i = 0; i < c_.stages.size(); ++i)
      may_have_enough = may_have_enough || (c_.stages[i].kind == stage_kind::take && !is_behind_state(i));
    if (may_have_enough && !splits_samples_by_rank(c_.source.kind)) position_ = 0;
    else position_ += all.size();
    epochs_without_arrival_ = arrived_ ? 0 : epochs_without_arrival_ + 1;
    if (epochs_without_arrival_ >= 30) next_.may_fail = true; // a rare item may arrive in the next epoch
    if (++epochs_without_item_ > endless) give_up();
  }

  // The entries of an epoch for this rank. Positions beyond its end wrap around.
  std::vector<std::size_t> share(std::size_t size) const {
    std::vector<std::size_t> mine;
    if (!c_.finite) {
      for (std::size_t i = 0; i < size; ++i)
        if ((position_ + i) % c_.ranks == c_.rank) mine.push_back(i);
      return mine;
    }
    std::size_t rounds = size / c_.ranks;
    if (c_.rest == rank_rest::wrap && size % c_.ranks != 0) ++rounds;
    if (c_.rest == rank_rest::keep && c_.rank < size % c_.ranks) ++rounds;
    for (std::size_t i = 0; i < rounds; ++i) mine.push_back(i * c_.ranks + c_.rank);
    return mine;
  }

  bool is_limited(std::size_t i) const {
    return c_.stages[i].kind == stage_kind::take || c_.stages[i].kind == stage_kind::skip;
  }

  bool strikes(std::size_t place, std::uint64_t number, std::uint32_t epoch) {
    bool any = false;
    is_outage_ = false;
    for (std::size_t f = 0; f < c_.faults.size(); ++f) {
      if (!c_.faults[f].is_of(place, number, epoch)) continue;
      const bool does = c_.faults[f].strikes(run_);
      any |= does;
      is_outage_ |= does && c_.faults[f].is_outage;
      now_.asked[f] = now_.asked_since[f] = true;
      if (does) now_.struck[f] = true;
    }
    return any;
  }

  void check(std::size_t i, const packed& s) {
    if (strikes(i + 1, number_of(s.value), s.epoch))
      throw struck{text_of_fault(i + 1, number_of(s.value), s.epoch), is_outage_};
  }

  random_generator random_of(std::size_t i, const packed& s) const {
    const std::uint64_t pass = std::uint64_t{s.repetition} << 32 | s.epoch;
    return random_generator(key(key(c_.seed, i + 1), pass, s.index, s.part));
  }

  // Whether an upstream stage may make several items of one.
  bool receives_parts(std::size_t i) const {
    using enum stage_kind;
    const std::initializer_list<stage_kind> making{flat_map,  own,  opaque_own,   hold,
                                                   reservoir, pack, bucket_batch, unbatch};
    return std::any_of(
        c_.stages.begin(), c_.stages.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const stage_plan& s) { return std::ranges::find(making, s.kind) != making.end(); });
  }

  // Whether an upstream stage keeps state from epoch to epoch.
  bool is_behind_state(std::size_t i) const {
    for (std::size_t before = 0; before < i; ++before) switch (c_.stages[before].kind) {
      case stage_kind::own:
      case stage_kind::opaque_own:
      case stage_kind::hold:
      case stage_kind::reservoir:
      case stage_kind::pack:
      case stage_kind::shuffle:
      case stage_kind::batch:
      case stage_kind::bucket_batch:
        return true;
      default:
        break;
      }
    return false;
  }

  /// What a stage calls to emit an item.
  struct emitter {
    walk& run;
    std::size_t stage;
    packed id; // the current sample
    bool wanted = true;
    std::uint64_t given = 0;

    bool operator()(packed s) {
      if (wanted) wanted = run.push(stage + 1, std::move(s));
      return wanted;
    }

    bool operator()(item value) {
      packed s = id;
      s.value = value;
      return made(std::move(s));
    }

    bool operator()(std::vector<int> tokens) {
      packed s = id;
      s.tokens = std::move(tokens);
      return made(std::move(s));
    }

    bool made(packed s) {
      if (const std::uint64_t k = given++; k > 0) {
        s.part = s.part == 0 ? k : key(s.part, k);
        if (run.receives_parts(stage))
          s.part = key(stage + 1, s.part); // otherwise it may be another item's part
      }
      return (*this)(std::move(s));
    }

    void enough() {
      if (run.c_.finite || !run.is_behind_state(stage)) wanted = false;
    }
  };

  // Returns false if no more of the epoch is wanted.
  bool push(std::size_t i, packed s) {
    if (i == states_.size()) {
      deliver(s);
      return true;
    }
    emitter emit{*this, i, s};
    emit.id.batch.clear();
    emit.id.tokens.clear();
    emit.id.is_batch = false;
    try {
      call(i, std::move(s), emit);
    } catch (const struck& e) {
      caught(e.text + index_text(emit.id), emit.id.index, e.is_outage);
      return true;
    }
    return emit.wanted;
  }

  static std::string index_text(const packed& s) { return " at " + std::to_string(s.index); }

  void call(std::size_t i, packed s, emitter& emit) {
    const stage_plan& plan = c_.stages[i];
    stage_state& state = states_[i];
    random_generator random = random_of(i, s);
    switch (plan.kind) {
    case stage_kind::map:
      check(i, s);
      s.value = mapped(s.value, s.epoch, random);
      emit(std::move(s));
      break;
    case stage_kind::filter:
      check(i, s);
      if (is_kept(s.value, plan.size, random)) emit(std::move(s));
      break;
    case stage_kind::flat_map: {
      check(i, s);
      std::uint64_t k = 0;
      for (const item part : parts_of(s.value, plan.size, random)) {
        packed p = s;
        p.value = part;
        p.part = s.part == 0 ? k : key(s.part, k);
        ++k;
        if (!emit(std::move(p))) break;
      }
      break;
    }
    case stage_kind::unbatch: {
      std::uint32_t k = 0;
      for (packed p : s.batch) {
        p.index = s.index;
        p.epoch = s.epoch;
        p.part = k++;
        if (!emit(std::move(p))) break;
      }
      break;
    }
    case stage_kind::join:
      s.value = mixed(s.value, s.second);
      emit(std::move(s));
      break;
    case stage_kind::number:
      s.value = mixed(s.value, s.number);
      emit(std::move(s));
      break;
    case stage_kind::enumerate:
      s.number = state.number++;
      emit(std::move(s));
      break;
    case stage_kind::own:
    case stage_kind::opaque_own:
      check(i, s);
      arrived_ = true;
      state.own.take(s.value, emit);
      break;
    case stage_kind::hold: {
      arrived_ = true;
      if (++state.number_kept % 3 == 0) {
        emit(std::move(s));
        break;
      }
      if (state.held.size() < plan.size) {
        state.held.push_back(std::move(s));
      } else if (plan.holding == own_holding::flushes) {
        give_held(i, emit);
        state.held.push_back(std::move(s));
      } else {
        std::swap(state.held[random.below(plan.size)], s);
        emit(std::move(s));
      }
      break;
    }
    case stage_kind::reservoir:
      arrived_ = true;
      ++state.number;
      if (state.held.size() < plan.size) {
        state.held.push_back(std::move(s));
      } else if (const std::uint64_t place = random.below(state.number); place < plan.size) {
        state.held[place] = std::move(s);
      }
      break;
    case stage_kind::document:
      s.tokens = document_of(s.value);
      emit(std::move(s));
      break;
    case stage_kind::pack:
      arrived_ = true;
      s.tokens.push_back(0);
      for (const int token : s.tokens) {
        state.rest.push_back(token);
        if (state.rest.size() < packed_length) continue;
        if (!emit(std::exchange(state.rest, {}))) break;
      }
      break;
    case stage_kind::join_tokens:
      s.value = item_of(s.tokens.data(), s.tokens.size());
      emit(std::move(s));
      break;
    case stage_kind::shuffle:
      arrived_ = true;
      state.held.push_back(std::move(s));
      if (state.held.size() < plan.more) break;
      if (plan.more > 0 && state.held.size() < plan.size) {
        state.growing = !state.growing;
        if (state.growing) break;
      }
      emit(pick(i));
      break;
    case stage_kind::take:
      if (state.left > 0) {
        --state.left;
        emit(std::move(s));
      }
      if (state.left == 0) emit.enough();
      break;
    case stage_kind::skip:
      if (state.left > 0) --state.left;
      else emit(std::move(s));
      break;
    case stage_kind::partition:
      if (static_cast<double>(key(s.value) >> 11) * 0x1p-53 * 100 < 80) emit(std::move(s));
      break;
    case stage_kind::batch:
      arrived_ = true;
      state.held.push_back(std::move(s));
      if (state.held.size() == plan.size) give_batch(state.held, emit);
      break;
    case stage_kind::bucket_batch: {
      arrived_ = true;
      const std::size_t length = length_of(s.value);
      std::vector<packed>& bucket = state.buckets[length <= 5 ? 0 : length <= 12 ? 1 : 2];
      std::size_t longest = length;
      for (const packed& held : bucket) longest = std::max(longest, length_of(held.value));
      const auto most_of = [&](std::size_t l) {
        return std::min<std::size_t>(plan.size,
                                     std::max<std::size_t>(1, plan.more / std::max<std::size_t>(1, l)));
      };
      if (bucket.empty() || bucket.size() < most_of(longest)) {
        bucket.push_back(std::move(s));
        // The first sample decides the capacity of the batch.
        if (bucket.size() == most_of(length_of(bucket.front().value))) give_batch(bucket, emit);
      } else {
        std::vector<packed> full = std::move(bucket);
        bucket.clear();
        bucket.push_back(std::move(s));
        give_batch(full, emit);
      }
      break;
    }
    }
  }

  packed pick(std::size_t i) {
    stage_state& state = states_[i];
    const auto at = static_cast<std::size_t>(
        random_generator(key(key(c_.seed, i + 1), state.rounds, state.picks++)).below(state.held.size()));
    std::swap(state.held[at], state.held.back());
    packed s = std::move(state.held.back());
    state.held.pop_back();
    return s;
  }

  // The last held sample replaces each emitted one.
  void give_held(std::size_t i, emitter& emit) {
    std::vector<packed>& held = states_[i].held;
    while (!held.empty() && emit.wanted) {
      std::swap(held.front(), held.back());
      packed s = std::move(held.back());
      held.pop_back();
      emit(std::move(s));
    }
  }

  static void give_batch(std::vector<packed>& held, emitter& emit) {
    packed b = held.back();
    b.batch = std::move(held);
    b.is_batch = true;
    held.clear();
    emit(std::move(b));
  }

  // Emits what a stage holds at the end of an epoch.
  void finish(std::size_t i, std::uint32_t epoch) {
    const stage_plan& plan = c_.stages[i];
    stage_state& state = states_[i];
    packed id;
    id.epoch = epoch;
    emitter emit{*this, i, id};
    switch (plan.kind) {
    case stage_kind::own:
    case stage_kind::opaque_own:
      state.own.give_rest(emit);
      break;
    case stage_kind::hold:
      give_held(i, emit);
      break;
    case stage_kind::reservoir:
      while (emit.wanted && !state.held.empty()) {
        packed s = std::move(state.held.back());
        state.held.pop_back();
        emit(std::move(s));
      }
      break;
    case stage_kind::pack:
      if (state.rest.empty()) break;
      state.rest.resize(packed_length);
      emit(std::exchange(state.rest, {}));
      break;
    case stage_kind::shuffle:
      while (emit.wanted && !state.held.empty()) emit(pick(i));
      state.held.clear();
      state.growing = false;
      state.picks = 0;
      ++state.rounds;
      break;
    case stage_kind::batch:
      if (state.held.empty()) break;
      if (plan.drop_last) state.held.clear();
      else give_batch(state.held, emit);
      break;
    case stage_kind::bucket_batch:
      for (std::vector<packed>& bucket : state.buckets) {
        if (bucket.empty()) continue;
        if (plan.drop_last || !emit.wanted) bucket.clear();
        else give_batch(bucket, emit);
      }
      break;
    default:
      break;
    }
  }

  // Handles a failed sample. A sample counts once, unless it failed before it had an index.
  void caught(const std::string& text, std::uint64_t index, bool is_outage) {
    const bool is_skipped = skips() && !is_outage;
    if (index == packed().index) ++unknown_failures_;
    else failed_.insert(index);
    if (is_skipped && failed_.size() + unknown_failures_ <= c_.failure_limit) {
      next_.failures.push_back(text);
      leave_here();
      return;
    }
    now_.over_limit = is_skipped;
    if (is_skipped) next_.failures.push_back(text); // the failure over the limit is in the list too
    next_.kind = step_kind::error;
    next_.error = text;
    add_step();
    throw over();
  }

  [[noreturn]] void give_up() {
    next_.kind = step_kind::error;
    next_.error = empty_error;
    add_step();
    throw over();
  }

  void deliver(const packed& s) {
    arrived_ = true;
    epochs_without_item_ = 0;
    if (s.is_batch) {
      for (const packed& p : s.batch) {
        const std::string index = p.index == ~std::uint64_t{0} ? "-"
                                                               : std::to_string(p.index >> 56) + "'" +
                                                                     std::to_string(p.index & 0xffffffffffff);
        next_.samples.push_back(std::to_string(p.epoch) + ":" + index +
                                (c_.parts_are_defined ? "." + std::to_string(p.part) : std::string()) + "=" +
                                text_of(p.value));
      }
    } else {
      next_.samples.push_back(text_of(s.value));
    }
    add_step();
    ++delivered_;
    leave_here();
    if (steps_.size() >= most_) throw over();
  }

  void begin_next_run() { // before the first item
    now_.asked.resize(c_.faults.size());
    now_.struck.resize(c_.faults.size());
    now_.asked_since.resize(c_.faults.size());
    leave_here();
  }

  // Begins the next run if this one is interrupted here.
  void leave_here() {
    while (run_ <= static_cast<int>(left_.size()) &&
           left_[static_cast<std::size_t>(run_) - 1] == cut{delivered_, next_.failures.size()}) {
      if (run_ == 1) first_grown_ = grown_from_.value_or(delivered_ == 0 ? 0 : now_.epoch + 1);
      ++run_;
    }
  }

  void add_step() {
    reference_step s(std::exchange(next_, {}));
    s.over_limit = now_.over_limit;
    s.epoch = now_.epoch;
    s.ends_epoch = now_.ends_epoch;
    s.asked = now_.asked;
    s.struck = now_.struck;
    s.asked_since = std::exchange(now_.asked_since, std::vector<bool>(c_.faults.size()));
    steps_.push_back(std::move(s));
  }

  const composition& c_;
  std::size_t most_;
  const std::vector<cut>& left_;
  std::optional<std::uint32_t> grown_from_;
  std::vector<stage_state> states_;
  int run_ = 1;
  std::vector<reference_step> steps_;
  reference_step next_, now_;
  std::size_t delivered_ = 0;
  std::set<std::uint64_t> failed_; // indices
  std::size_t unknown_failures_ = 0;
  std::uint32_t first_grown_ = 0;
  std::uint64_t position_ = 0; // of the epoch in the endless stream that ranks share
  int epochs_without_arrival_ = 0;
  bool arrived_ = false; // whether an item of this epoch was held, delivered or skipped
  std::uint32_t epochs_without_item_ = 0;
  bool is_outage_ = false; // some fault that struck at the last call of strikes()
};

std::string text_of(source_kind kind) {
  constexpr std::array names{"from(list)",        "custom source",           "custom with state",
                             "custom indexed",    "list | shuffled",         "indexed | shuffled",
                             "places | shuffled", "list | with_replacement", "zip(stated,list)",
                             "mix(stated,list)",  "concat(list,stated)",     "concat(list|map,stated|filter)",
                             "push_source"};
  return names[static_cast<std::size_t>(kind)];
}

std::string text_of(const stage_plan& s) {
  constexpr std::array names{"map",
                             "filter",
                             "flat_map",
                             "map(join)",
                             "map(number)",
                             "enumerate",
                             "custom",
                             "custom without state",
                             "custom that holds",
                             "reservoir",
                             "map(document)",
                             "packer",
                             "map(join tokens)",
                             "shuffle",
                             "take",
                             "skip",
                             "partition",
                             "batch",
                             "bucket_batch",
                             "flat_map(batch)"};
  constexpr std::array calls{"passes", "counts", "sums", "emits_first", "delays", "repeats", "packs"};
  constexpr std::array finishes{"", ", emits rest", ", emits several", ", emits and keeps"};
  std::string text = names[static_cast<std::size_t>(s.kind)];
  if (s.kind == stage_kind::own || s.kind == stage_kind::opaque_own)
    return text + "(" + calls[static_cast<std::size_t>(s.own.call)] +
           finishes[static_cast<std::size_t>(s.own.finish)] + (s.own.resets ? ", resets" : "") + ")";
  if (s.size != 0 || s.more != 0) text += "(" + std::to_string(s.size);
  if (s.more != 0) text += "," + std::to_string(s.more);
  if (s.size != 0 || s.more != 0) text += ")";
  if (s.kind == stage_kind::hold)
    text += std::array{" exchanges", " replaces", " flushes"}[static_cast<std::size_t>(s.holding)];
  return text + (s.drop_last ? " drop_last" : "");
}

} // namespace

std::vector<reference_step> reference(const composition& c, std::size_t most, const std::vector<cut>& left,
                                      std::optional<std::uint32_t> grown_from) {
  return walk(c, most, left, grown_from).run();
}

std::string describe(const composition& c) {
  std::string text = c.shape + ": " + text_of(c.source.kind) + " of " + std::to_string(c.source.size);
  if (c.source.kind >= source_kind::replaced)
    text += " and " + std::to_string(c.source.second_size) + ", draws " + std::to_string(c.source.samples);
  if (c.grown_size != 0) text += " grown to " + std::to_string(c.grown_size);
  for (const stage_plan& s : c.stages) text += " | " + text_of(s);
  text += c.finite ? "; finite, epochs " + std::to_string(c.epochs) : "; infinite";
  if (c.first_epoch) text += " from " + std::to_string(*c.first_epoch);
  text += ", seed " + std::to_string(c.seed) + "; on_error";
  for (const bool skips : c.skips) text += skips ? " skip" : " fail";
  if (c.failure_limit < 1000) text += ", limit " + std::to_string(c.failure_limit);
  if (c.ranks > 1)
    text += "; rank " + std::to_string(c.rank) + " of " + std::to_string(c.ranks) +
            std::array{", drop", ", wrap", ", keep"}[static_cast<std::size_t>(c.rest)];
  for (const fault& f : c.faults)
    text += "; sample " + std::to_string(f.number) +
            (f.epoch == fault::any_epoch ? "" : " of epoch " + std::to_string(f.epoch)) +
            (f.is_outage ? " meets an outage at stage " : " fails at stage ") + std::to_string(f.place) +
            std::array{"", " in the first run", " in later runs",
                       " once in the second run"}[static_cast<std::size_t>(f.time)];
  return text;
}

std::string to_string(const step& s) {
  std::string text;
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < std::min(most, s.failures.size()); ++i) text += "[" + s.failures[i] + "] ";
  if (s.failures.size() > most) text += "… " + std::to_string(s.failures.size()) + " failures ";
  for (const std::string& f : s.samples) text += f + " ";
  if (s.kind == step_kind::end) text += "end";
  if (s.kind == step_kind::error) text += "error: " + s.error;
  return text;
}

} // namespace feedline::test
