// SPDX-License-Identifier: MIT
#pragma once
// any_loader, any_pipeline: types without the stages, for class members and for files that are compiled
// separately.
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <feedline/core/loader.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/pipeline.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A loader of items of one type, for any pipeline.
template <class Item>
using any_loader = loader<Item>;

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
