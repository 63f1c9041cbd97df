// SPDX-License-Identifier: MIT
#pragma once
// check_stage: checks that a stage keeps the promises of pipelines that contain it.
#include <deque>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/testing/check_options.hpp>
#include <feedline/testing/check_source.hpp>
#include <feedline/testing/detail/items.hpp>
#include <feedline/testing/detail/observed.hpp>
#include <feedline/testing/detail/runs.hpp>

namespace feedline::inline FEEDLINE_ABI::testing {

namespace detail {

/// Yields the inputs of a check, except some.
template <class T>
class given_inputs {
 public:
  static constexpr source_traits traits{.kind = "inputs"};

  given_inputs(std::shared_ptr<const std::vector<T>> inputs, const run_order& o)
      : inputs_(std::move(inputs)),
        left_out_(o.left_out),
        last_epoch_(o.last_epoch),
        is_empty_(o.without_inputs) {}

  void start_epoch(const epoch& e) {
    epoch_ = e.number;
    if (epoch_ >= last_epoch_) throw std::runtime_error("the check needs no more epochs");
  }

  std::optional<T> next() {
    if (at_ == size()) return std::nullopt;
    if (left_out_ == occasion{at_, epoch_}) ++at_;
    if (at_ == size()) return std::nullopt;
    return (*inputs_)[at_++];
  }

  std::uint64_t index() const { return at_ - 1; }

  void state(auto& archive) { archive(at_); }

  void seek(std::uint64_t index) { at_ = index; }

  std::uint64_t extent() const { return inputs_->size(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return extent; }

 private:
  std::size_t size() const { return is_empty_ ? 0 : inputs_->size(); }

  std::shared_ptr<const std::vector<T>> inputs_;
  std::optional<occasion> left_out_;
  std::uint32_t last_epoch_;
  bool is_empty_;
  std::size_t at_ = 0;
  std::uint32_t epoch_ = 0;
};

/// A call of a stage.
struct hand_call {
  enum class kind { item, finish, end_epoch };

  kind is = kind::item;
  std::size_t input = 0;
  std::uint32_t epoch = 0;
};

std::string text_of_call(const hand_call& c);

struct hand_output {
  std::size_t item = 0;
  sample_id id;

  friend bool operator==(const hand_output&, const hand_output&) = default;
};

/// The result of a call.
struct hand_result {
  std::vector<hand_output> given;
  bool has_enough = false; // it called emit.enough()
  std::string error;       // empty: it didn't throw
  bool ignores_false = false;

  friend bool operator==(const hand_result&, const hand_result&) = default;
};

/// The state that a stage writes.
struct written_state {
  std::vector<std::uint64_t> words;
  feedline::detail::held_parts held;
};

/// A stage that is called without a run. Its type is hidden.
class hand_stage {
 public:
  virtual ~hand_stage() = default;
  virtual std::unique_ptr<hand_stage> copy() const = 0;
  /// `wanted`: how many items emit() takes before it returns false.
  virtual hand_result call(const hand_call& c, std::size_t wanted = ~std::size_t{0}) = 0;
  /// Whether it used an emit after the call that received it.
  virtual bool emitted_late() const = 0;

  virtual bool has_state() const = 0;
  virtual written_state write_state() = 0;
  virtual std::ptrdiff_t read_state(const written_state& state) = 0;

  virtual bool takes_samples() const = 0; // and emits them
  virtual std::optional<std::size_t> items_held() const = 0;
  virtual std::optional<bool> has_enough() const = 0;
  virtual bool ends_epochs() const = 0;
  virtual bool data_independent_count() const = 0;
  virtual std::uint64_t fingerprint() const = 0;
};

/// More calls of emit() after it returned false are not an oversight but a loop.
inline constexpr std::size_t max_ignored = 1000;

/// Thrown to end an endless loop.
struct ignores_false {};

template <class Out, class Table>
class hand_emit {
 public:
  hand_emit(Table& table, const sample_id& id, std::size_t wanted, hand_result& result, bool& was_late)
      : table_(table), id_(id), wanted_(wanted), result_(&result), was_late_(was_late) {}

