// SPDX-License-Identifier: MIT
#pragma once
// windows: cuts a stream of tokens into windows of equal length.
//
//   documents  [a b c d e] [f g] [h i j k]   with a separator |
//   windows    [a b c d] [e | f g] [| h i j]  and a rest [k |]
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/block_cache.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of windows.
struct windows_options {
  /// From the beginning of a window to that of the next, in tokens; 0: the length of a window. A smaller stride makes
  /// windows overlap, a larger one leaves out the tokens between them.
  std::size_t stride = 0;
  std::optional<std::int64_t> separator{}; ///< a token to add after each document, such as "end of text"
  /// Leave out the tokens at the end of an epoch that don't fill a window. Otherwise finite mode emits them as
  /// a shorter window, which batch takes with padded or as_list.
  bool drop_last = true;
};

namespace detail {

template <class T>
concept token = std::integral<T> && !std::same_as<T, bool>;

/// The type of the tokens in a document, or of a single token.
template <class In>
struct token_of {};

template <token In>
struct token_of<In> {
  using type = In;
};

template <class In>
  requires requires(const In& document) {
    { document.data() } -> std::convertible_to<const typename In::value_type*>;
    { document.size() } -> std::convertible_to<std::size_t>;
    requires token<typename In::value_type>;
  }
struct token_of<In> {
  using type = typename In::value_type;
};

/// Sets the stride if none was given. Throws std::invalid_argument for parameters that windows can't have.
void check_windows(std::size_t length, windows_options& o);

/// Throws std::invalid_argument: the separator can't be a token, or there are no documents.
[[noreturn]] void throw_wrong_separator(std::int64_t separator, bool has_documents);

struct windows_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "windows"};

  template <class In>
  static consteval fit fits() {
    return requires { typename token_of<In>::type; } ? fit::yes : fit::wrong_argument;
  }

  template <class In>
  class running {
    using token_type = typename token_of<In>::type;

   public:
    using feedline_rows = void;
    using output = tensor<token_type>;

    running(std::size_t length, const windows_options& o) : length_(length), options_(o) {
      if (!o.separator) return;
      separator_ = static_cast<token_type>(*o.separator);
      if (token<In> || static_cast<std::int64_t>(separator_) != *o.separator ||
          (std::unsigned_integral<token_type> && *o.separator < 0))
        throw_wrong_separator(*o.separator, !token<In>);
    }

    void operator()(sample<In>&& s, auto& emit) {
      id_ = s.id;
      parts_ = 0;
      if constexpr (token<In>) {
        add({&s.value, 1}, emit);
      } else {
        const std::span<const token_type> document(std::as_const(s.value).data(), s.value.size());
        if (!document.empty() && add(document, emit) && options_.separator) add({&separator_, 1}, emit);
      }
    }

    /// Of single tokens: space for the next ones, up to the end of the window, or of the gap before it.
    std::span<In> room()
      requires token<In>
    {
      begin_window();
      const std::span<In> space(window_.begin() + held_, length_ - held_);
      return gap_ > 0 ? space.first(std::min(gap_, space.size())) : space;
    }

    void commit(const auto& ids, auto& emit)
      requires token<In>
    {
      id_ = ids[ids.size() - 1];
      parts_ = 0;
      if (gap_ > 0) gap_ -= ids.size();
      else if ((held_ += ids.size()) == length_) give(emit);
    }

    void finish(auto& emit) {
      if (!options_.drop_last && held_ > emitted_) {
        begin_window();
        window_.truncate(held_);
        emit(sample<output>{std::move(window_), part_of(id_, parts_++)});
      }
      window_ = output();
      gap_ = emitted_ = held_ = 0;
      rest_.clear();
    }

    void state(auto& archive) {
      if (window_.size() > 0) rest_.assign(window_.begin(), window_.begin() + held_);
      archive(gap_, emitted_, parts_, id_, rest_);
      if (rest_.size() >= length_) throw_state_not_whole();
      held_ = rest_.size();
    }

   private:
    // Adds tokens to the stream. Returns false if no more windows are wanted.
    bool add(std::span<const token_type> tokens, auto& emit) {
      for (;;) {
        const std::size_t skipped = std::min(gap_, tokens.size());
        gap_ -= skipped;
        tokens = tokens.subspan(skipped);
        if (tokens.empty()) return true;
        begin_window();
        const std::size_t count = std::min(tokens.size(), length_ - held_);
        std::copy_n(tokens.begin(), count, window_.begin() + held_);
        held_ += count;
        tokens = tokens.subspan(count);
        if (held_ == length_ && !give(emit)) return false;
      }
    }

    // Afterwards nothing fails until the window is full.
    void begin_window() {
      if (window_.size() > 0) return;
      rest_.reserve(length_);
      window_ = output(shape{length_});
      std::copy(rest_.begin(), rest_.end(), window_.begin());
    }

    // Emits the full window. A checkpoint may be taken meanwhile: it has the beginning of the next one.
    bool give(auto& emit) {
      const std::size_t leaving = std::min(options_.stride, length_);
      rest_.assign(window_.begin() + leaving, window_.end());
      held_ = emitted_ = rest_.size();
      gap_ = options_.stride - leaving;
      return emit(sample<output>{std::move(window_), part_of(id_, parts_++)});
    }

    std::size_t length_;
    windows_options options_;
    token_type separator_{};
    output window_;                // being filled
    std::vector<token_type> rest_; // what it begins with, while it has no memory
    std::size_t held_ = 0;         // tokens, fewer than a window
    std::size_t gap_ = 0;          // tokens to leave out before the next window
    std::size_t emitted_ = 0;      // the first tokens of the next window that the last one had, too
    sample_id id_;                 // of the last document
    std::uint64_t parts_ = 0;      // the windows that ended in it
  };

  template <class In>
    requires(windows_stage::fits<In>() == fit::yes)
  running<In> bind(const stage_info&) const {
    return {length, options};
  }

  template <class In>
  known_bytes bytes_given(known_bytes) const {
    using token_type = typename token_of<In>::type;
    const known_bytes tokens = product_of(length, sizeof(token_type));
    return tokens ? sum_of(sizeof(tensor<token_type>), block_cache::bytes_for(*tokens)) : tokens;
  }

  std::size_t bytes_held() const noexcept { return 2 * length * sizeof(std::uint64_t); }

  std::size_t state_bytes() const noexcept { return length * sizeof(std::uint64_t); }

  std::uint64_t fingerprint() const noexcept {
    return key(length, options.stride, options.separator.has_value(),
               static_cast<std::uint64_t>(options.separator.value_or(0)), options.drop_last);
  }

  std::size_t length;
  windows_options options; // with a stride
};

} // namespace detail

