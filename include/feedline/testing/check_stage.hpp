// SPDX-License-Identifier: MIT
#pragma once
// check_stage: checks that a stage keeps the promises of pipelines that contain it.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/held_samples.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>
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

#ifndef FEEDLINE_COMPILED
#include <feedline/testing/check_stage.ipp>
#endif