  template <class V>
    requires std::constructible_from<Out, V>
  bool operator()(V&& value) {
    sample_id id = id_;
    if (given_ > 0) id = feedline::detail::part_of(id_, given_);
    return (*this)(sample<Out>{Out(std::forward<V>(value)), id});
  }

  bool operator()(sample<Out>&& s) {
    if (!result_) {
      was_late_ = true;
      return false;
    }
    ++given_;
    if (given_ > wanted_ + max_ignored) {
      result_->ignores_false = true;
      throw ignores_false();
    }
    if (given_ <= wanted_) result_->given.push_back({table_.number_of(s.value), s.id});
    return given_ < wanted_;
  }

  void enough() {
    if (result_) result_->has_enough = true;
    else was_late_ = true;
  }

  void hand_over() { was_late_ |= !result_; }

  void close() { result_ = nullptr; }

 private:
  Table& table_;
  sample_id id_;
  std::size_t wanted_;
  hand_result* result_; // null: the call has returned
  bool& was_late_;
  std::size_t given_ = 0;
};

template <class Stage, class In, class Table>
class typed_hand_stage final : public hand_stage {
  using output = typename Stage::output;
  using emit_type = hand_emit<output, Table>;
  static constexpr bool takes_value = feedline::detail::takes_value<Stage, In>;
  static constexpr bool takes_value_and_context = feedline::detail::takes_value_and_context<Stage, In>;
  static constexpr bool takes_sample = feedline::detail::takes_sample<Stage, In>;

 public:
  typed_hand_stage(Stage stage, std::shared_ptr<const std::vector<In>> inputs, std::shared_ptr<Table> table,
                   std::uint64_t seed)
      : stage_(std::move(stage)), inputs_(std::move(inputs)), table_(std::move(table)), seed_(seed) {}

  std::unique_ptr<hand_stage> copy() const override {
    return std::make_unique<typed_hand_stage>(stage_, inputs_, table_, seed_);
  }

  hand_result call(const hand_call& c, std::size_t wanted) override {
    hand_result result;
    const bool is_item = c.is == hand_call::kind::item;
    const sample_id id{is_item ? c.input : sample_id::no_index, 0, c.epoch};
    emit_type& emit = emits_.emplace_back(*table_, id, wanted, result, was_late_);
    try {
      if (is_item) take(c, id, emit);
      if constexpr (requires { stage_.finish(emit); })
        if (c.is == hand_call::kind::finish) stage_.finish(emit);
      if constexpr (requires { stage_.end_epoch(); })
        if (c.is == hand_call::kind::end_epoch) stage_.end_epoch();
    } catch (const ignores_false&) {
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    emit.close();
    return result;
  }

  bool emitted_late() const override { return was_late_; }

  bool has_state() const override { return feedline::detail::has_state<Stage>; }

  written_state write_state() override {
    written_state state;
    if constexpr (feedline::detail::has_state<Stage>) {
      state_writer writer(state.words, state.held, position, false);
      stage_.state(writer);
    }
    return state;
  }

  std::ptrdiff_t read_state(const written_state& state) override {
    if constexpr (feedline::detail::has_state<Stage>) {
      typename feedline::detail::samples_read_again<In>::list samples;
      for (const feedline::detail::held& h : state.held)
        for (const sample_id& id : h.ids())
          samples.push_back(feedline::detail::carry<In>([&] { return (*inputs_)[id.index]; }, id));
      feedline::detail::samples_read_again<In> found(std::move(samples));
      return read_words(stage_, state.words,
                        [&](state_reader& reader) { reader.begin_stage(state.held, position, &found); });
    } else {
      return 0;
    }
  }

  bool takes_samples() const override {
    return !takes_value && !takes_value_and_context && std::is_same_v<In, output>;
  }

  std::optional<std::size_t> items_held() const override {
    if constexpr (requires { stage_.items_held(); }) return stage_.items_held();
    else return {};
  }

  std::optional<bool> has_enough() const override {
    if constexpr (requires { stage_.has_enough(); }) return stage_.has_enough();
    else return {};
  }

  bool ends_epochs() const override { return feedline::detail::traits_of<Stage>().ends_epochs; }

  bool data_independent_count() const override {
    return feedline::detail::traits_of<Stage>().data_independent_count;
  }

  std::uint64_t fingerprint() const override {
    if constexpr (requires { stage_.fingerprint(); }) return stage_.fingerprint();
    else return 0;
  }

 private:
  void take(const hand_call& c, const sample_id& id, emit_type& emit) {
    const std::stop_token never;
    context about = feedline::detail::make_context(id, feedline::detail::key(seed_, position), never);
    feedline::detail::call_stage(stage_, sample<In>{(*inputs_)[c.input], id}, emit, about);
  }

  static constexpr std::size_t position = 2; // after the inputs and a map, see around_stage

  Stage stage_;
  std::shared_ptr<const std::vector<In>> inputs_;
  std::shared_ptr<Table> table_;
  std::uint64_t seed_;
  std::deque<emit_type> emits_; // also of calls that have returned, to notice their use
  bool was_late_ = false;
};

/// The promises of a custom stage that can be checked without a run.
class hand_stage_checks {
 public:
  /// `make`: makes the stage.
  hand_stage_checks(feedline::detail::function_ref<std::unique_ptr<hand_stage>()> make, std::size_t inputs,
                    const item_texts& texts, observed& seen, const check_options& options)
      : make_(make), inputs_(inputs), texts_(texts), seen_(seen), options_(options) {}

