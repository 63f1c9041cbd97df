// SPDX-License-Identifier: MIT
#pragma once
// batch_into: workers write samples straight into their batch.
//
//     item ─▶ N workers, each filling a row of a batch ─▶ [queue, order restored] ─▶ rows in order ─▶ batch
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/detail/batch_rows.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The shapes of the tensors in a sample whose types have no shape, in the order of the fields.
struct shapes {
  std::vector<shape> of_tensors; ///< one for each tensor
};

namespace detail {

#ifdef NDEBUG
inline constexpr bool finds_unwritten_fields = false;
#else
inline constexpr bool finds_unwritten_fields = true;
#endif

template <class F, class In, class Slot>
concept fills_slot = std::is_invocable_v<F&, In, Slot&> || std::is_invocable_v<F&, In, Slot&, context&>;

/// Lets a function fill rows of batches.
template <class T, class Held>
class fill_stage {
 public:
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "batch_into",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true};

  fill_stage(std::shared_ptr<rows_in_order> places, Held f, std::string name)
      : f_(std::move(f)), name_(std::move(name)), places_(std::move(places)) {}

  fill_stage for_run() const { return {rows_of_run(*places_), f_, name_}; }

  const std::string& name() const { return name_; }

  template <class In>
  static consteval fit fits() {
    if constexpr (fills_slot<typename Held::called, In, batch_slot<T>>) return fit::yes;
    else return fills_slot<typename Held::changing, In, batch_slot<T>> ? fit::not_const : fit::wrong_argument;
  }

  /// A row, and what puts it into order.
  struct filled {
    batch_slot<T> slot;
    std::shared_ptr<rows_in_order> places;

    template <auto Member>
    decltype(auto) get() const {
      return slot.template get<Member>();
    }
  };

  template <class In>
  struct running {
    using output = filled;
    using function = decltype(std::declval<const Held&>().bind());

    /// Sets the next item's position in the stream.
    void begin_packet(std::uint64_t first_position) noexcept { position = first_position; }

    void operator()(In&& in, auto& emit, context& c) {
      batch_slot<T> slot;
      row_slot& at = slot_access::of(slot);
      at = places->reserve(position++);
      try {
        if constexpr (std::is_invocable_v<decltype(f.get()), In, batch_slot<T>&>)
          f.get()(std::move(in), slot);
        else f.get()(std::move(in), slot, c);
        if constexpr (finds_unwritten_fields) places->check_written(at, names_of_fields<T>());
      } catch (...) {
        places->release(at);
        throw;
      }
      emit(output{std::move(slot), places});
    }

    function f;
    std::shared_ptr<rows_in_order> places;
    std::uint64_t position = 0;
  };

  template <class In>
  known_bytes bytes_given(known_bytes) const {
    return sum_of(sizeof(filled), places_->bytes_of_item());
  }

  template <class In>
    requires(fill_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info& info) const {
    places_->expect(info.items_in_flight);
    return {f_.bind(), places_};
  }

 private:
  Held f_;
  std::string name_;
  std::shared_ptr<rows_in_order> places_;
};

/// Makes batches from filled rows.
template <class T, class Filled>
class row_gatherer : public rows_so_far {
 public:
  using output = batch_of<T>;

  using rows_so_far::rows_so_far;

  void operator()(sample<Filled>&& s, auto& emit) {
    places_ = std::move(s.value.places);
    ids_.begin(size_);
    places_->add(slot_access::of(s.value.slot), ids_.size());
    s.value.slot = {};
    ids_.add(s.id);
    if (is_full()) flush(emit);
  }

  void finish(auto& emit) {
    if (ids_.size() == 0) return;
    if (!options_.drop_last) return flush(emit);
    drop();
    places_->drop();
  }

 private:
  void flush(auto& emit) {
    const std::size_t rows = ids_.size();
    output b;
    try {
      batch_maker<T>::fill(b, std::exchange(ids_, {}), [&](auto& columns) {
        using tensors = typename row_columns_of<T>::tensors;
        static_assert(std::is_same_v<decltype(columns), tensors&>);
        places_->take(rows, &columns);
      });
    } catch (const std::exception& error) {
      places_->drop();
      throw lost_batch(rows, error);
    }
    emit_batch(std::move(b), emit);
  }

