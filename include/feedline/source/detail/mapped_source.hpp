// SPDX-License-Identifier: MIT
#pragma once
// A source followed by stages, as one source: a part of sources such as concat, mix and zip.
#include <feedline/core/contract.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/sample_worker.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A stage that emits at most one item for each, independently of earlier items.
template <class S>
concept can_stand_in_source = stateless<S> && traits_of<S>().position_from_last_sample;

/// A sample that still has to pass the last stages of its source.
template <class Item>
struct unfinished {
  Item value;
  sample_id id;       // in its source
  std::uint64_t seed; // of that
};

/// Yields what the stages, at least one, emit for the source's samples, on the source's thread. Continues after samples that
/// a stage filters out. It may pass them through the first `Here` stages only.
template <source Source, class Stages, std::size_t Here = Stages::size>
class mapped_source {
  using item_of_source = source_item_t<Source>;

 public:
  static constexpr bool finishes = Here == Stages::size;
  using stages_here = typename Stages::template first<Here>;
  using made_here = typename stages_here::template output<item_of_source>;
  using item = std::conditional_t<finishes, made_here, unfinished<made_here>>;

  static constexpr source_traits traits = [] {
    source_traits t = source_traits_of<Source>();
    t.yields_file_names = false;
    return t;
  }();

  mapped_source(Source source, composed_stages stages)
      : source_(std::move(source)), composed_(std::move(stages)) {}

  mapped_source(const mapped_source& other) : mapped_source(other.source_, other.composed_) {}

  mapped_source(mapped_source&&) noexcept = default;

  void start_epoch(const epoch& e) {
    epoch_ = e.number;
    stop_ = e.stop;
    // The stages after the whole source are numbered separately: they must not get the same random numbers.
    seed_ = key(e.seed, stable_hash("inside a source"));
    if constexpr (Here > 0)
      at_work_ = std::make_unique<worker>(names(), composed_.stages.data(), seed_, on_error::fail, stop_);
    if constexpr (requires { source_.start_epoch(e); }) source_.start_epoch(e);
  }

  std::optional<item> next() {
    while (!stop_.stop_requested()) {
      ++calls_;
      auto value = source_.next();
      if (!value) break;
      ++given_;
      sample<item_of_source> s{std::move(*value), id_of(source_, given_ - 1, epoch_)};
      if constexpr (Here == 0) {
        return item{std::move(s.value), s.id, seed_};
      } else if (auto made = at_work_->run_for_one(std::move(s))) {
        if constexpr (finishes) return std::move(made->value);
        else return item{std::move(made->value), made->id, seed_};
      }
      ++left_out_;
    }
    return std::nullopt;
  }

  std::uint64_t index() const { return index_of(source_, given_ - 1); }

  std::uint32_t repetition() const
    requires has_repetition<Source>
  {
    return source_.repetition();
  }

  /// All stages, as described.
  const composed_stages& composed() const noexcept { return composed_; }

  /// The names of the source and the stages.
  std::vector<std::string> names() const { return names_of(stage_name(source_), composed_, Stages()); }

  /// The source before the stages, as described.
  const Source& before_stages() const noexcept { return source_; }

  std::string origin(std::uint64_t index) const { return origin_of(source_, index); }

  bool ready() const
    requires says_when_ready<Source>
  {
    // If a stage filters the next sample out, next() waits for the one after it.
    return is_one_to_one && source_.ready();
  }

  void state(auto& archive)
    requires can_be_resumed<Source>
  {
    archive(calls_, given_);
    if constexpr (has_state<Source>) source_.state(archive);
  }

  void resumed() {
    if constexpr (!has_state<Source>) skip_samples(source_, calls_, calls_ - given_, stop_);
    else if constexpr (requires { source_.resumed(); }) source_.resumed();
  }

  void seek(std::uint64_t index, std::uint32_t repetition = 0)
    requires can_seek<Source>
  {
    seek_sample(source_, index, repetition);
  }

  bool seeks() const
    requires can_seek<Source>
  {
    return detail::seeks(source_);
  }

  std::uint64_t extent() const { return extent_of(source_); }

  std::string parameters() const {
    std::string all = parameters_of(source_), names;
    Stages::visit(composed_, [&](const auto& stage) { add_name(names, stage_name(stage)); });
    add_parameters(all, "the stages after " + stage_name(source_) + ": " + names);
    return all;
  }

  std::string outage() const { return outage_of(source_); }

