// SPDX-License-Identifier: MIT
#pragma once
// any_loader, any_pipeline: types without the stages, for class members and for files that are compiled
// separately.
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

#include <feedline/core/loader.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/run/run_type.hpp>

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
  any_pipeline(const pipeline<Source, Segments...>& p) : any_pipeline(p.type(), p.described()) {}

  /// For the library: the type must live as long as the described source.
  any_pipeline(const detail::run_type& type, detail::described_pipeline described)
      : type_(&type), described_(std::move(described)) {}

  ///@{
  /// As the member of pipeline with this name.
  any_loader<Item> finite(const finite_options& o = {}) const { return start(detail::as_run_options(o)); }

  any_loader<Item> infinite(const infinite_options& o = {}) const { return start(detail::as_run_options(o)); }

  memory_plan memory(const infinite_options& o = {}) const {
    return described_.memory(*type_, detail::as_run_options(o));
  }

  std::optional<std::uint64_t> size(const finite_options& o = {}) const {
    return described_.size(*type_, detail::as_run_options(o));
  }

  ///@}

 private:
  any_loader<Item> start(const detail::run_options& options) const {
    return any_loader<Item>(described_.start(*type_, options, &detail::own<Item>));
  }

  const detail::run_type* type_;
  detail::described_pipeline described_;
};

} // namespace feedline::inline FEEDLINE_ABI