  std::shared_ptr<rows_in_order> places_;
};

template <class T>
struct gather_stage : batch_sizes {
  template <class In>
  row_gatherer<T, In> bind(const stage_info&) const {
    return {size, options};
  }

  template <class In>
  known_bytes bytes_given(known_bytes) const {
    const known_bytes ids = bytes_of_column(product_of(size, sizeof(sample_id)));
    return sum_of(sizeof(batch_of<T>), sum_of(bytes_of_rows, ids));
  }

  /// Rows in progress are stored in the next batches and counted there: this adds the rest of two blocks.
  /// While the current batch is stored elsewhere, no batch is being emitted.
  std::size_t items_begun() const noexcept { return 2; }

  known_bytes bytes_of_rows;
};

} // namespace detail

/// Gathers samples of type T into batches as map and batch would, but without a copy of each: workers write
/// samples straight into their batch.
///
///     struct example {
///       tensor<float, 3, 224, 224> pixels;
///       int label;
///     };
///     … | batch_into<example>(64, [](const tar_sample& s, batch_slot<example>& slot, context& c) {
///           decode_jpeg_crop(s["jpg"], …, chw_view(slot.get<&example::pixels>(), 3, 224, 224));
///           slot.get<&example::label>() = label_of(s);
///         }, workers{8})
///
/// Takes:   any item; the function is `f(item, batch_slot<T>&)` or `f(item, batch_slot<T>&, context&)`. It
///          fills the slot; all workers call it at once, as const (see per_worker). T is a number, a
///          std::optional number, an array or a tensor, or a plain struct, pair or tuple of those (of a text a std::array of
///          its most characters; texts and lists of any length need map and batch); options
///          workers{n}, name{…}, batch_options{…}, and shapes{…} for tensors whose types have no shape
/// Gives:   batch_of<T>, as batch does
/// Order:   kept, as batch does. After a failed sample the rows of samples in progress are moved up
/// Throws:  what the function throws, as a failure of its sample, and in a debug build std::logic_error for a
///          field that it didn't write; std::invalid_argument for a size of 0, or for missing or surplus shapes
/// Stops:   after the item in hand
template <class T, class F, class... Options>
auto batch_into(std::size_t size, F&& f, Options... options) {
  static_assert(
      ((detail::has_option<Options, name, workers, batch_options, shapes>)&&...),
      "feedline: after its function batch_into takes name{…}, workers{…}, batch_options{…} and shapes{…}");
  static_assert(detail::each_once<Options...>, "feedline: one of the `Options` of batch_into is given twice");
  static_assert(sizeof(batch_slot<T>) > 0); // which says what T must be
  if constexpr (!detail::has_row_columns<T>() || detail::refused<F>) {
    return detail::refused_pipeline();
  } else {
    using held = detail::held_function_t<F>;
    const auto options_of_batch = detail::option_or(batch_options{}, options...);
    auto places = detail::plan_rows({.rows = size,
                                     .shapes = detail::option_or(shapes{}, options...).of_tensors,
                                     .memory = options_of_batch.memory,
                                     .fields = detail::row_columns_of<T>::fields,
                                     .make_block = &detail::batch_block<T>::make,
                                     .block_size = sizeof(detail::batch_block<T>),
                                     .finds_unwritten_fields = detail::finds_unwritten_fields});
    const detail::gather_stage<T> gather{{size, options_of_batch}, places->bytes_of_batch()};
    detail::fill_stage<T, held> fill(std::move(places), held(std::forward<F>(f)),
                                     detail::option_or(name{}, options...).text);
    if constexpr (detail::has_option<workers, Options...>)
      return detail::append(
          detail::as_row(detail::make_parallel<true>(detail::option_or(workers::automatic, options...),
                                                     detail::as_row(std::move(fill)))),
          detail::as_row(gather));
    else return detail::append(detail::as_row(std::move(fill)), detail::as_row(gather));
  }
}

} // namespace feedline::inline FEEDLINE_ABI
