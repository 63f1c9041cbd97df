// SPDX-License-Identifier: MIT
#pragma once
// A stage of one's own that gives several items for one: documents become sequences of equal length.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/feedline.hpp>

/// Joins the tokens of documents, with a mark after each, and cuts them into sequences of `Length`. What is left at the
/// end of an epoch of finite mode is filled up with marks; in infinite mode it goes on with the next epoch.
template <std::size_t Length>
class packer {
 public:
  using output = std::array<int, Length>;

  /// Its name in messages and checkpoints.
  static constexpr feedline::stage_traits traits{.kind = "packer"};
  static constexpr int mark = 0; // no token

  void operator()(const std::vector<int>& document, auto& emit) {
    for (const int token : document)
      if (!add(token, emit)) return;
    add(mark, emit);
  }

  /// Finite mode loses nothing.
  void finish(auto& emit) {
    if (rest_.empty()) return;
    rest_.resize(Length, mark);
    give(emit);
  }

  /// All that is kept between two calls. A run that is resumed reads it back.
  void state(auto& archive) { archive(rest_); }

  /// For the memory plan: it keeps no documents, but less than a sequence of tokens.
  std::size_t bytes_kept() const { return Length * sizeof(int); }

  /// A checkpoint of a packer for another length is refused.
  std::uint64_t fingerprint() const { return Length; }

 private:
  // False: nobody wants more.
  bool add(int token, auto& emit) {
    if (rest_.capacity() < Length) rest_.reserve(Length);
    rest_.push_back(token);
    return rest_.size() < Length || give(emit);
  }

  bool give(auto& emit) {
    output sequence;
    std::copy(rest_.begin(), rest_.end(), sequence.begin());
    rest_.clear();
    return emit(sequence);
  }

  std::vector<int> rest_; // fewer than Length
};
