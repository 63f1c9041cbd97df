// SPDX-License-Identifier: MIT
#pragma once
// A source followed by stages, as one source: a part of sources such as concat, mix and zip.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/item_bytes.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A stage that emits at most one item for each, independently of earlier items.
template <class S>
concept can_stand_in_source = stateless<S> && traits_of<S>().position_from_last_sample;

/// Yields what the stages, at least one, emit for the source's samples, on the source's thread. Continues after samples that
/// a stage filters out.
template <source Source, class Stages>
class mapped_source {
  using item_of_source = source_item_t<Source>;
  using item = typename Stages::template output<item_of_source>;

 public:
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
    at_work_ =
        std::make_unique<at_work>(source_, composed_, key(e.seed, stable_hash("inside a source")), stop_);
    if constexpr (requires { source_.start_epoch(e); }) source_.start_epoch(e);
  }

  std::optional<item> next() {
    while (!stop_.stop_requested()) {
      ++calls_;
      auto value = source_.next();
      if (!value) break;
      ++given_;
      if (auto made = at_work_->make({std::move(*value), id_of(source_, given_ - 1, epoch_)})) return made;
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

  std::uint64_t extent() const { return extent_of(source_); }

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
    if (const known_bytes known = bytes_of_type<item>()) return known;
    return facts_of<item_of_source>(Stages(), composed_, max_item_bytes_of(source_)).back().size.emitted;
  }

  std::size_t bytes_held() const { return bytes_held_by(source_); }

 private:
  static constexpr bool is_one_to_one = []<class... S>(types<S...>) {
    return (traits_of<S>().one_to_one && ...);
  }(Stages());

  /// The stages at work in an epoch.
  struct at_work {
    at_work(const Source& source, const composed_stages& stages, std::uint64_t seed,
            const std::stop_token& stop)
        : worker(names_of(stage_name(source), stages, Stages()), stages.stages.data(), seed, on_error::fail,
                 stop) {}

    at_work(at_work&&) = delete;

    std::optional<item> make(sample<item_of_source>&& s) {
      outcomes<item>& made = worker.run(std::move(s));
      if (!made.failures.empty()) throw failure_inside(std::move(*made.failures.back().failure));
      if (made.values.empty()) return std::nullopt;
      return std::move(made.values.back().value);
    }

    sample_worker<item_of_source, Stages> worker;
  };

  Source source_;
  composed_stages composed_;
  std::unique_ptr<at_work> at_work_;
  std::uint32_t epoch_ = 0;
  std::stop_token stop_;
  std::uint64_t calls_ = 0;    // of the source's next() in this epoch
  std::uint64_t given_ = 0;    // samples that it yielded
  std::uint64_t left_out_ = 0; // of these, by the stages
};

} // namespace feedline::inline FEEDLINE_ABI::detail