  /// The items of a finite run.
  const std::vector<std::size_t>& finite_items() const { return finite_items_; }

  /// Whether a call throws.
  bool fails() const { return fails_; }

  void all();

 private:
  std::vector<hand_call> all_calls(bool finite, bool backwards = false) const;

  // Makes the calls, and leaves out of calls_ those that a run skips after emit.enough().
  std::vector<hand_result> first_drive();

  std::vector<hand_result> drive(hand_stage& stage, std::size_t begin = 0) const;

  std::string text(const hand_result& r) const;

  bool complain(const std::string& promise, std::size_t begin, const std::vector<hand_result>& got,
                const std::string& advice);

  void note_items();

  void same_again();

  void states(bool finite);

  /// For a stage that receives and emits samples of one type.
  void identities();

  /// The inputs that a stage holds: it emits them later.
  void held();

  /// emit.enough(), and the functions that report it.
  void ends();

  /// A stage returns when no more items are needed.
  void unwanted();

  void counts();

  feedline::detail::function_ref<std::unique_ptr<hand_stage>()> make_;
  std::size_t inputs_;
  const item_texts& texts_;
  observed& seen_;
  const check_options& options_;
  std::unique_ptr<hand_stage> described_;
  std::vector<hand_call> calls_;
  std::vector<hand_result> results_;
  std::vector<std::size_t> finite_items_;
  bool fails_ = false;
};

/// The map upstream of a stage.
struct look_upstream {
  template <class T>
  T operator()(T item, context& c) const {
    if (fails && fails->index == c.index && fails->epoch == c.epoch) throw planned_failure();
    return item;
  }

  std::optional<occasion> fails;
};

/// The map downstream of it.
struct look_downstream {
  template <class T>
  seen<T> operator()(T item, context& c) const {
    return {std::move(item), c.id()};
  }
};

/// inputs | map | stage | map
template <class Make, class In>
struct around_stage {
  auto operator()(const run_order& o) {
    auto stage = make();
    feedline::max_item_bytes largest;
    if constexpr (requires {
                    { stage.max_item_bytes() } -> std::convertible_to<std::size_t>;
                  }) {
      using output = stage_output_t<decltype(stage), In>;
      largest.bytes = stage.max_item_bytes() + sizeof(seen<output>) - sizeof(output);
    }
    return given_inputs<In>(inputs, o) | map(look_upstream{o.fails}, feedline::workers{o.upstream}) |
           std::move(stage) | map(look_downstream(), feedline::workers{o.downstream}, largest);
  }

  Make make;
  std::shared_ptr<const std::vector<In>> inputs;
};

/// The promises that only a stage makes for its runs.
class stage_run_checks {
 public:
  stage_run_checks(any_runs& runs, std::size_t inputs, observed& seen, const check_options& options);

  /// A finite run yields what the stage emits when it is called with one item after another.
  void given(const std::vector<std::size_t>& expected, bool fails);

