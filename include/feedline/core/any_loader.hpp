// SPDX-License-Identifier: MIT
#pragma once
// any_loader, any_pipeline: types without the stages, for class members and for files that are compiled
// separately.
#include <chrono>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/loader.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/pipeline.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A loader of items of one type, for any pipeline. Each member works like that of loader, at the cost of a
/// virtual call. A default-constructed or moved-from one behaves as a stopped one.
template <class Item>
class any_loader {
  struct base;

 public:
  using value_type = Item; ///< the type of an item

  any_loader() = default;

  /// Takes over a loader of the same items.
  template <class Run>
    requires std::same_as<typename loader<Run>::value_type, Item>
  any_loader(loader<Run> run) : run_(std::make_unique<held<loader<Run>>>(std::move(run))) {}

  ///@{
  /// As the member of loader with this name.
  next_result<Item> next() { return run_ ? run_->next() : next_result<Item>(std::nullopt, true); }

  next_result<Item> try_next() { return next_for(std::chrono::nanoseconds(0)); }

  next_result<Item> next_for(std::chrono::nanoseconds longest) {
    return run_ ? run_->next_for(longest) : next_result<Item>(std::nullopt, true);
  }

  run_state state() const { return run_ ? run_->state() : run_state::stopped; }

  void stop() {
    if (run_) run_->stop();
  }

  bool stopped() const { return !run_ || run_->stopped(); }

  const std::vector<failure>& failures() const {
    static const std::vector<failure> none;
    return run_ ? run_->failures() : none;
  }

  const std::vector<failure_count>& failure_counts() const {
    static const std::vector<failure_count> none;
    return run_ ? run_->failure_counts() : none;
  }

  feedline::metrics metrics() { return run_ ? run_->metrics() : feedline::metrics{}; }

  memory_plan memory() const { return run_ ? run_->memory() : memory_plan{}; }

  /// Throws std::logic_error where that of loader wouldn't compile: for unordered workers or stages, queues that drop
  /// samples and live sources.
  feedline::checkpoint checkpoint() const {
    if (!run_) throw std::logic_error("feedline: a loader that was moved from has no checkpoint");
    return run_->checkpoint();
  }

  std::uint64_t digest() const { return run_ ? run_->digest() : 0; }

  using iterator = detail::item_iterator<base>;

  iterator begin() {
    if (state() == run_state::finished) detail::refuse_spent();
    return iterator(run_.get());
  }

  std::default_sentinel_t end() const { return {}; }

  ///@}

 private:
  struct base {
    using value_type = Item;

    virtual ~base() = default;
    virtual next_result<Item> next() = 0;
    virtual next_result<Item> next_for(std::chrono::nanoseconds longest) = 0;
    virtual run_state state() const = 0;
    virtual void stop() = 0;
    virtual bool stopped() const = 0;
    virtual const std::vector<failure>& failures() const = 0;
    virtual const std::vector<failure_count>& failure_counts() const = 0;
    virtual feedline::metrics metrics() = 0;
    virtual memory_plan memory() const = 0;
    virtual feedline::checkpoint checkpoint() const = 0;
    virtual std::uint64_t digest() const = 0;

    std::optional<Item> current; // of the iterator
  };

  template <class Loader>
  struct held final : base {
    explicit held(Loader run) : run_(std::move(run)) {}

    next_result<Item> next() override { return run_.next(); }

    next_result<Item> next_for(std::chrono::nanoseconds longest) override { return run_.next_for(longest); }

    run_state state() const override { return run_.state(); }

    void stop() override { run_.stop(); }

    bool stopped() const override { return run_.stopped(); }

    const std::vector<failure>& failures() const override { return run_.failures(); }

    const std::vector<failure_count>& failure_counts() const override { return run_.failure_counts(); }

    feedline::metrics metrics() override { return run_.metrics(); }

    memory_plan memory() const override { return run_.memory(); }

    feedline::checkpoint checkpoint() const override {
      if constexpr (Loader::has_checkpoints) return run_.checkpoint();
      else
        throw std::logic_error(
            "feedline: a run with unordered workers or stages, a queue that drops samples or a live "
            "source can't be resumed");
    }

    std::uint64_t digest() const override { return run_.digest(); }

   private:
    Loader run_;
  };

  std::unique_ptr<base> run_;
};

/// A pipeline of items of one type, with any stages. An inexpensive value. A file that is compiled separately
/// can return one, so that files that include its header needn't compile the stages:
///
///     fl::any_pipeline<fl::batch_of<photo>> photos(const options& o); // its .cpp file composes the pipeline
template <class Item>
class any_pipeline {
 public:
  using item = Item; ///< the type of the items that a run yields

  /// Takes over a pipeline of the same items.
  template <class Source, class... Segments>
    requires std::same_as<typename pipeline<Source, Segments...>::item, Item>
  any_pipeline(pipeline<Source, Segments...> p)
      : pipeline_(std::make_shared<const held<pipeline<Source, Segments...>>>(std::move(p))) {}

  ///@{
  /// As the member of pipeline with this name.
  any_loader<Item> finite(const finite_options& o = {}) const { return pipeline_->finite(o); }

  any_loader<Item> infinite(const infinite_options& o = {}) const { return pipeline_->infinite(o); }

  memory_plan memory(const infinite_options& o = {}) const { return pipeline_->memory(o); }

  std::optional<std::uint64_t> size(const finite_options& o = {}) const { return pipeline_->size(o); }

  ///@}

 private:
  struct base {
    virtual ~base() = default;
    virtual any_loader<Item> finite(const finite_options& o) const = 0;
    virtual any_loader<Item> infinite(const infinite_options& o) const = 0;
    virtual memory_plan memory(const infinite_options& o) const = 0;
    virtual std::optional<std::uint64_t> size(const finite_options& o) const = 0;
  };

  template <class Pipeline>
  struct held final : base {
    explicit held(Pipeline p) : pipeline_(std::move(p)) {}

    any_loader<Item> finite(const finite_options& o) const override { return pipeline_.finite(o); }

    any_loader<Item> infinite(const infinite_options& o) const override { return pipeline_.infinite(o); }

    memory_plan memory(const infinite_options& o) const override { return pipeline_.memory(o); }

    std::optional<std::uint64_t> size(const finite_options& o) const override { return pipeline_.size(o); }

   private:
    Pipeline pipeline_;
  };

  std::shared_ptr<const base> pipeline_;
};

} // namespace feedline::inline FEEDLINE_ABI