  std::uint64_t left_out() const { return left_out_ + left_out_in(source_); }

  std::string filters() const {
    std::string names = filters_in(source_);
    Stages::visit(composed_, [&]<class S>(const S& stage) {
      if (!traits_of<S>().data_independent_count) add_name(names, stage_name(stage));
    });
    return names;
  }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    std::uint64_t hash = fingerprint_of(source_, extent, stop);
    Stages::visit(composed_, [&](const auto& stage) { hash = key_with_stage(hash, stage); });
    return hash;
  }

  std::optional<std::size_t> max_item_bytes() const {
    known_bytes most = bytes_of_type<made_here>();
    if (!most && Here == 0) most = max_item_bytes_of(source_);
    else if (!most)
      most =
          facts_of<item_of_source>(stages_here(), composed_, max_item_bytes_of(source_)).back().size.emitted;
    return sum_of(most, sizeof(item) - sizeof(made_here));
  }

  std::size_t bytes_held() const { return bytes_held_by(source_); }

  std::shared_ptr<const void> in_run(const std::stop_token& stop) const {
    return detail::in_run(source_, stop);
  }

 private:
  static constexpr bool is_one_to_one = []<class... S>(types<S...>) {
    return (traits_of<S>().one_to_one && ...);
  }(Stages());

  using worker = sample_worker<item_of_source, stages_here>;

  Source source_;
  composed_stages composed_;
  std::unique_ptr<worker> at_work_; // in an epoch
  std::uint64_t seed_ = 0;
  std::uint32_t epoch_ = 0;
  std::stop_token stop_;
  std::uint64_t calls_ = 0;    // of the source's next() in this epoch
  std::uint64_t given_ = 0;    // samples that it yielded
  std::uint64_t left_out_ = 0; // of these, by the stages
};

/// Finishes samples of a source, one after another. Copies share nothing: each thread has its own.
template <source Source>
class finisher {
 public:
  using output = source_item_t<Source>;
  static constexpr bool has_work = false;

  explicit finisher(const Source&) {}

  output finish(output&& item, const std::stop_token&) { return std::move(item); }

  std::string name() const { return {}; }

  known_bytes bytes_given(known_bytes in) const { return in; }
};

template <source Source, class Stages, std::size_t Here>
  requires(Here < Stages::size)
class finisher<mapped_source<Source, Stages, Here>> {
  using of = mapped_source<Source, Stages, Here>;
  using in = typename of::made_here;
  using stages_later = decltype([]<std::size_t... I>(std::index_sequence<I...>) {
    return types<typename Stages::template element<Here + I>...>();
  }(std::make_index_sequence<Stages::size - Here>()));
  using worker = sample_worker<in, stages_later>;

 public:
  using output = typename stages_later::template output<in>;
  static constexpr bool has_work = true;

  explicit finisher(const of& source)
      : names_(std::make_shared<const std::vector<std::string>>(source.names())),
        composed_(source.composed()) {}

  finisher(const finisher& other) : names_(other.names_), composed_(other.composed_) {}

  finisher(finisher&&) noexcept = default;

  /// Throws failure_inside.
  output finish(unfinished<in>&& u, const std::stop_token& stop) {
    if (!at_work_ || seed_ != u.seed) // another epoch, or another pass over the source
      at_work_ = std::make_unique<worker>(*names_, composed_.stages.data() + Here, u.seed, on_error::fail,
                                          stop, outcome_limits(), stages_before{.count = Here});
    seed_ = u.seed;
    return std::move(at_work_->run_for_one({std::move(u.value), u.id}).value().value);
  }

  /// "map `decode` + map `crop`"
  std::string name() const {
    std::string all;
    for (std::size_t i = Here + 1; i < names_->size(); ++i) all += (all.empty() ? "" : " + ") + (*names_)[i];
    return all;
  }

  known_bytes bytes_given(known_bytes bytes) const {
    if (const known_bytes known = bytes_of_type<output>()) return known;
    composed_stages later = composed_;
    later.stages.erase(later.stages.begin(), later.stages.begin() + Here);
    return facts_of<in>(stages_later(), later, bytes).back().size.emitted;
  }

  /// The segment of its workers.
  const segment_description& segment() const noexcept { return composed_.segments.back(); }

 private:
  std::shared_ptr<const std::vector<std::string>> names_;
  composed_stages composed_;
  std::unique_ptr<worker> at_work_;
  std::uint64_t seed_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