  /// Only this finds failures of the library's own stages, which aren't called directly.
  void must_not_fail();

  /// `wanted`: the numbers of the inputs, if the stage emits items of their type.
  void all(const std::vector<std::size_t>& wanted);

 private:
  void failures();

  void without_inputs();

  void keeps(std::vector<std::size_t> wanted);

  any_runs& runs_;
  std::size_t inputs_;
  observed& seen_;
  const check_options& options_;
  run_checks checks_;
};

} // namespace detail

/// Checks that a stage keeps the promises that the library makes to its users: the same items with any number
/// of workers upstream and downstream, exact checkpoints, an end at any moment, failures in their position.
/// Returns if it does.
///
/// It first calls a custom stage directly (copies, state(), finish(), emit, identities, items_held()). If
/// that succeeds, it runs the stage in pipelines. Use 10 to 50 inputs that bring the stage to its limits:
/// each position in them is tried.
///
/// Takes:   a function that makes the stage as another process would, the same each time: a custom stage, one
///          of the library's, or a row of stages; the inputs, at least one; check_options; and a projection,
///          if items have no operator==. All are copied, and used from a separate thread
/// Throws:  broken_promise, whose what() has a sentence for each broken promise; std::invalid_argument for no
///          inputs, or a stage that emits more items than options.most_items
/// Example: `fl::testing::check_stage([] { return packer(128); }, tokens)`
template <class Make, class In, class Project = as_it_is>
void check_stage(Make make, std::vector<In> inputs, const check_options& options = {}, Project project = {}) {
  using stage_type = decltype(make());
  using assemble_type = detail::around_stage<Make, In>;
  using pipeline_type = decltype(std::declval<assemble_type&>()(detail::run_order()));
  using output = decltype(pipeline_type::item::value);
  using table_type = detail::item_table<output, Project>;
  if (inputs.empty()) throw std::invalid_argument("feedline::testing: check_stage needs at least one input");
  const auto shared = std::make_shared<const std::vector<In>>(std::move(inputs));
  detail::run_observed(options.patience, [make = std::move(make), shared, options,
                                          project = std::move(project)](detail::observed& seen) {
    const auto table = std::make_shared<table_type>(project);
    std::vector<std::size_t> items;
    bool fails = false;
    constexpr bool is_own =
        feedline::detail::running_stage<stage_type, In> && !feedline::detail::binds_to<stage_type, In>;
    if constexpr (is_own) {
      Make make_by_hand = make;
      const auto make_one = [&]() -> std::unique_ptr<detail::hand_stage> {
        return std::make_unique<detail::typed_hand_stage<stage_type, In, table_type>>(make_by_hand(), shared,
                                                                                      table, options.seed);
      };
      detail::hand_stage_checks by_hand(make_one, shared->size(), *table, seen, options);
      by_hand.all();
      if (!seen.is_whole()) return;
      items = by_hand.finite_items();
      fails = by_hand.fails();
    }
    std::vector<std::size_t> wanted;
    if constexpr (std::is_same_v<In, output>)
      for (const In& input : *shared) wanted.push_back(table->number_of(input));
    detail::typed_runs<assemble_type, table_type> runs(assemble_type{make, shared}, table);
    detail::stage_run_checks by_runs(runs, shared->size(), seen, options);
    if constexpr (is_own) by_runs.given(items, fails);
    else by_runs.must_not_fail();
    by_runs.all(wanted);
  });
}

} // namespace feedline::inline FEEDLINE_ABI::testing

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TESTING)
#include <iterator>
#include <map>
#include <set>

namespace feedline::inline FEEDLINE_ABI::testing::detail {

FEEDLINE_INLINE std::string text_of_call(const hand_call& c) {
  if (c.is == hand_call::kind::item)
    return "input " + std::to_string(c.input) + " (counted from 0) of epoch " + std::to_string(c.epoch);
  return std::string(c.is == hand_call::kind::finish ? "finish()" : "end_epoch()") + " of epoch " +
         std::to_string(c.epoch);
}

FEEDLINE_INLINE void hand_stage_checks::all() {
  seen_.doing("made the stage");
  described_ = make_();
  for (const bool finite : {true, false}) {
    seen_.doing("called the stage with each input");
    calls_ = all_calls(finite);
    results_ = first_drive();
    same_again();
    if (!seen_.is_whole()) return;
    states(finite);
    if (!finite) continue;
    identities();
    held();
    note_items();
  }
  ends();
  unwanted();
  counts();
  if (described_->fingerprint() != make_()->fingerprint())
    seen_.broken("A fingerprint is the same in another process: two stages that were made alike have "
                 "different ones. Derive it from the parameters, not from addresses or time.");
}

FEEDLINE_INLINE std::vector<hand_call> hand_stage_checks::all_calls(bool finite, bool backwards) const {
  std::vector<hand_call> calls;
  for (std::uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    for (std::size_t i = 0; i < inputs_; ++i)
      calls.push_back({hand_call::kind::item, backwards ? inputs_ - 1 - i : i, epoch});
    if (finite) calls.push_back({hand_call::kind::finish, 0, epoch});
    calls.push_back({hand_call::kind::end_epoch, 0, epoch});
  }
  return calls;
}

FEEDLINE_INLINE std::vector<hand_result> hand_stage_checks::first_drive() {
  std::vector<hand_result> results;
  std::vector<hand_call> made;
  const auto stage = described_->copy();
  bool has_enough = false;
  for (const hand_call& c : calls_) {
    if (c.is != hand_call::kind::item) has_enough = has_enough && c.is == hand_call::kind::finish;
    else if (has_enough) continue;
    made.push_back(c);
    results.push_back(stage->call(c));
    has_enough = has_enough || results.back().has_enough;
    if (results.back().given.size() > options_.most_items)
      throw std::invalid_argument(
          "feedline::testing: the stage emits more than " + std::to_string(options_.most_items) +
          " items for one input: use other inputs for the check, or raise most_items");
  }
  if (stage->emitted_late())
    seen_.broken(
        "A stage emits items only while it is called: it used emit after the call that received it had "
        "returned. Don't keep emit: store later items in a member, and emit them in a later call or in "
        "finish().");
  calls_ = std::move(made);
  return results;
}

FEEDLINE_INLINE std::vector<hand_result> hand_stage_checks::drive(hand_stage& stage,
                                                                  std::size_t begin) const {
  std::vector<hand_result> results;
  for (std::size_t i = begin; i < calls_.size(); ++i) results.push_back(stage.call(calls_[i]));
  return results;
}

FEEDLINE_INLINE std::string hand_stage_checks::text(const hand_result& r) const {
  std::string text;
  for (const hand_output& o : r.given) {
    text += (text.empty() ? "" : ", ") + texts_.text(o.item);
    if (o.id.index != sample_id::no_index && described_->takes_samples())
      text += " (" + text_of_occasion({o.id.index, o.id.epoch}) + ")";
  }
  if (text.empty()) text = "nothing";
  if (r.has_enough) text += " and calls emit.enough()";
  if (!r.error.empty()) text += " and throws: " + r.error;
  return text;
}

FEEDLINE_INLINE bool hand_stage_checks::complain(const std::string& promise, std::size_t begin,
                                                 const std::vector<hand_result>& got,
                                                 const std::string& advice) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == results_[begin + i]) continue;
    seen_.broken(promise + ": for " + text_of_call(calls_[begin + i]) + " it emits " + text(got[i]) +
                 ", not " + text(results_[begin + i]) + ". " + advice + ".");
    return true;
  }
  return false;
}

