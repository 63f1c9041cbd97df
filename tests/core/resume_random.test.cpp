// SPDX-License-Identifier: MIT
// Compares random compositions with a reference that processes one item at a time in one thread: first the
// whole run, then runs that are left at some item, after some failure that was skipped, or by a stop from another thread, and
// resumed, with samples that start and stop failing, and servers that start and stop answering, in between.
//
// FEEDLINE_RESUME_FIRST=n and FEEDLINE_RESUME_COUNT=n run other compositions than the first ones,
// FEEDLINE_RESUME_AXES=+name,-name,… turns axes on and off, FEEDLINE_RESUME_VERBOSE=1 prints each step,
// FEEDLINE_RESUME_SIMPLIFY=1 looks for a simpler composition that fails as well.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "../examples/own_stage/packer.hpp"
#include "../examples/own_stage/reservoir.hpp"
#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/reference.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

// What is composed.

constexpr int compositions = 1176; // 42 of each shape

/// The features of compositions. One that is off isn't drawn.
struct axes {
  bool own_repeats = true;     ///< users' stages that emit several items for one
  bool own_emits_first = true; ///< … that emit and then change their state
  bool own_finishes = true;    ///< … that emit something at the end of an epoch
  bool own_opaque = true;      ///< … without a state()
  bool changing_faults = true; ///< samples that fail in one run and not in another
  bool after_error = true;     ///< checkpoints taken after the error of a run
  bool other_on_error = true;  ///< a resumed run handles failures differently
  bool taken = true;           ///< take() that had enough
  bool ranks = true;           ///< one of several ranks
  bool taken_ranks = true;     ///< … with take(), in infinite mode
  bool elastic = true;         ///< another number of ranks continues
  bool elastic_faults = true;  ///< samples that fail in runs that another number of ranks could continue
  bool grown = true;           ///< the data set has grown
  bool two_flat_maps = true;
  bool empty = true;  ///< an infinite run that never yields anything
  bool limit = true;  ///< more failures than the limit
  bool at_end = true; ///< checkpoints of runs that have ended
  bool outages = true;
  bool after_skip = true;  ///< checkpoints taken when a failure was skipped and the next item hasn't come
  bool stops = true;       ///< runs that another thread stops
  bool first_epoch = true; ///< finite runs that don't begin with epoch 0

  struct name {
    const char* text;
    bool axes::*axis;
  };

  static constexpr auto names() {
    return std::array{name{"own_repeats", &axes::own_repeats},
                      name{"own_emits_first", &axes::own_emits_first},
                      name{"own_finishes", &axes::own_finishes},
                      name{"own_opaque", &axes::own_opaque},
                      name{"changing_faults", &axes::changing_faults},
                      name{"after_error", &axes::after_error},
                      name{"other_on_error", &axes::other_on_error},
                      name{"taken", &axes::taken},
                      name{"ranks", &axes::ranks},
                      name{"taken_ranks", &axes::taken_ranks},
                      name{"elastic", &axes::elastic},
                      name{"elastic_faults", &axes::elastic_faults},
                      name{"grown", &axes::grown},
                      name{"two_flat_maps", &axes::two_flat_maps},
                      name{"empty", &axes::empty},
                      name{"limit", &axes::limit},
                      name{"at_end", &axes::at_end},
                      name{"outages", &axes::outages},
                      name{"after_skip", &axes::after_skip},
                      name{"stops", &axes::stops},
                      name{"first_epoch", &axes::first_epoch}};
  }

  static const axes& chosen() {
    static const axes all = [] {
      axes a;
      const char* const text = std::getenv("FEEDLINE_RESUME_AXES");
      for (std::string_view rest = text ? text : ""; !rest.empty();) {
        const std::string_view word = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), word.size() + 1));
        bool known = false;
        for (const name& n : names())
          if (word.substr(1) == n.text || word.substr(1) == "all") {
            a.*n.axis = word[0] == '+';
            known = true;
          }
        if (!known) throw std::invalid_argument("no axis " + std::string(word));
      }
      return a;
    }();
    return all;
  }
};

/// Something that threads wait for.
class signal {
 public:
  void set() {
    is_set_ = true;
    is_set_.notify_all();
  }

  void await() const { is_set_.wait(false); }

 private:
  std::atomic<bool> is_set_{false};
};

/// A composition and one of its runs.
struct scenario {
  composition c;
  int run = 1;
  mutable std::array<std::atomic<bool>, 8> asked{}; // the faults that occur once
  mutable std::jthread producer;                    // of a live source
  std::size_t held_call =
      0; // the number of the call of a function or the source that waits for the stop; 0: none
  std::size_t stop_pause = 0; // the stop takes longer by that many turns of its thread
  mutable signal may_stop, stops;

  scenario(composition what, int number) : c(std::move(what)), run(number) {}

  /// Called by functions of stages. While a stop pauses, threads of the run may have seen it, and its queues still pass items on:
  /// a callback of a stop token runs before those that were registered earlier.
  void meet(const std::stop_token& stop) const {
    if (held_call + stop_pause > 0) std::call_once(met_, [&] { at_stop_.emplace(stop, pause{*this}); });
  }

  void check(std::size_t place, std::uint64_t number, std::uint32_t epoch) const {
    if (held_call > 0 && ++calls_ == held_call) {
      may_stop.set();
      stops.await();
    }
    bool fails = false, is_outage = false;
    for (std::size_t f = 0; f < c.faults.size(); ++f) {
      if (!c.faults[f].is_of(place, number, epoch) || !c.faults[f].strikes(run)) continue;
      const bool does = c.faults[f].time != fault_time::hiccup || !asked[f].exchange(true);
      fails |= does;
      is_outage |= does && c.faults[f].is_outage;
    }
    if (is_outage) throw fl::outage_error(text_of_fault(place, number, epoch));
    if (fails) throw std::runtime_error(text_of_fault(place, number, epoch));
  }

  const stage_plan& stage(std::size_t place) const { return c.stages[place - 1]; }

  std::uint64_t source_size() const { return run > 1 && c.grown_size > 0 ? c.grown_size : c.source.size; }

 private:
  struct pause {
    const scenario& s;

    void operator()() const {
      s.stops.set();
      for (std::size_t i = 0; i < s.stop_pause; ++i) std::this_thread::yield();
      if (s.held_call > 0) await_all_others_asleep();
    }
  };

  mutable std::atomic<std::size_t> calls_{0};
  mutable std::once_flag met_;
  mutable std::optional<std::stop_callback<pause>> at_stop_;
};

using scenario_ptr = std::shared_ptr<const scenario>;

// Users' sources.

struct plain_source {
  void start_epoch(const fl::epoch& e) { epoch = e.number; }

  std::optional<item> next() {
    if (at == s->c.source.size) return std::nullopt;
    const std::uint64_t number = at++;
    s->check(0, number, epoch);
    return make_item(number);
  }

  scenario_ptr s;
  std::uint64_t at = 0;
  std::uint32_t epoch = 0;
};

struct stated_source {
  static constexpr fl::source_traits traits{.kind = "stated"};

  void start_epoch(const fl::epoch& e) { epoch = e.number; }

  std::optional<item> next() {
    if (at == size) return std::nullopt;
    const std::uint64_t number = first + at++;
    s->check(0, number, epoch);
    return with_epoch(make_item(number), epoch);
  }

  std::uint64_t index() const { return at - 1; }

  void state(auto& archive) { archive(at); }

  void seek(std::uint64_t index) { at = index; }

  scenario_ptr s;
  std::uint64_t size;
  std::uint64_t first = 0;
  std::uint64_t at = 0;
  std::uint32_t epoch = 0;
};

struct indexed_source {
  static constexpr fl::source_traits traits{.kind = "indexed"};

  std::optional<item> next() { return at_place < size() ? std::optional(at(at_place++)) : std::nullopt; }

  std::uint64_t size() const { return s->c.source.size; }

  item at(std::uint64_t place) const {
    s->check(0, place, fault::any_epoch);
    return make_item(place);
  }

