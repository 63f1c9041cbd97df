// SPDX-License-Identifier: MIT
#pragma once
// A custom stage that emits a variable number of items: packs documents into sequences of equal length.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/feedline.hpp>

/// Joins the tokens of documents, adds a mark after each document, and cuts the result into sequences of
/// `Length`. At the end of an epoch, finite mode pads the rest with marks; infinite mode continues it in the
/// next epoch.
template <std::size_t Length>
class packer {
 public:
  using output = std::array<int, Length>;

  /// The stage's name in messages and checkpoints.
  static constexpr feedline::stage_traits traits{.kind = "packer"};
  static constexpr int mark = 0; // not a token

  void operator()(const std::vector<int>& document, auto& emit) {
    for (const int token : document)
      if (!add(token, emit)) return;
    add(mark, emit);
  }

  /// Emits the padded rest, so that finite mode loses nothing.
  void finish(auto& emit) {
    if (rest_.empty()) return;
    rest_.resize(Length, mark);
    give(emit);
  }

  /// All that the stage keeps between two calls. A checkpoint stores it.
  void state(auto& archive) { archive(rest_); }

  /// For the memory plan: the stage holds less than one sequence of tokens and no documents.
  std::size_t bytes_held() const { return Length * sizeof(int); }

  /// A checkpoint of a packer with another length is rejected.
  std::uint64_t fingerprint() const { return Length; }

 private:
  // Returns false if no more items are wanted.
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