FEEDLINE_INLINE void hand_stage_checks::note_items() {
  for (const hand_result& r : results_) {
    fails_ = fails_ || !r.error.empty();
    for (const hand_output& o : r.given) finite_items_.push_back(o.item);
  }
}

FEEDLINE_INLINE void hand_stage_checks::same_again() {
  seen_.doing("called copies of the stage with each input");
  const auto other = make_();
  const auto a = other->copy(), b = other->copy();
  if (complain("Copies are independent: another copy of the same stage emits other items", 0,
               drive(*described_->copy()),
               "Each run works on a copy of the stage: store everything that a call changes in members, "
               "not in a static or behind a pointer that copies share, and nothing may depend on time"))
    return;
  std::vector<hand_result> got[2];
  for (const hand_call& c : calls_) {
    got[0].push_back(a->call(c));
    got[1].push_back(b->call(c));
  }
  for (const auto& results : got)
    if (complain("Copies are independent: one of two copies, called alternately, emits other items", 0,
                 results,
                 "Store everything that a call changes in members, not in a static or behind a pointer "
                 "that copies share"))
      return;
  complain("The same seed yields the same items: a second stage that was made alike emits other items", 0,
           drive(*make_()),
           "Key random decisions by context.random. Nothing may depend on time or on addresses");
}