  std::uint64_t index() const { return index_at(at_place - 1); }

  std::uint64_t index_at(std::uint64_t place) const { return index_of_place(place); }

  scenario_ptr s;
  std::uint64_t at_place = 0;
};

/// The smallest source.
struct own_places {
  static constexpr fl::source_traits traits{.kind = "places"};

  std::uint64_t size() const { return s->source_size(); }

  item at(std::uint64_t place) const {
    s->check(0, place, fault::any_epoch);
    return make_item(place);
  }

  scenario_ptr s;
};

/// A live source, and the thread that pushes its items.
auto pushed(const scenario_ptr& s, std::size_t capacity) {
  fl::push_source<item> source({.capacity = capacity});
  s->producer = std::jthread([source, size = s->c.source.size]() mutable {
    for (std::uint64_t i = 0; i < size; ++i)
      if (source.push(make_item(i)) != fl::queue_status::success) return;
    source.close();
  });
  return source;
}

// Functions.

struct mapping_inside {
  item operator()(item x, fl::context& c) const {
    s->check(0, number_of(x), c.epoch);
    return mapped_inside(x, c.epoch);
  }

  scenario_ptr s;
};

struct mapping {
  item operator()(item x, fl::context& c) const {
    s->meet(c.stop);
    s->check(place, number_of(x), c.epoch);
    return mapped(x, c.epoch, c.random);
  }

  scenario_ptr s;
  std::size_t place;
};

struct keeping {
  bool operator()(const item& x, fl::context& c) const {
    s->meet(c.stop);
    s->check(place, number_of(x), c.epoch);
    return is_kept(x, s->stage(place).size, c.random);
  }

  scenario_ptr s;
  std::size_t place;
};

struct parting {
  std::vector<item> operator()(item& x, fl::context& c) const {
    s->meet(c.stop);
    s->check(place, number_of(x), c.epoch);
    return parts_of(x, s->stage(place).size, c.random);
  }

  scenario_ptr s;
  std::size_t place;
};

struct joining {
  item operator()(const std::pair<item, item>& both) const { return mixed(both.first, both.second); }
};

struct numbering {
  item operator()(const fl::enumerated<item>& e) const { return mixed(e.value, e.number); }
};

struct joining_tokens {
  item operator()(const std::array<int, packed_length>& tokens) const {
    return item_of(tokens.data(), tokens.size());
  }
};

// Users' stages.

struct opaque_stage {
  using output = item;

  opaque_stage(scenario_ptr scenario, std::size_t number)
      : s(std::move(scenario)), place(number), does(s->stage(number).own) {}

  void operator()(item x, auto& emit, fl::context& c) {
    s->meet(c.stop);
    s->check(place, number_of(x), c.epoch);
    does.take(x, emit);
  }

  void finish(auto& emit) { does.give_rest(emit); }

  void end_epoch() { does.end_epoch(); }

  scenario_ptr s;
  std::size_t place;
  own_behaviour does;
};

struct own_stage : opaque_stage {
  static constexpr fl::stage_traits traits{.kind = "own"};

  using opaque_stage::opaque_stage;

  void state(auto& archive) { does.state(archive); }
};

/// Holds samples, and emits them in another order.
class holding_stage {
 public:
  using output = item;

  static constexpr fl::stage_traits traits{.kind = "holding"};

  explicit holding_stage(const stage_plan& plan) : does_(plan.holding), held_(plan.size) {}

  void operator()(fl::sample<item>&& s, auto& emit, fl::context& c) {
    if (++seen_ % 3 == 0) {
      emit(std::move(s));
      return;
    }
    if (held_.size() < held_.capacity()) {
      held_.push_back(std::move(s));
      return;
    }
    const std::size_t place = c.random.below(held_.size());
    switch (does_) {
    case own_holding::exchanges:
      emit(held_.exchange(place, std::move(s)));
      break;
    case own_holding::replaces: {
      fl::sample<item> given = held_[place]; // for a moment it is both here and downstream
      emit(std::move(given));
      held_.exchange(place, std::move(s));
      break;
    }
    case own_holding::flushes:
      finish(emit);
      held_.push_back(std::move(s));
      break;
    }
  }

  void finish(auto& emit) {
    while (!held_.empty() && emit(held_.take(0))) {
    }
  }

  void state(auto& archive) { archive(seen_, held_); }

  std::size_t items_held() const { return held_.capacity(); }

 private:
  own_holding does_;
  fl::held_samples<item> held_;
  std::uint64_t seen_ = 0;
};

// Pipelines: one type each, whatever the parameters.

auto list(const scenario_ptr& s, std::uint64_t size, std::uint64_t first = 0) {
  static_cast<void>(s);
  std::vector<item> all(size);
  for (std::uint64_t i = 0; i < size; ++i) all[i] = make_item(first + i);
  return fl::from(std::move(all));
}

auto whole_list(const scenario_ptr& s) { return list(s, s->source_size()); }

auto stated(const scenario_ptr& s, std::uint64_t size, std::uint64_t first = 0) {
  return fl::from(stated_source{s, size, first});
}

auto buffer(const scenario_ptr& s, std::size_t place) {
  const stage_plan& plan = s->stage(place);
  return fl::shuffle({.capacity = plan.size, .min_fill = plan.more});
}

auto batches(const scenario_ptr& s, std::size_t place) {
  return fl::batch(s->stage(place).size, {.drop_last = s->stage(place).drop_last});
}

/// on_failure throws it: next() has skipped a failure.
struct interrupted {};

/// How a run is started.
struct start_options {
  circumstances around;
  std::optional<fl::checkpoint> resume{};
  bool interrupts = false; ///< next() is interrupted after each failure that is skipped
};

class any_run {
 public:
  virtual ~any_run() = default;
  /// Calls `at_skip`, with how many failures were skipped since the last item, when next() is interrupted.
  virtual step next(const std::function<void(std::size_t failures)>& at_skip = {}) = 0;
  virtual void stop() = 0;
  virtual fl::checkpoint checkpoint() const = 0;
  virtual std::uint64_t digest() const = 0;
};

template <class Loader, bool CanBeResumed>
class held_run final : public any_run {
 public:
  held_run(Loader loader, const composition& c) : loader_(std::move(loader)), parts_(c.parts_are_defined) {}

  step next(const std::function<void(std::size_t failures)>& at_skip) override {
    step s;
    const std::size_t before = loader_.failures().size();
    for (bool again = true; std::exchange(again, false);) try {
        const auto item = loader_.next();
        if (item) add(s, *item);
        else s.kind = step_kind::end;
      } catch (const interrupted&) {
        again = true;
        if (at_skip) at_skip(loader_.failures().size() - before);
      } catch (const fl::pipeline_error& e) {
        s.kind = step_kind::error;
        s.error = text(e.failure(), e.what());
      } catch (const std::exception& e) {
        s.kind = step_kind::error;
        s.error = std::string("no pipeline_error: ") + e.what();
      }
    const std::vector<fl::failure>& failures = loader_.failures(); // it drops the first 1,000 of 2,000
    for (std::size_t i = failures.size() < before ? before - 1000 : before; i < failures.size(); ++i)
      s.failures.push_back(text(failures[i], failures[i].message));
    return s;
  }

  void stop() override { loader_.stop(); }

  fl::checkpoint checkpoint() const override {
    if constexpr (CanBeResumed) return loader_.checkpoint();
    else throw std::logic_error("a live source has no checkpoint");
  }

  std::uint64_t digest() const override { return loader_.digest(); }

 private:
  // A source need not know the index of a sample that it can't read.
  static std::string text(const fl::failure& f, const std::string& otherwise) {
    if (!f.message.starts_with("fault ")) return otherwise;
    return f.message.ends_with(" 0") ? f.message : f.message + " at " + std::to_string(f.index);
  }

  void add(step& s, item x) { s.samples.push_back(text_of(x)); }