/// Joins documents to one stream of tokens and cuts it into windows of `length` tokens, such as the sequences that a
/// language model is trained with. A window may hold the end of one document and the beginning of the next.
///
/// In finite mode no window holds tokens of two epochs; in infinite mode the stream continues into the next epoch. A
/// checkpoint contains the tokens that don't fill a window yet. Shuffle and tokenize documents upstream of it;
/// shuffle windows downstream.
/// Takes:   documents: std::vector, std::string, tensor or another contiguous list of whole numbers; or single tokens
/// Gives:   tensor<token> of shape [length], which batch stacks to [batch, length]. A window belongs to the document that
///          completes it. With a separator, each document ends with it; a document without tokens adds nothing
/// Order:   kept
/// Throws:  when called, std::invalid_argument for a length of 0; before the first item of a run, pipeline_error for a
///          separator that isn't a value of the tokens' type, and for a separator of single tokens
/// Stops:   after the window in hand
/// Example: `lines("*.txt") | map(tokenize, workers{4}) | windows(1025, {.stride = 1024, .separator = 0}) | batch(8)`: 1024
///          inputs, and as targets the same shifted by one
inline auto windows(std::size_t length, windows_options options = {}) {
  detail::check_windows(length, options);
  return detail::windows_stage{length, options};
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_STAGE)
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_windows(std::size_t length, windows_options& o) {
  if (length == 0) throw std::invalid_argument("feedline::windows: a window needs at least one token");
  refuse_negative(length, "feedline::windows: the length");
  refuse_negative(o.stride, "feedline::windows: the stride");
  if (o.stride == 0) o.stride = length;
}

FEEDLINE_INLINE void throw_wrong_separator(std::int64_t separator, bool has_documents) {
  throw std::invalid_argument(
      has_documents ? "feedline::windows: the separator " + std::to_string(separator) +
                          " is not a value of the tokens' type"
                    : "feedline::windows: single tokens have no separator: add it to the stream, or make "
                      "each item a document");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