FEEDLINE_INLINE void hand_stage_checks::states(bool finite) {
  if (!described_->has_state()) return;
  for (const std::size_t at : spread(calls_.size(), 2 * options_.places)) {
    const std::string where = "before " + text_of_call(calls_[at]) + (finite ? "" : " of an infinite run");
    seen_.doing("read the stage's state " + where);
    const auto first = described_->copy();
    for (std::size_t i = 0; i < at; ++i) first->call(calls_[i]);
    const written_state state = first->write_state();
    const auto second = make_();
    std::ptrdiff_t left = 0;
    try {
      left = second->read_state(state);
    } catch (const std::exception& error) {
      return seen_.broken("A state is read as it was written: " + where +
                          " reading it throws: " + error.what() +
                          ". Name the same members in the same order for writing and for reading.");
    }
    if (left != 0)
      return seen_.broken("A state is read as it was written: state() wrote " +
                          std::to_string(state.words.size()) + " words " + where + " and read " +
                          std::to_string(static_cast<std::ptrdiff_t>(state.words.size()) - left) +
                          ". Name the same members in the same order for writing and for reading.");
    if (complain("Writing a state changes nothing: a stage whose state was written " + where +
                     " emits other items afterwards",
                 at, drive(*first, at), "state() must change nothing when it is called with a state_writer"))
      return;
    if (complain("A stage continues from its state: with the state " + where +
                     ", another stage emits other items",
                 at, drive(*second, at),
                 "Name everything that a call, finish() and end_epoch() change in state(archive), or leave "
                 "state() out"))
      return;
  }
}

FEEDLINE_INLINE void hand_stage_checks::identities() {
  if (!described_->takes_samples()) return;
  std::set<sample_id> given;
  std::set<std::pair<std::uint64_t, std::uint32_t>> received;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].is == hand_call::kind::item) received.emplace(calls_[i].input, calls_[i].epoch);
    for (const hand_output& o : results_[i].given) {
      if (!received.contains({o.id.index, o.id.epoch}))
        return seen_.broken("A sample keeps its identity: for " + text_of_call(calls_[i]) +
                            " the stage emits " + text_of_occasion({o.id.index, o.id.epoch}) +
                            ", which it did not receive. Emit the sample that arrived, or one with its id.");
      if (!given.insert(o.id).second)
        return seen_.broken("A sample is emitted once: for " + text_of_call(calls_[i]) + " the stage emits " +
                            text_of_occasion({o.id.index, o.id.epoch}) +
                            " once more. Let finish() forget the samples that it emitted, and use "
                            "different values of id.sub_index for parts of a sample.");
    }
  }
}

FEEDLINE_INLINE void hand_stage_checks::held() {
  if (!described_->takes_samples() || !described_->items_held()) return;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> given_at;
  for (std::size_t i = 0; i < calls_.size(); ++i)
    for (const hand_output& o : results_[i].given) given_at[{o.id.index, o.id.epoch}] = i;
  std::size_t max_held = 0, at = 0;
  std::set<std::pair<std::uint64_t, std::uint32_t>> now;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].is == hand_call::kind::item) now.emplace(calls_[i].input, calls_[i].epoch);
    for (auto it = now.begin(); it != now.end();) {
      const auto found = given_at.find(*it);
      if (found == given_at.end() || found->second <= i) it = now.erase(it);
      else ++it;
    }
    if (now.size() > max_held) {
      max_held = now.size();
      at = i;
    }
  }
  if (max_held > *described_->items_held())
    seen_.broken("A memory plan covers everything that a run holds: after " + text_of_call(calls_[at]) +
                 " the stage holds " + std::to_string(max_held) + " items, but its items_held() is " +
                 std::to_string(*described_->items_held()) + ". Return the most items that it ever holds.");
}