  template <class Mode>
  void add(step& s, const fl::batch_of<item, Mode>& b) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      const fl::sample_id& id = b.ids()[i];
      std::string text = std::to_string(id.epoch) + ":";
      if (id.index == fl::sample_id::no_index) text += "-";
      else text += std::to_string(id.index >> 56) + "'" + std::to_string(id.index & 0xffffffffffff);
      if (parts_) text += "." + std::to_string(id.sub_index);
      s.samples.push_back(text + "=" + text_of(b.values()[i]));
    }
  }

  Loader loader_;
  bool parts_;
};

fl::on_error on_error_of(const scenario& s) {
  return s.c.skips_in(s.run) ? fl::on_error::skip : fl::on_error::fail;
}

fl::rank rank_of(const composition& c) {
  constexpr std::array rests{fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep};
  return {c.rank, c.ranks, rests[static_cast<std::size_t>(c.rest)]};
}

/// Throws what starting the run throws.
template <class Make, bool CanBeResumed>
std::unique_ptr<any_run> start_run(const scenario_ptr& s, const start_options& o) {
  const auto pipeline = Make{}(s, o.around);
  using loader = held_run<fl::loader_of<decltype(pipeline)>, CanBeResumed>;
  const composition& c = s->c;
  const auto options = [&](auto of_mode) {
    of_mode.seed = c.seed;
    of_mode.on_error = on_error_of(*s);
    of_mode.failure_limit = c.failure_limit;
    of_mode.queue_capacity = o.around.queue_capacity;
    of_mode.rank = rank_of(c);
    of_mode.resume = o.resume;
    if (o.interrupts) of_mode.on_failure = [](const fl::failure&) { throw interrupted(); };
    of_mode.allow_grown_data = c.grown_size > 0;
    return of_mode;
  };
  if (c.finite) {
    fl::finite_options of_mode{.epochs = c.epochs};
    if (!o.resume || s->run == 2) of_mode.first_epoch = c.first_epoch; // a checkpoint knows it too
    return std::make_unique<loader>(pipeline.finite(options(of_mode)), c);
  }
  return std::make_unique<loader>(pipeline.infinite(options(fl::infinite_options())), c);
}

// Random descriptions.

stage_plan stage_of(stage_kind kind, std::uint64_t size = 0, std::uint64_t more = 0) {
  stage_plan s;
  s.kind = kind;
  s.size = size;
  s.more = more;
  return s;
}

stage_plan drawn_filter(draw& d) { return stage_of(stage_kind::filter, d(2, 5)); }

stage_plan drawn_flat_map(draw& d) { return stage_of(stage_kind::flat_map, d(1, 4)); }

stage_plan drawn_shuffle(draw& d) {
  const std::size_t capacity = d(1, 40);
  return stage_of(stage_kind::shuffle, capacity, d(0, capacity));
}

stage_plan drawn_batch(draw& d) {
  stage_plan s = stage_of(stage_kind::batch, d(1, 9));
  s.drop_last = d(0, 3) == 0;
  return s;
}

stage_plan drawn_own(draw& d, const axes& a, stage_kind kind = stage_kind::own) {
  stage_plan s = stage_of(kind);
  const auto call = static_cast<own_call>(d(0, 6));
  const auto finish = static_cast<own_finish>(d(0, 3));
  const bool several = call == own_call::repeats || call == own_call::packs;
  const bool first = call == own_call::emits_first || call == own_call::delays;
  const bool is_off = (several && !a.own_repeats) || (first && !a.own_emits_first);
  s.own.call = is_off ? own_call::counts : call;
  s.own.finish = a.own_finishes ? finish : own_finish::nothing;
  s.own.resets = d.coin();
  return s;
}

stage_plan drawn_hold(draw& d) {
  stage_plan s = stage_of(stage_kind::hold, d(1, 40)); // few are listed in checkpoints, more are noted
  s.holding = static_cast<own_holding>(d(0, 2));
  return s;
}

/// Usually few, sometimes many.
std::uint64_t drawn_size(draw& d) {
  const std::size_t large = d(1, 300), small = d(1, 40), kind = d(0, 4);
  return kind == 0 ? large : small;
}

source_plan drawn_source(draw& d, source_kind kind) {
  source_plan s;
  s.kind = kind;
  s.size = drawn_size(d);
  s.second_size = d(1, 60);
  s.samples = d(1, 80);
  s.weight = static_cast<double>(d(1, 9)) / 10;
  s.end = static_cast<mix_end>(d(0, 2));
  return s;
}

struct shape {
  const char* name;
  source_kind source;
  void (*draw_stages)(composition&, draw&, const axes&);
  std::unique_ptr<any_run> (*start)(const scenario_ptr&, const start_options&);
};

template <bool CanBeResumed = true, class Make>
shape make_shape(const char* name, source_kind source, void (*draw_stages)(composition&, draw&, const axes&),
                 Make) {
  return {name, source, draw_stages, &start_run<Make, CanBeResumed>};
}

