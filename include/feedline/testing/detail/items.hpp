// SPDX-License-Identifier: MIT
#pragma once
// Numbers for items of any type, equal ones for equal items, so that code that compares items needn't know
// their type.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/detail/value_text.hpp>

namespace feedline::inline FEEDLINE_ABI::testing {

/// The part of an item that the checks compare: the item itself if it has an operator==; else, for lists,
/// structs and batches, their elements.
struct as_it_is {
  template <class T>
  auto operator()(const T& item) const {
    if constexpr (feedline::detail::text_like<T>) {
      return std::string(std::string_view(item));
    } else if constexpr (requires {
                           item.ids();
                           item.size();
                         }) {
      std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>> ids;
      for (const sample_id& id : item.ids()) ids.emplace_back(id.index, id.sub_index, id.epoch);
      if constexpr (requires { item.values(); }) return std::pair(std::move(ids), (*this)(item.values()));
      else return ids;
    } else if constexpr (feedline::detail::range_like<T>) {
      using element = std::remove_cvref_t<decltype(*item.begin())>;
      std::vector<std::decay_t<decltype((*this)(std::declval<const element&>()))>> all;
      for (const auto& e : item) all.push_back((*this)(static_cast<const element&>(e)));
      return all;
    } else if constexpr (std::equality_comparable<T> && std::copy_constructible<T>) {
      return item;
    } else if constexpr (feedline::detail::has_fields<T>) {
      return std::apply([this](const auto&... field) { return std::tuple((*this)(field)...); },
                        feedline::detail::fields_of(item));
    } else {
      static_assert(
          std::equality_comparable<T>,
          "feedline: items of this type T can't be compared: give it an operator==, or pass a projection to "
          "the check, a function that turns an item into something with an operator==");
      return 0;
    }
  }
};

namespace detail {

/// Shows the items that the numbers stand for.
class item_texts {
 public:
  virtual ~item_texts() = default;

  const std::string& text(std::size_t number) const { return texts_[number]; }

 protected:
  std::vector<std::string> texts_;
};

template <class Item, class Project>
class item_table final : public item_texts {
 public:
  explicit item_table(Project project) : project_(std::move(project)) {}

  std::size_t number_of(const Item& item) {
    auto key = project_(item);
    // Runs yield much the same items in much the same order.
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      last_ = last_ + 1 < keys_.size() ? last_ + 1 : 0;
      if (keys_[last_] == key) return last_;
    }
    keys_.push_back(std::move(key));
    texts_.push_back(feedline::detail::value_text(item));
    return last_ = keys_.size() - 1;
  }

 private:
  Project project_;
  std::vector<std::decay_t<decltype(std::declval<const Project&>()(std::declval<const Item&>()))>> keys_;
  std::size_t last_ = 0;
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI::testing