FEEDLINE_INLINE void hand_stage_checks::ends() {
  const auto stage_so_far = described_->copy();
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    // No calls follow emit.enough() in its epoch.
    if (calls_[i].is == hand_call::kind::item && stage_so_far->has_enough() == true &&
        !(results_[i].has_enough && results_[i].given.empty()))
      return seen_.broken(
          "has_enough() returns whether a stage has called emit.enough() in this epoch: before " +
          text_of_call(calls_[i]) + " it returns true, but then the stage emits " + text(results_[i]) +
          ". A run that is resumed there sends the stage no more items of the epoch. Return false "
          "from end_epoch() to the next emit.enough().");
    stage_so_far->call(calls_[i]);
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (!results_[i].has_enough) continue;
    if (!described_->ends_epochs())
      return seen_.broken(
          "A stage that can end an epoch declares it: for " + text_of_call(calls_[i]) +
          " it calls emit.enough(). Set ends_epochs in its stage_traits, or several ranks don't "
          "notice it in an infinite run.");
    const auto stage = described_->copy();
    for (std::size_t k = 0; k <= i; ++k) stage->call(calls_[k]);
    if (stage->has_enough() == false && calls_[i].is == hand_call::kind::item)
      return seen_.broken(
          "has_enough() returns whether a stage has called emit.enough() in this epoch: after " +
          text_of_call(calls_[i]) + ", which called it, it returns false.");
  }
}

FEEDLINE_INLINE void hand_stage_checks::unwanted() {
  seen_.doing("let emit() return false");
  for (const std::size_t wanted : {1u, 2u}) {
    const auto stage = described_->copy();
    for (const hand_call& c : calls_)
      if (stage->call(c, wanted).ignores_false)
        return seen_.broken("A stop ends a run at once: for " + text_of_call(c) +
                            " the stage continues after emit() has returned false " +
                            std::to_string(max_ignored) + " times. Return as soon as it does.");
  }
}

FEEDLINE_INLINE void hand_stage_checks::counts() {
  if (!described_->data_independent_count()) return;
  seen_.doing("called the stage with the inputs in another order");
  calls_ = all_calls(true);
  results_ = first_drive();
  const std::vector<hand_call> calls = all_calls(true, true);
  if (calls_.size() != calls.size()) return;
  const auto stage = described_->copy();
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (const std::size_t count = stage->call(calls[i]).given.size(); count != results_[i].given.size())
      return seen_.broken(
          "A stage with data_independent_count emits the same number of items for any inputs: with the "
          "inputs in the other order call " +
          std::to_string(i) + " emits " + std::to_string(count) + ", not " +
          std::to_string(results_[i].given.size()) + ". Leave data_independent_count out.");
}

FEEDLINE_INLINE stage_run_checks::stage_run_checks(any_runs& runs, std::size_t inputs, observed& seen,
                                                   const check_options& options)
    : runs_(runs), inputs_(inputs), seen_(seen), options_(options), checks_(runs, seen, options, "stage") {}

FEEDLINE_INLINE void stage_run_checks::given(const std::vector<std::size_t>& expected, bool fails) {
  if (fails) checks_.expect_failures();
  std::vector<std::size_t> got;
  for (const step& s : checks_.reference()) {
    if (s.is == step::kind::item) got.push_back(s.item);
    if (s.is == step::kind::error)
      return seen_.broken(
          "A run yields what its stages emit one item at a time: a finite run ends with the error \"" +
          s.message + "\", but the stage throws nothing when it is called directly.");
  }
  const auto at = static_cast<std::size_t>(
      std::mismatch(got.begin(), got.end(), expected.begin(), expected.end()).first - got.begin());
  if (at == got.size() && at == expected.size()) return;
  const auto text = [&](const std::vector<std::size_t>& items) {
    return at < items.size() ? runs_.texts().text(items[at]) : "the end";
  };
  seen_.broken("A run yields what its stages emit one item at a time: item " + std::to_string(at) +
               " (counted from 0) of a finite run of " + std::to_string(options_.epochs) + " epochs is " +
               text(got) + ", not " + text(expected) +
               ", which the stage emits when it is called directly. Nothing may depend on time, on the "
               "calling thread or on the stop token.");
}