const std::vector<shape>& all_shapes() {
  static const std::vector<shape> shapes{
      make_shape(
          "one thread", source_kind::list,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {drawn_own(d, a), stage_of(stage_kind::map), drawn_own(d, a), drawn_shuffle(d),
                        drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances&) {
            return whole_list(s) | own_stage(s, 1) | fl::map(mapping{s, 2}) | own_stage(s, 3) | buffer(s, 4) |
                   batches(s, 5);
          }),
      make_shape(
          "workers between own stages", source_kind::stated,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {drawn_own(d, a),  stage_of(stage_kind::map), drawn_own(d, a),
                        drawn_shuffle(d), drawn_own(d, a),           drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | own_stage(s, 1) | fl::map(mapping{s, 2}, v.pool()) |
                   own_stage(s, 3) | buffer(s, 4) | own_stage(s, 5) | batches(s, 6);
          }),
      make_shape(
          "buffers", source_kind::stated,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {drawn_flat_map(d), drawn_shuffle(d), stage_of(stage_kind::map),
                        drawn_flat_map(d), drawn_shuffle(d), drawn_batch(d)};
            if (!a.two_flat_maps) c.stages[3].size = 1;
            c.parts_are_defined = false;
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::flat_map(parting{s, 1}) | buffer(s, 2) |
                   fl::map(mapping{s, 3}, v.pool()) | fl::flat_map(parting{s, 4}) | buffer(s, 5) |
                   batches(s, 6);
          }),
      make_shape(
          "shuffled, dealt to workers", source_kind::shuffled_indexed,
          [](composition& c, draw& d, const axes&) {
            c.stages = {drawn_flat_map(d), drawn_filter(d), drawn_shuffle(d), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return fl::from(indexed_source{s}) | fl::global_shuffle() |
                   fl::flat_map(parting{s, 1}, v.pool()) | fl::filter(keeping{s, 2}) | buffer(s, 3) |
                   batches(s, 4);
          }),
      make_shape(
          "shuffled, one thread", source_kind::shuffled_list,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances&) {
            return whole_list(s) | fl::global_shuffle() | fl::map(mapping{s, 1}) | batches(s, 2);
          }),
      make_shape(
          "shuffled, workers", source_kind::shuffled_list,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return whole_list(s) | fl::global_shuffle() | fl::map(mapping{s, 1}, v.pool()) | batches(s, 2);
          }),
      make_shape(
          "counting", source_kind::plain,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::skip, d(0, (c.source.size - 1) / 2)),
                        stage_of(stage_kind::map),
                        stage_of(stage_kind::take, d(1, 60)),
                        stage_of(stage_kind::enumerate),
                        stage_of(stage_kind::number),
                        drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return fl::from(plain_source{s}) | fl::skip(s->stage(1).size) | fl::map(mapping{s, 2}, v.pool()) |
                   fl::take(s->stage(3).size) | fl::enumerate() | fl::map(numbering{}) | batches(s, 6);
          }),
      make_shape(
          "take behind a filter, no batches", source_kind::list,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {drawn_filter(d), drawn_shuffle(d), stage_of(stage_kind::take, d(1, 60)),
                        drawn_own(d, a)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return whole_list(s) | fl::filter(keeping{s, 1}, v.pool()) | buffer(s, 2) |
                   fl::take(s->stage(3).size) | own_stage(s, 4) | fl::prefetch(v.queue);
          }),
      make_shape(
          "two pools, no batches", source_kind::stated,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::map), drawn_filter(d), drawn_own(d, a), drawn_flat_map(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::map(mapping{s, 1}, v.pool()) |
                   fl::filter(keeping{s, 2}, fl::workers{v.queue % 3 + 1}) | own_stage(s, 3) |
                   fl::flat_map(parting{s, 4}, v.pool()) | fl::prefetch(v.queue);
          }),
      make_shape(
          "zip", source_kind::zipped,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::join), drawn_own(d, a), stage_of(stage_kind::map),
                        drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return fl::zip(stated(s, s->c.source.size), list(s, s->c.source.second_size, second_numbers)) |
                   fl::map(joining{}) | own_stage(s, 2) | fl::map(mapping{s, 3}, v.pool()) | batches(s, 4);
          }),
      make_shape(
          "with replacement", source_kind::replaced,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_shuffle(d), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return list(s, s->c.source.size) | fl::with_replacement({.samples = s->c.source.samples}) |
                   fl::map(mapping{s, 1}, v.pool()) | buffer(s, 2) | batches(s, 3);
          }),
      make_shape(
          "mix", source_kind::mixed,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_shuffle(d), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            const source_plan& p = s->c.source;
            return fl::mix(fl::weighted(stated(s, p.size), p.weight),
                           fl::weighted(list(s, p.second_size, second_numbers), 1 - p.weight),
                           fl::mix_options{static_cast<fl::when_one_ends>(p.end)}) |
                   fl::map(mapping{s, 1}, v.pool()) | buffer(s, 2) | batches(s, 3);
          }),
      make_shape(
          "concat into buckets", source_kind::joined,
          [](composition& c, draw& d, const axes&) {
            stage_plan buckets = stage_of(stage_kind::bucket_batch, d(1, 6), d(10, 60));
            buckets.drop_last = d(0, 3) == 0;
            c.stages = {stage_of(stage_kind::map), buckets};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            const stage_plan& plan = s->stage(2);
            return fl::concat(list(s, s->c.source.size), stated(s, s->c.source.second_size, second_numbers)) |
                   fl::map(mapping{s, 1}) | fl::prefetch(v.queue) |
                   fl::bucket_batch({.boundaries = {5, 12},
                                     .batch_size = plan.size,
                                     .max_tokens = plan.more,
                                     .drop_last = plan.drop_last},
                                    [](const item& x) { return length_of(x); });
          }),
      make_shape(
          "an own stage that says nothing of its state", source_kind::list,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::map), drawn_own(d, a, stage_kind::opaque_own), drawn_shuffle(d),
                        drawn_batch(d)};
            if (!a.own_opaque) c.stages[1].own = {};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return whole_list(s) | fl::map(mapping{s, 1}, v.pool()) | opaque_stage(s, 2) | buffer(s, 3) |
                   batches(s, 4);
          }),
      make_shape(
          "batches that are shuffled and taken apart", source_kind::stated,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::batch, d(1, 9)), drawn_shuffle(d), stage_of(stage_kind::unbatch),
                        drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::batch(s->stage(1).size, fl::as_list) | buffer(s, 2) |
                   fl::flat_map([](auto& b) -> std::vector<item>& { return b.values(); }, v.pool()) |
                   batches(s, 4);
          }),
      make_shape(
          "a part of the data, take at the end", source_kind::shuffled_list,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::partition), stage_of(stage_kind::map), drawn_batch(d),
                        stage_of(stage_kind::take, d(1, 12))};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return whole_list(s) | fl::global_shuffle() | fl::partition({80, 20}, 0) |
                   fl::map(mapping{s, 2}, v.pool()) | batches(s, 3) | fl::take(s->stage(4).size);
          }),
      make_shape(
          "own stages that hold samples", source_kind::stated,
          [](composition& c, draw& d, const axes&) {
            c.stages = {drawn_flat_map(d), drawn_hold(d), stage_of(stage_kind::map), drawn_hold(d),
                        drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::flat_map(parting{s, 1}) | holding_stage(s->stage(2)) |
                   fl::map(mapping{s, 3}, v.pool()) | holding_stage(s->stage(4)) | batches(s, 5);
          }),
      make_shape(
          "an own stage that holds samples, no batches", source_kind::list,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::map), drawn_hold(d), drawn_own(d, a)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return whole_list(s) | fl::map(mapping{s, 1}, v.pool()) | holding_stage(s->stage(2)) |
                   own_stage(s, 3) | fl::prefetch(v.queue);
          }),
      make_shape(
          "a reservoir", source_kind::stated,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), stage_of(stage_kind::reservoir, d(1, 40)),
                        drawn_shuffle(d), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::map(mapping{s, 1}, v.pool()) |
                   reservoir<item>(s->stage(2).size) | buffer(s, 3) | batches(s, 4);
          }),
      make_shape(
          "a packer and a buffer", source_kind::stated,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map),         stage_of(stage_kind::document),
                        stage_of(stage_kind::pack),        drawn_shuffle(d),
                        stage_of(stage_kind::join_tokens), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::map(mapping{s, 1}, v.pool()) |
                   fl::map([](item x) { return document_of(x); }) | packer<packed_length>() | buffer(s, 4) |
                   fl::map(joining_tokens{}) | batches(s, 6);
          }),
      make_shape(
          "a packer between workers, no batches", source_kind::placed,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::document), stage_of(stage_kind::pack),
                        stage_of(stage_kind::join_tokens), drawn_own(d, a)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return own_places{s} | fl::map([](item x) { return document_of(x); }, v.pool()) |
                   packer<packed_length>() | fl::map(joining_tokens{}, v.pool()) | own_stage(s, 4) |
                   fl::prefetch(v.queue);
          }),
      make_shape(
          "own places", source_kind::placed,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_shuffle(d), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return own_places{s} | fl::map(mapping{s, 1}, v.pool()) | buffer(s, 2) | batches(s, 3);
          }),
      make_shape(
          "own places, shuffled", source_kind::shuffled_placed,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return own_places{s} | fl::global_shuffle() | fl::map(mapping{s, 1}, v.pool()) | batches(s, 2);
          }),
      make_shape(
          "stages inside a source", source_kind::composed,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::map), drawn_shuffle(d), drawn_own(d, a), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return fl::concat(list(s, s->c.source.size) | fl::map(mapping_inside{s}),
                              stated(s, s->c.source.second_size, second_numbers) |
                                  fl::filter(is_kept_inside)) |
                   fl::map(mapping{s, 1}, v.pool()) | buffer(s, 2) | own_stage(s, 3) | batches(s, 4);
          }),
      make_shape(
          "workers last", source_kind::stated,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {drawn_own(d, a), stage_of(stage_kind::map)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | own_stage(s, 1) | fl::map(mapping{s, 2}, v.pool());
          }),
      make_shape(
          "batches through workers", source_kind::stated,
          [](composition& c, draw& d, const axes&) {
            c.stages = {drawn_flat_map(d), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return stated(s, s->c.source.size) | fl::flat_map(parting{s, 1}, v.pool()) | batches(s, 2) |
                   fl::map([](fl::batch_of<item> b) { return b; }, v.pool());
          }),
      make_shape(
          "dealt to workers, then others, no batches", source_kind::shuffled_placed,
          [](composition& c, draw& d, const axes&) {
            c.stages = {stage_of(stage_kind::map), drawn_filter(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return own_places{s} | fl::global_shuffle() | fl::map(mapping{s, 1}, v.pool()) |
                   fl::filter(keeping{s, 2}, v.pool());
          }),
      make_shape<false>(
          "a live source", source_kind::live,
          [](composition& c, draw& d, const axes& a) {
            c.stages = {stage_of(stage_kind::map), drawn_shuffle(d), drawn_own(d, a), drawn_batch(d)};
          },
          [](const scenario_ptr& s, const circumstances& v) {
            return pushed(s, v.queue) | fl::map(mapping{s, 1}, v.pool()) | buffer(s, 2) | own_stage(s, 3) |
                   batches(s, 4);
          }),
  };
  return shapes;
}

bool has_stage(const composition& c, std::initializer_list<stage_kind> kinds) {
  return std::any_of(c.stages.begin(), c.stages.end(), [&](const stage_plan& s) {
    return std::find(kinds.begin(), kinds.end(), s.kind) != kinds.end();
  });
}

/// Whether some stage emits more items than it received when epochs end.
bool gives_at_end(const composition& c) {
  return std::any_of(c.stages.begin(), c.stages.end(), [](const stage_plan& s) {
    return s.own.finish != own_finish::nothing || s.kind == stage_kind::pack;
  });
}

/// The run's position follows from the last sample.
bool could_be_elastic(const composition& c) {
  return (c.source.kind == source_kind::shuffled_list || c.source.kind == source_kind::shuffled_placed) &&
         c.stages.size() == 2 && c.stages[1].kind == stage_kind::batch;
}

bool is_list(source_kind kind) { return kind == source_kind::list || kind == source_kind::shuffled_list; }

bool can_grow(source_kind kind) {
  return is_list(kind) || kind == source_kind::placed || kind == source_kind::shuffled_placed;
}

/// The positions in the pipeline where samples can fail.
std::vector<std::size_t> places_that_fail(const composition& c) {
  std::vector<std::size_t> places;
  const source_kind source = c.source.kind;
  if (!is_list(source) && source != source_kind::replaced && source != source_kind::live) places.push_back(0);
  for (std::size_t i = 0; i < c.stages.size(); ++i) switch (c.stages[i].kind) {
    case stage_kind::map:
    case stage_kind::filter:
    case stage_kind::flat_map:
    case stage_kind::own:
    case stage_kind::opaque_own:
      places.push_back(i + 1);
      break;
    default:
      break;
    }
  return places;
}

/// Whether the failing stage receives only one item of that sample.
bool comes_once(const composition& c, const fault& f) {
  if (f.epoch == fault::any_epoch || c.source.kind == source_kind::replaced) return false;
  for (std::size_t i = 0; i + 1 < f.place; ++i) {
    const stage_kind kind = c.stages[i].kind;
    if (kind == stage_kind::flat_map || kind == stage_kind::own || kind == stage_kind::opaque_own ||
        kind == stage_kind::pack)
      return false;
  }
  return true;
}

void draw_faults(composition& c, draw& d, const axes& a) {
  const std::vector<std::size_t> places = places_that_fail(c);
  const std::size_t kind = d(0, 3), count = d(1, 5);
  for (std::size_t i = 0; i < count; ++i) {
    fault f;
    const std::size_t place = d(0, 1000), time = d(0, 3);
    f.number = d(0, static_cast<std::size_t>(c.source.size) - 1);
    const std::size_t second = d(0, static_cast<std::size_t>(c.source.second_size) - 1);
    const bool has_two = c.source.kind == source_kind::joined || c.source.kind == source_kind::composed;
    if (has_two && second % 2 == 0) f.number = second_numbers + second;
    // One that the filter inside the source keeps: the reference has no others.
    if (c.source.kind == source_kind::composed && f.number >= second_numbers && f.number % 3 == 0) ++f.number;
    const std::size_t epoch = d(0, 5), outage = d(0, 4);
    if (kind == 0 || places.empty()) continue;
    f.place = places[place % places.size()];
    // Indexed sources return the same each time.
    if (epoch < 3 && !(f.place == 0 && fails_by_place(c.source.kind)))
      f.epoch = static_cast<std::uint32_t>(epoch);
    if (a.changing_faults) f.time = static_cast<fault_time>(time);
    f.is_outage = a.outages && outage == 0;
    // If a sample arrives several times, its first call is unknown.
    if (f.time == fault_time::hiccup && !comes_once(c, f)) f.time = fault_time::later_runs;
    if (f.place == 0 && c.source.kind == source_kind::joined && f.number < second_numbers)
      f.number += second_numbers;
    c.faults.push_back(f);
  }
}

/// With few samples, checkpoints are often from before the first snapshot, so that they don't know the epoch.
void begin_with(composition& c, std::size_t epoch, std::size_t most_samples) {
  c.first_epoch = static_cast<std::uint32_t>(epoch);
  c.source.size = std::min<std::uint64_t>(c.source.size, most_samples);
  for (fault& f : c.faults) {
    if (f.epoch != fault::any_epoch) f.epoch += *c.first_epoch;
    if (f.number < second_numbers) f.number %= c.source.size;
  }
}

composition drawn_composition(std::uint64_t number, const axes& a) {
  draw d(fl::detail::key(number, 7));
  const shape& s = all_shapes()[number % all_shapes().size()];
  composition c;
  c.shape = s.name;
  c.source = drawn_source(d, s.source);
  s.draw_stages(c, d, a);
  const bool is_live = c.source.kind == source_kind::live;
  c.finite = d.coin() || is_live || has_stage(c, {stage_kind::reservoir}); // which emits only at the end
  c.epochs = is_live ? 1 : static_cast<std::uint32_t>(d(1, 3));
  c.seed = d(0, 1000);
  draw_faults(c, d, a);
  // A pass that yields nothing isn't repeated.
  const auto is_of_source = [](const fault& f) { return f.place == 0; };
  if (c.source.end == mix_end::repeat && std::any_of(c.faults.begin(), c.faults.end(), is_of_source))
    c.source.end = mix_end::go_on;
  if (!a.elastic_faults && could_be_elastic(c)) c.faults.clear();
  const bool skips = d(0, 2) > 0, others[2] = {d.coin(), d.coin()};
  c.skips[0] = skips;
  c.skips[1] = a.other_on_error ? others[0] : skips;
  c.skips[2] = a.other_on_error ? others[1] : skips;
  const std::size_t limit = d(0, 12);
  if (a.limit && limit < 4) c.failure_limit = limit;

  const std::uint32_t ranks = static_cast<std::uint32_t>(d(1, 4));
  const std::uint32_t rank = static_cast<std::uint32_t>(d(0, ranks - 1));
  const auto rest = static_cast<rank_rest>(d(0, 2));
  const bool on_ranks = d(0, 3) == 0;
  const bool one_to_one = !has_stage(c, {stage_kind::filter, stage_kind::flat_map, stage_kind::unbatch,
                                         stage_kind::own, stage_kind::opaque_own, stage_kind::hold,
                                         stage_kind::pack, stage_kind::partition, stage_kind::bucket_batch});
  const bool takes = has_stage(c, {stage_kind::take});
  if (a.ranks && on_ranks && !is_live && (c.finite || !takes || a.taken_ranks)) {
    c.ranks = ranks;
    c.rank = rank;
    c.rest = one_to_one ? rest : rank_rest::keep;
    // To fill a remainder from an epoch's beginning, failures would have to be known.
    if (c.rest == rank_rest::wrap &&
        std::any_of(c.faults.begin(), c.faults.end(), [](const fault& f) { return f.place == 0; }))
      c.rest = rank_rest::keep;
  }
  const std::size_t grows = d(0, 3), by = d(1, 40);
  if (a.grown && grows == 0 && can_grow(c.source.kind)) c.grown_size = c.source.size + by;
  const std::size_t empties = d(0, 9);
  if (a.empty && empties == 0)
    for (stage_plan& stage : c.stages) {
      if (stage.kind == stage_kind::filter) stage.size = 1;
      if (stage.kind == stage_kind::take) stage.size = 0;
      if (stage.kind == stage_kind::skip) stage.size = 1000;
    }
  if (!a.taken)
    for (stage_plan& stage : c.stages)
      if (stage.kind == stage_kind::take) stage.size = 1'000'000;
  const bool begins_later = d.coin();
  const std::size_t near = d(0, 5), far = d(100, 100'000), is_far = d(0, 5);
  const std::size_t few = d(1, 8), has_few = d(0, 2);
  if (a.first_epoch && begins_later && c.finite)
    begin_with(c, is_far == 0 ? far : near, has_few == 0 ? few : c.source.size);
  return c;
}

// The checks.

/// Describes a run that yielded something else.
struct mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string both(const step& expected, const step& got) {
  return "\n  expected: " + to_string(expected) + "\n  got:      " + to_string(got);
}

bool is_empty_error(const step& s) {
  return s.kind == step_kind::error && s.error.find(empty_error) != std::string::npos;
}

/// Throws a mismatch. Returns whether the run has ended.
bool check_step(const reference_step& expected, const step& got, const std::string& when) {
  if (expected.kind == step_kind::error && expected.error == empty_error && is_empty_error(got)) return true;
  // It may give up before it reaches the limit of failures.
  if ((expected.may_fail || expected.over_limit) && is_empty_error(got)) return true;
  if (static_cast<const step&>(expected) != got) throw mismatch(when + both(expected, got));
  return got.kind != step_kind::gives;
}

/// The faults that occur in a later run but not in the earlier one, or the other way round.
std::vector<fault> changed_faults(const composition& c, const reference_step* last, int run) {
  std::vector<fault> changed;
  for (std::size_t f = 0; last && f < c.faults.size(); ++f)
    if (last->asked[f] &&
        (last->struck[f] != c.faults[f].strikes(run) || c.faults[f].epoch == fault::any_epoch)) {
      // A fault of every epoch may have occurred in some epochs and not yet in others.
      if (c.faults[f].time != fault_time::always) changed.push_back(c.faults[f]);
    }
  return changed;
}

/// Those that may keep a run from returning to its position: a sample that failed in map stays skipped, even
/// if it could succeed now.
std::vector<fault> hindering(const composition& c, std::vector<fault> changed) {
  std::erase_if(changed, [&](const fault& f) {
    return f.time == fault_time::first_run && f.place > 0 && c.stages[f.place - 1].kind == stage_kind::map;
  });
  return changed;
}

/// Whether the text names such a sample.
bool names_one(const std::string& text, const std::vector<fault>& faults) {
  // A source that doesn't know its samples' indices can't name one; and if a sample succeeds this time, others may reach a
  // stage where they fail.
  for (const char* const words : {"the run can't ", "the earlier run had read this sample"})
    if (!faults.empty() && text.find(words) != std::string::npos) return true;
  return std::any_of(faults.begin(), faults.end(), [&](const fault& f) {
    const std::string number = std::to_string(f.number);
    for (const std::string& name :
         {"fault " + number + "@", "sample " + number + " ",
          "sample " + std::to_string(index_of_place(f.number)) + " ",
          "sample " + std::to_string(std::uint64_t{1} << 56 | (f.number - second_numbers)) + " "})
      if (text.find(name) != std::string::npos) return true;
    return false;
  });
}

struct statistics {
  std::size_t grown = 0, grown_refused = 0;
  std::size_t followed = 0, unclear = 0;
  std::size_t after_skip = 0, stopped = 0;
};

statistics& all_statistics() {
  static statistics s;
  return s;
}

class trial {
 public:
  explicit trial(std::uint64_t number, const axes& a) : trial(number, a, drawn_composition(number, a)) {}

  trial(std::uint64_t number, const axes& a, composition c, std::uint64_t attempt = 0)
      : axes_(a),
        c_(std::move(c)),
        shape_(all_shapes()[number % all_shapes().size()]),
        d_(fl::detail::key(number, 8, attempt)),
        most_(d_(5, 60)) {}

  const composition& what() const { return c_; }

  /// Throws a mismatch.
  void run() {
    whole_ = reference(c_, most_);
    if (!is_comparable(whole_)) return;
    say("whole");
    run_whole();
    if (c_.source.kind == source_kind::live) return;
    for (int times = 0; times < 2; ++times) leave_and_resume_at(drawn_cut());
    if (axes_.stops && (d_.coin() || at_skips_.empty())) leave_by_stop();
    else if (axes_.after_skip && !at_skips_.empty()) leave_after_skip();
    else leave_and_resume_at(drawn_cut());
    if (axes_.elastic && is_elastic()) resume_on_other_ranks();
  }

 private:
  std::unique_ptr<any_run> start(int run, const std::optional<fl::checkpoint>& resume) {
    return start(std::make_shared<const scenario>(c_, run), resume);
  }

  std::unique_ptr<any_run> start(const scenario_ptr& s, const std::optional<fl::checkpoint>& resume) {
    const circumstances around(d_);
    return shape_.start(s, {around, resume, axes_.after_skip && d_.coin()});
  }

  // Whether its result is defined, and its axes are on.
  bool is_comparable(const reference_step& s) const {
    // The epoch in which an infinite run gives up isn't defined, nor what such stages then emit.
    if (s.may_fail && gives_at_end(c_)) return false;
    // Nor after how many epochs in which all samples of a rank failed.
    if (s.may_fail && c_.ranks > 1 && !c_.faults.empty()) return false;
    // A user's stage that receives samples and never emits any isn't detected: such a run has no end.
    if (s.kind == step_kind::error && s.error == empty_error) return s.may_fail && axes_.empty;
    return !s.over_limit || axes_.limit;
  }

  bool is_comparable(const std::vector<reference_step>& steps) const {
    return std::all_of(steps.begin(), steps.end(), [&](const reference_step& s) { return is_comparable(s); });
  }

  static void say(const std::string& what) {
    if (std::getenv("FEEDLINE_RESUME_VERBOSE")) std::fprintf(stderr, "%s\n", what.c_str());
  }

  // The number of items.
  std::size_t items() const { return whole_.size() - (whole_.back().kind != step_kind::gives); }

  void run_whole() {
    const auto run = start(1, {});
    const auto keep_checkpoint = [&] {
      if (c_.source.kind != source_kind::live) checkpoints_.push_back(run->checkpoint());
    };
    keep_checkpoint();
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      const auto keep_at_skip = [&](std::size_t failures) {
        if (c_.source.kind != source_kind::live && c_.grown_size == 0)
          at_skips_.push_back({{i, failures}, run->checkpoint()});
      };
      const step got = run->next(keep_at_skip);
      const bool ended = check_step(whole_[i], got, "without a resumption, step " + std::to_string(i));
      whole_[i].may_fail |= is_empty_error(got);
      keep_checkpoint();
      digests_.push_back(run->digest());
      if (!ended) continue;
      // It may have given up earlier than necessary.
      whole_.resize(i + 1);
      if (whole_[i].may_fail) {
        whole_[i].kind = step_kind::error;
        whole_[i].error = empty_error;
      }
    }
  }

  // At the beginning, near failures, at the end, or anywhere.
  std::size_t drawn_cut() {
    const std::size_t kind = d_(0, 5), any = d_(0, items()), next = d_(0, 1);
    const std::size_t step = d_(0, whole_.size() - 1);
    switch (kind) {
    case 0:
      return 0;
    case 1:
      return axes_.at_end ? whole_.size() : items();
    case 2:
    case 3:
      for (std::size_t i = 0; i < whole_.size(); ++i) {
        const reference_step& s = whole_[(step + i) % whole_.size()];
        if (s.failures.empty() && s.kind != step_kind::error) continue;
        return std::min(items(), (step + i) % whole_.size() + next);
      }
      return any;
    default:
      return any;
    }
  }

  bool has_same_policies() const {
    return c_.skips[0] == c_.skips[1] && c_.skips[0] == c_.skips[2] && c_.grown_size == 0 &&
           std::all_of(c_.faults.begin(), c_.faults.end(),
                       [](const fault& f) { return f.time == fault_time::always; });
  }

  void leave_and_resume_at(std::size_t at) {
    const std::string when = "left behind item " + std::to_string(at) + " of " + std::to_string(items());
    say(when);
    const bool as_json = d_.coin();
    const fl::checkpoint left = as_json ? fl::checkpoint::from_json(checkpoints_[at].to_json())
                                        : fl::checkpoint::from_bytes(checkpoints_[at].to_bytes());
    is_after_item_ = at <= items();
    if (is_after_item_) return continue_from(left, {at}, false, when);
    const reference_step& end = whole_.back();
    if (end.kind == step_kind::end) return check_ended(left);
    // In which epoch data grows is known only after an item.
    if (!axes_.after_error || end.error == empty_error || c_.grown_size > 0) return;
    continue_from(left, {items(), end.failures.size() - std::size_t{end.over_limit}}, true, when);
  }

  // The next item hasn't come.
  void leave_after_skip() {
    const left_run& any = at_skips_[d_(0, at_skips_.size() - 1)];
    const std::string when = "left after failure " + std::to_string(any.at.failures) + " behind item " +
                             std::to_string(any.at.items);
    say(when);
    ++all_statistics().after_skip;
    is_after_item_ = false;
    continue_from(fl::checkpoint::from_bytes(any.checkpoint.to_bytes()), any.at, false, when);
  }

  // Another thread stops the run: while one of its calls waits, or when some of its items were taken.
  void leave_by_stop() {
    const auto s = std::make_shared<scenario>(c_, 1);
    const bool holds = d_.coin();
    s->held_call = holds ? d_(1, std::size_t{1} << d_(0, 9)) : 0;
    s->stop_pause = d_(0, 100);
    const std::size_t after = holds ? items() : d_(0, items());
    const std::size_t most = holds ? items() : std::min(items(), after + d_(0, 3));
    std::string when;
    std::size_t count = 0;
    step last;
    const auto run = start(s, {});
    {
      std::jthread stopper([&] {
        s->may_stop.await();
        run->stop();
        s->stops.set();
      });

      const struct leave {
        const scenario& s;

        ~leave() { s.may_stop.set(); }
      } leaving{*s};

      for (;; ++count) {
        when = "stopped by another thread behind item " + std::to_string(count) + " of " +
               std::to_string(items());
        if (count == after) s->may_stop.set();
        if (count == most) stopper.join();
        last = run->next();
        if (last.kind != step_kind::gives) break;
        if (count == most) throw mismatch(when + ": it wasn't");
        check_step(whole_[count], last, when);
      }
    }
    say(when);
    if (count == whole_.size()) return; // no more is known
    const reference_step& next = whole_[count];
    if (last.kind == step_kind::error) { // it came before the stop
      check_step(next, last, when);
      return;
    }
    const std::size_t reported = last.failures.size();
    if (reported > next.failures.size() ||
        !std::equal(last.failures.begin(), last.failures.end(), next.failures.begin()))
      throw mismatch(when + both(next, last));
    // In which epoch data grows is known only after an item: the consumer may have passed ends of epochs since.
    if (c_.grown_size > 0) return;
    ++all_statistics().stopped;
    is_after_item_ = false;
    const auto left = fl::checkpoint::from_bytes(run->checkpoint().to_bytes());
    continue_from(left, {count, reported}, false, when);
  }

  void continue_from(const fl::checkpoint& left, const cut& at, bool is_after_error,
                     const std::string& when) {
    is_after_error_ = is_after_error;
    const std::size_t second_cut = at.items + d_(0, 5);
    std::vector<cut> cuts{at};
    std::unique_ptr<any_run> run = resumed(2, left, cuts, when);
    if (!run) return;
    if (follow(*run, cuts, second_cut, when)) return;
    cuts.push_back(second_cut == at.items ? at : cut{second_cut});
    const auto second = fl::checkpoint::from_bytes(run->checkpoint().to_bytes());
    run.reset();
    const std::string again = when + ", then after item " + std::to_string(second_cut);
    say(again);
    run = resumed(3, second, cuts, again);
    if (run) follow(*run, cuts, most_ + 1, again);
  }

  // Null: it was refused or has ended as expected.
  std::unique_ptr<any_run> resumed(int number, const fl::checkpoint& from, const std::vector<cut>& cuts,
                                   const std::string& when) {
    if (number == 2 && c_.grown_size > 0) ++all_statistics().grown;
    try {
      return start(number, from);
    } catch (const fl::pipeline_error& e) {
      std::vector<fault> reasons = hindering(c_, changed_in(number, cuts));
      // While it looks for a held sample that the source can't read any more, it may meet an outage further on.
      if (!reasons.empty())
        std::copy_if(c_.faults.begin(), c_.faults.end(), std::back_inserter(reasons),
                     [](const fault& f) { return f.place == 0 && f.is_outage; });
      if (names_one(e.what(), reasons)) return nullptr;
      throw mismatch(when + ", refused: " + e.what());
    } catch (const std::exception& e) {
      if (c_.grown_size > 0 && std::string(e.what()).find("grown") != std::string::npos) {
        ++all_statistics().grown_refused;
        return nullptr;
      }
      throw mismatch(when + ", refused: " + e.what());
    }
  }

  // The faults that change after the position where the earlier run was left.
  std::vector<fault> changed_in(int number, const std::vector<cut>& cuts) const {
    std::vector<cut> before(cuts.begin(), cuts.end() - 1);
    // An error comes after samples that were read since the last item.
    if (is_after_error_ && cuts.back() == cuts.front()) return changed_faults(c_, &whole_.back(), number);
    // And so do a failure and a stop.
    const std::size_t steps_before =
        cuts.back().items + (is_after_item_ || cuts.back() != cuts.front() ? 0 : 1);
    if (steps_before == 0) return {};
    const auto steps = reference(c_, steps_before, before);
    return changed_faults(c_, &steps[steps_before - 1], number);
  }

  // True: it has ended as expected. False: it has reached `until`.
  bool follow(any_run& run, const std::vector<cut>& cuts, std::size_t until, const std::string& when) {
    ++all_statistics().followed;
    const std::size_t at = cuts.back().items;
    std::vector<reference_step> expected = reference(c_, most_, cuts), other;
    if (c_.grown_size > 0) other = with_other_growth(expected, cuts);
    if (at == expected.size()) return true;
    std::vector<std::string>& first_failures = expected[at].failures; // some were reported by the earlier run
    first_failures.erase(first_failures.begin(),
                         first_failures.begin() + static_cast<std::ptrdiff_t>(cuts.back().failures));
    const std::vector<fault> changed = changed_in(static_cast<int>(cuts.size()) + 1, cuts);
    for (std::size_t i = at; i < expected.size(); ++i) {
      if (!is_comparable(expected[i])) return true;
      if (i == until) return false;
      step got = run.next();
      if (i == at && got.kind == step_kind::error && names_one(got.error, hindering(c_, changed)))
        return true;
      if (i == at) leave_out(got.failures, expected[i].failures, changed);
      if (i < other.size() && static_cast<const step&>(other[i]) == got &&
          static_cast<const step&>(expected[i]) != got)
        expected = std::exchange(other, {}); // from now on it is that one
      try {
        if (check_step(expected[i], got, when + ", step " + std::to_string(i))) return true;
      } catch (const mismatch&) {
        if (!is_unclear(cuts, expected[at])) throw;
        ++all_statistics().unclear;
        return true;
      }
      if (has_same_policies() && run.digest() != digests_[i])
        throw mismatch(when + ", step " + std::to_string(i) + ": another digest");
    }
    return true;
  }

  // Samples without an item may or may not have been read before the run was left: whether they failed is
  // unknown.
  bool is_unclear(const std::vector<cut>& cuts, const reference_step& first) const {
    const auto could_be = [&](const reference_step& s) {
      for (std::size_t f = 0; f < c_.faults.size(); ++f)
        if (s.asked_since[f] && c_.faults[f].time != fault_time::always) return true;
      return false;
    };
    return could_be(first) || (cuts.size() == 2 && could_be(reference(c_, most_, {cuts[0]})[cuts[0].items]));
  }

  // Failures of samples that it read again on its way count as reported.
  static void leave_out(std::vector<std::string>& told, const std::vector<std::string>& expected,
                        const std::vector<fault>& changed) {
    while (told.size() > expected.size() && names_one(told.front(), changed)) told.erase(told.begin());
  }

  // At the end of an epoch the next one may have begun or not.
  std::vector<reference_step> with_other_growth(const std::vector<reference_step>& expected,
                                                const std::vector<cut>& cuts) const {
    static_cast<void>(expected);
    const std::size_t first = cuts.front().items;
    if (first == 0) return reference(c_, most_, cuts, c_.first_epoch.value_or(0) + 1);
    if (!whole_[first - 1].ends_epoch) return {};
    return reference(c_, most_, cuts, whole_[first - 1].epoch + 2);
  }

  void check_ended(const fl::checkpoint& left) {
    step got;
    try {
      got = start(2, left)->next();
    } catch (const std::exception& e) {
      throw mismatch(std::string("left at its end: ") + e.what());
    }
    if (got.kind == step_kind::error && names_one(got.error, c_.faults))
      return; // it stopped or started failing since
    // Samples after the last item that were skipped may be read again.
    leave_out(got.failures, {}, c_.faults);
    if (got.kind != step_kind::end || !got.failures.empty())
      throw mismatch("left at its end: got " + to_string(got));
  }

  bool is_elastic() const {
    return !c_.finite && c_.faults.empty() && c_.grown_size == 0 && could_be_elastic(c_);
  }

  // All ranks together take this many samples in a step, whatever their number.
  void resume_on_other_ranks() {
    constexpr std::uint64_t global = 12;
    c_.ranks = static_cast<std::uint32_t>(d_(1, 4));
    c_.rank = static_cast<std::uint32_t>(d_(0, c_.ranks - 1));
    c_.stages[1].size = global / c_.ranks;
    const std::size_t at = d_(0, 20);
    std::optional<fl::checkpoint> left;
    {
      const auto run = start(1, {});
      for (std::size_t i = 0; i < at; ++i) run->next();
      left = fl::checkpoint::from_bytes(run->checkpoint().to_bytes());
    }
    const std::string when = "left by rank " + std::to_string(c_.rank) + " of " + std::to_string(c_.ranks) +
                             " after item " + std::to_string(at);
    c_.ranks = static_cast<std::uint32_t>(d_(1, 4));
    c_.rank = static_cast<std::uint32_t>(d_(0, c_.ranks - 1));
    c_.stages[1].size = global / c_.ranks;
    const std::vector<reference_step> expected = reference(c_, at + 20);
    try {
      const auto run = start(2, left);
      for (std::size_t i = at; i < expected.size(); ++i)
        check_step(expected[i], run->next(), when + ", step " + std::to_string(i));
    } catch (const std::invalid_argument& e) {
      throw mismatch(when + ", refused: " + e.what());
    }
  }

  const axes& axes_;
  composition c_;
  const shape& shape_;
  draw d_;
  std::size_t most_;
  std::vector<reference_step> whole_;

  struct left_run {
    cut at;
    fl::checkpoint checkpoint;
  };

  bool is_after_error_ = false;             // the run that is resumed ended with its error, …
  bool is_after_item_ = true;               // … or was left directly after an item
  std::vector<fl::checkpoint> checkpoints_; // after each number of items; one more at the end
  std::vector<left_run> at_skips_;          // after each failure that next() was interrupted for
  std::vector<std::uint64_t> digests_;
};

/// Finds a simpler composition that also fails, and how it fails.
class simplifier {
 public:
  simplifier(std::uint64_t number, composition c, std::string failure)
      : number_(number), c_(std::move(c)), failure_(std::move(failure)) {}

  std::string simplest() {
    for (bool simpler = true; simpler;) {
      simpler = false;
      for (std::size_t i = 0; i < c_.faults.size(); ++i)
        simpler |=
            still_fails([i](composition& c) { c.faults.erase(c.faults.begin() + static_cast<int>(i)); });
      simpler |= still_fails([](composition& c) { c.ranks = 1, c.rank = 0; });
      simpler |= still_fails([](composition& c) { c.grown_size = 0; });
      simpler |= still_fails([](composition& c) { c.epochs = 1; });
      simpler |= still_fails([](composition& c) {
        for (fault& f : c.faults)
          if (f.epoch != fault::any_epoch) f.epoch -= c.first_epoch.value_or(0);
        c.first_epoch.reset();
      });
      if (c_.skips[0] != c_.skips[1] || c_.skips[0] != c_.skips[2])
        for (const bool skips : {true, false})
          simpler |= still_fails([skips](composition& c) { c.skips[0] = c.skips[1] = c.skips[2] = skips; });
      for (auto size : {&source_plan::size, &source_plan::second_size, &source_plan::samples}) {
        simpler |= still_fails([size](composition& c) { c.source.*size = (c.source.*size + 1) / 2; });
        simpler |= still_fails([size](composition& c) { c.source.*size -= c.source.*size > 1; });
      }
      for (std::size_t i = 0; i < c_.stages.size(); ++i) {
        simpler |= still_fails([i](composition& c) { c.stages[i].own = {}; });
        simpler |= still_fails([i](composition& c) { c.stages[i].own.call = own_call::passes; });
        simpler |= still_fails([i](composition& c) { c.stages[i].own.finish = own_finish::nothing; });
        simpler |= still_fails([i](composition& c) { c.stages[i].own.resets = false; });
        simpler |= still_fails([i](composition& c) { c.stages[i].drop_last = false; });
        simpler |= still_fails([i](composition& c) { c.stages[i].more = 0; });
        simpler |= still_fails([i](composition& c) { plain(c.stages[i]); });
        simpler |= still_fails([i](composition& c) { c.stages[i].size -= c.stages[i].size > 2; });
      }
    }
    return describe(c_) + "\n  " + failure_;
  }

 private:
  // With the least effect possible.
  static void plain(stage_plan& s) {
    switch (s.kind) {
    case stage_kind::filter:
    case stage_kind::take:
      s.size = 1'000'000;
      break;
    case stage_kind::skip:
      s.size = 0;
      break;
    case stage_kind::flat_map:
    case stage_kind::shuffle:
    case stage_kind::batch:
    case stage_kind::bucket_batch:
      s.size = 1;
      s.more = 0;
      break;
    default:
      break;
    }
  }

  template <class Change>
  bool still_fails(Change change) {
    composition simpler = c_;
    change(simpler);
    if (describe(simpler) == describe(c_)) return false;
    for (std::uint64_t attempt = 0; attempt < 12; ++attempt) {
      try {
        trial(number_, axes::chosen(), simpler, attempt).run();
      } catch (const std::exception& e) {
        c_ = std::move(simpler);
        failure_ = e.what();
        return true;
      }
    }
    return false;
  }

  std::uint64_t number_;
  composition c_;
  std::string failure_;
};

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

} // namespace