FEEDLINE_INLINE void stage_run_checks::must_not_fail() {
  if (const step& last = checks_.reference().back(); last.is == step::kind::error)
    throw std::invalid_argument("feedline::testing: the stage fails with these inputs (" + last.message +
                                "): use other inputs for the check");
}

FEEDLINE_INLINE void stage_run_checks::all(const std::vector<std::size_t>& wanted) {
  checks_.all();
  failures();
  without_inputs();
  keeps(wanted);
}

FEEDLINE_INLINE void stage_run_checks::failures() {
  const std::vector<step>& whole = checks_.reference();
  for (const std::size_t number : spread(options_.epochs * inputs_, options_.places)) {
    const occasion fails{number % inputs_, static_cast<std::uint32_t>(number / inputs_)};
    const std::string what = text_of_occasion(fails);
    if (!checks_.continues_once_mended(fails, "upstream of the stage")) return;
    seen_.doing("skipped " + what + ", which fails upstream of the stage");
    run_order o = checks_.order();
    o.left_out = fails;
    o.on_error = on_error::skip;
    const std::vector<step> unspoilt = checks_.run(o);
    o = checks_.order();
    o.fails = fails;
    o.upstream = 2;
    o.on_error = on_error::skip;
    std::vector<step> expected = unspoilt, got = checks_.run(o);
    const std::vector<occasion> skipped = take_skipped(got);
    take_skipped(expected);
    if (checks_.complain(expected, got,
                         "A skipped sample affects no other: if " + what +
                             " fails upstream of the stage and is skipped, the run "
                             "yields other items than without that sample",
                         "Nothing may depend on time or on the calling thread"))
      return;
    const bool is_named = std::count(skipped.begin(), skipped.end(), fails) == 1;
    if (!is_named && unspoilt != whole)
      return seen_.broken("A skipped sample is recorded: if " + what +
                          " fails upstream of the stage and is skipped, failures() doesn't name it.");
  }
}

FEEDLINE_INLINE void stage_run_checks::without_inputs() {
  if (checks_.reference().back().is == step::kind::error) return; // it fails without a cause upstream
  seen_.doing("ran the stage without any inputs");
  run_order o = checks_.order();
  o.without_inputs = true;
  const std::vector<step> got = checks_.run(o);
  if (got.back().is == step::kind::error)
    seen_.broken("A run without samples ends: without any inputs the stage fails: " + got.back().message +
                 ". finish() must work without items.");
}

FEEDLINE_INLINE void stage_run_checks::keeps(std::vector<std::size_t> wanted) {
  if (!options_.keeps_all) return;
  if (wanted.empty())
    throw std::invalid_argument(
        "feedline::testing: keeps_all is for stages that emit items of the type that they receive");
  std::sort(wanted.begin(), wanted.end());
  for (std::uint32_t epoch = 0; epoch < options_.epochs; ++epoch) {
    std::vector<std::size_t> got;
    for (const step& s : checks_.reference())
      if (s.is == step::kind::item && s.id.epoch == epoch) got.push_back(s.item);
    std::sort(got.begin(), got.end());
    if (got == wanted) continue;
    std::vector<std::size_t> lost, added;
    std::set_difference(wanted.begin(), wanted.end(), got.begin(), got.end(), std::back_inserter(lost));
    std::set_difference(got.begin(), got.end(), wanted.begin(), wanted.end(), std::back_inserter(added));
    std::string text;
    for (const std::size_t item : lost)
      text += (text.empty() ? "" : ", ") + runs_.texts().text(item) + " is missing";
    for (const std::size_t item : added)
      text += (text.empty() ? "" : ", ") + runs_.texts().text(item) + " is surplus";
    return seen_.broken(
        "Each sample appears once: in epoch " + std::to_string(epoch) + " of a finite run " + text +
        ". finish() must emit each item that is still held, once. Unset keeps_all if the stage leaves "
        "samples out.");
  }
}

} // namespace feedline::inline FEEDLINE_ABI::testing::detail
#endif