TEST_CASE("Runs that are left and resumed yield the items of a reference") {
  const std::uint64_t first = number_from("FEEDLINE_RESUME_FIRST", 0);
  const std::uint64_t count = number_from("FEEDLINE_RESUME_COUNT", rounds(compositions));
  const axes& a = axes::chosen();
  std::size_t failed = 0;
  for (std::uint64_t number = first; number < first + count && failed < 20; ++number) {
    trial t(number, a);
    const std::string what = "FEEDLINE_RESUME_FIRST=" + std::to_string(number) + ", " + describe(t.what());
    if (std::getenv("FEEDLINE_RESUME_VERBOSE")) std::fprintf(stderr, "%s\n", what.c_str());
    const watchdog guard(what, std::chrono::seconds(100));
    try {
      t.run();
    } catch (const std::exception& e) {
      ++failed;
      FAIL_CHECK(what << "\n  " << e.what());
      if (std::getenv("FEEDLINE_RESUME_SIMPLIFY"))
        std::fprintf(stderr, "simplified: %s\n", simplifier(number, t.what(), e.what()).simplest().c_str());
    }
  }
  const statistics& s = all_statistics();
  if (s.grown > 100) CHECK(s.grown_refused < s.grown / 2);
  if (s.followed > 100) CHECK(s.unclear < s.followed / 100);
  if (s.followed > 1000) CHECK(((s.after_skip > 0 || !a.after_skip) && (s.stopped > 0 || !a.stops)));
  CHECK(failed == 0);
}
