// SPDX-License-Identifier: MIT
#pragma once
// A pipeline in which identities of samples take the place of items, in the order of the original.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/share.hpp>
#include <feedline/stage/batch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Takes the place of an item: where a shuffle has moved it.
struct order_mark {
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  std::uint64_t from = unknown; ///< position before the shuffle
  std::uint64_t to = unknown;   ///< position after it
  std::uint64_t range = 0;      ///< the number of positions, if the source moves it within an epoch
};

using batch_of_marks = batch_of<order_mark, as_list_t>;

/// What a run delivered.
struct observed_order {
  template <class Loader>
  void observe(Loader loader, std::uint64_t batches) {
    while (ends.size() < batches) {
      const auto next = loader.next();
      if (!next) break;
      ids.insert(ids.end(), next->ids().begin(), next->ids().end());
      marks.insert(marks.end(), next->values().begin(), next->values().end());
      ends.push_back(ids.size());
    }
  }

  /// Counts a shuffle buffer of `capacity` items.
  void add_buffer(double capacity) noexcept { squared_reach += (capacity - 1) * (capacity - 1); }

  std::vector<sample_id> ids;
  std::vector<order_mark> marks;
  std::vector<std::size_t> ends; // of the batches
  double squared_reach = 0;      // of the shuffle buffers
  bool source_is_random = false; // in an order of its own
  bool has_positions = false;    // the source, in all of its marks
  std::uint64_t files = 0;       // of the source; 0: unknown
  std::size_t batch_size = 1;    // of the stages so far
  std::vector<std::string> notes;
};

/// The order of samples by position, which aren't read.
template <class Samples>
class unread_in_order : public samples_in_order<Samples> {
 public:
  explicit unread_in_order(samples_in_order<Samples> s) : samples_in_order<Samples>(std::move(s)) {}

  std::optional<order_mark> next() { return this->advance() ? std::optional(order_mark()) : std::nullopt; }
};

/// The order of a source that knows its positions, which isn't read.
template <dealt_source Source>
class unread_positions {
 public:
  static constexpr source_traits traits = source_traits_of<Source>();

  explicit unread_positions(Source source) : source_(std::move(source)) {}

  void start_epoch(const epoch& e) { start_source(source_, e); }

  std::optional<order_mark> next() {
    if (next_ == share().size) return std::nullopt;
    place_ = source_.place_of(next_);
    const auto scale = static_cast<double>(share().size) / static_cast<double>(share().places);
    return order_mark{static_cast<std::uint64_t>(static_cast<double>(place_) * scale), next_++, share().size};
  }

  std::uint64_t index() const { return source_.index_at(place_); }

  std::uint32_t repetition() const
    requires has_repetition<Source>
  {
    if constexpr (requires { source_.repetition_at(next_); }) return source_.repetition_at(next_ - 1);
    else return 0;
  }

  const auto& share() const noexcept { return source_.share(); }

 private:
  Source source_;
  std::uint64_t next_ = 0;
  std::uint64_t place_ = 0;
};

template <class Source>
inline constexpr bool only_has_positions = false;
template <class Samples>
inline constexpr bool only_has_positions<samples_in_order<Samples>> = true;

/// A source that yields the same samples, as far as possible without reading them, and without the stages inside it.
template <source Source>
auto without_items(const Source& s, std::vector<std::string>& notes) {
  if constexpr (requires { s.before_stages(); }) {
    if (const std::string names = s.filters(); !names.empty())
      notes.push_back("samples that " + names + " leaves out inside the source are counted");
    return without_items(s.before_stages(), notes);
  } else if constexpr (requires { s.with_parts([](const auto& part) { return part; }); }) {
    return s.with_parts([&](const auto& part) { return without_items(part, notes); });
  } else if constexpr (dealt_source<Source>) {
    return unread_positions<Source>(s);
  } else if constexpr (only_has_positions<Source>) {
    return unread_in_order(s);
  } else {
    return s;
  }
}

/// Yields marks in place of the samples, which are destroyed at once.
template <source Source>
class marking_source {
 public:
  static constexpr source_traits traits = source_traits_of<Source>();

  explicit marking_source(Source source) : source_(std::move(source)) {}

  void start_epoch(const epoch& e) { start_source(source_, e); }

  std::optional<order_mark> next() {
    auto item = source_.next();
    if constexpr (std::is_same_v<decltype(item), std::optional<order_mark>>) return item;
    else return item ? std::optional(order_mark()) : std::nullopt;
  }

  std::uint64_t index() const
    requires has_index<Source>
  {
    return source_.index();
  }

  std::uint32_t repetition() const
    requires has_repetition<Source>
  {
    return source_.repetition();
  }

  const auto& share() const noexcept
    requires splits_samples_by_rank<Source>
  {
    return source_.share();
  }

  std::string origin(std::uint64_t index) const { return origin_of(source_, index); }

  std::uint64_t extent() const { return extent_of(source_); }

  std::string parameters() const { return parameters_of(source_); }

  std::string outage() const { return outage_of(source_); }

 private:
  Source source_;
};

/// Takes the place of a stage without an effect on the order.
template <bool BelongsToSource>
struct passing_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "left out",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true,
                                       .belongs_to_source = BelongsToSource};

  template <class In>
  struct running {
    using output = In;

    void operator()(sample<In>&& s, auto& emit) { emit(std::move(s)); }
  };

  template <class In>
  running<In> bind(const stage_info&) const {
    return {};
  }
};

/// Calls `f` with the mark, or with each mark of the batch.
template <class In, class F>
void for_each_mark(In& item, F f) {
  if constexpr (std::is_same_v<In, order_mark>) f(item);
  else
    for (order_mark& mark : item.values()) f(mark);
}

/// A shuffle buffer that notes the positions at which marks enter and leave it.
template <class Buffer>
struct watched_buffer : Buffer {
  template <class In>
  class running : public bound_t<Buffer, In> {
    using base = bound_t<Buffer, In>;

    template <class Emit>
    struct watching_emit {
      bool operator()(sample<In>&& s) {
        for_each_mark(s.value, [&](order_mark& mark) {
          if (mark.range == 0) mark.to = left++;
        });
        return emit(std::move(s));
      }

      void enough() { emit.enough(); }

      void hand_over() { emit.hand_over(); }

      Emit& emit;
      std::uint64_t& left;
    };

   public:
    explicit running(base&& b) : base(std::move(b)) {}

    void operator()(sample<In>&& s, auto& emit) {
      for_each_mark(s.value, [&](order_mark& mark) {
        if (mark.from == order_mark::unknown) mark.from = entered_;
        ++entered_;
      });
      watching_emit<std::remove_reference_t<decltype(emit)>> watching{emit, left_};
      base::operator()(std::move(s), watching);
    }

    void finish(auto& emit)
      requires requires(base& b) { b.finish(emit); }
    {
      watching_emit<std::remove_reference_t<decltype(emit)>> watching{emit, left_};
      base::finish(watching);
    }

   private:
    std::uint64_t entered_ = 0;
    std::uint64_t left_ = 0;
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    return running<In>(Buffer::template bind<In>(info));
  }
};

/// A stage that gathers items into batches by their number.
template <class S>
concept gathers_by_number = requires(const S& s) {
  { s.samples_in_one() } -> std::convertible_to<std::size_t>;
  { s.options.drop_last } -> std::convertible_to<bool>;
};

/// A stage that works with marks as it does with items, such as shuffle, take and skip.
template <class S, class In>
concept works_with_marks =
    traits_of<S>().unchanged && !traits_of<S>().unordered && !stateless<S> && fit_of<S, In>() == fit::yes;

/// A shuffle buffer among them.
template <class S, class In>
concept buffers_marks = works_with_marks<S, In> && traits_of<S>().random_order && binds_to<S, In> &&
                        takes_sample<bound_t<S, In>, In> && requires(const S& s) { s.items_held(); };

/// What takes the place of a stage, whose input has the type In.
template <class In, class S>
auto stage_of_ids(const S& stage, observed_order& order) {
  if constexpr (gathers_by_number<S> && std::is_same_v<In, order_mark>) {
    order.batch_size = stage.samples_in_one();
    return batch_stage<as_list_t>{{order.batch_size, {.drop_last = stage.options.drop_last}}, as_list};
  } else if constexpr (buffers_marks<S, In>) {
    order.add_buffer(static_cast<double>(stage.items_held()) * static_cast<double>(order.batch_size));
    return watched_buffer<S>{stage};
  } else if constexpr (works_with_marks<S, In>) {
    return stage;
  } else {
    constexpr stage_traits traits = traits_of<S>();
    constexpr bool is_of_user = !part<S> && !traits.stateless;
    if (is_of_user || !traits.one_to_one || traits.random_order || traits.unordered)
      order.notes.push_back(stage_name(stage) + " counts as if it passed on each item, in order");
    return passing_stage<traits.belongs_to_source>();
  }
}

template <class Source, class In, class... Done>
auto append_stages(types<>, const std::shared_ptr<const void>*, const std::shared_ptr<const void>& source,
                   std::size_t batch_size, observed_order& order, Done... done) {
  if constexpr (std::is_same_v<In, order_mark>) {
    order.notes.push_back("the pipeline has no batch(): " + std::to_string(batch_size) +
                          " samples in a row count as a batch");
    batch_stage<as_list_t> gather{{batch_size, {}}, as_list};
    return append_stages<Source, batch_of_marks>(types<>(), nullptr, source, batch_size, order,
                                                 std::move(done)..., std::move(gather));
  } else {
    return pipeline<Source, segment<segment_traits{}, Done...>>(source, serial(std::move(done)...));
  }
}

/// Replaces the stages from `at` on, and composes them all.
template <class Source, class In, class S, class... Rest, class... Done>
auto append_stages(types<S, Rest...>, const std::shared_ptr<const void>* at,
                   const std::shared_ptr<const void>& source, std::size_t batch_size, observed_order& order,
                   Done... done) {
  auto stage = stage_of_ids<In>(*static_cast<const S*>(at->get()), order);
  using out = stage_output_t<decltype(stage), In>;
  return append_stages<Source, out>(types<Rest...>(), at + 1, source, batch_size, order, std::move(done)...,
                                    std::move(stage));
}

/// A pipeline whose samples can be read twice.
template <class Pipeline>
inline constexpr bool can_be_reread = false;
template <class Source, class... Segments>
inline constexpr bool can_be_reread<pipeline<Source, Segments...>> = !live_source<Source>;

/// The pipeline of ids of a pipeline, which yields batches. Each stage keeps its number, and so its random key.
template <source Source, class... Segments>
auto pipeline_of_ids(const pipeline<Source, Segments...>& p, std::size_t batch_size, observed_order& order) {
  if ((!Segments::traits.ordered || ...))
    order.notes.push_back("unordered workers count as if they kept the order");
  if ((Segments::traits.drops() || ...)) order.notes.push_back("queues count as if they dropped no samples");
  if constexpr (splits_files_by_rank<Source>) order.files = extent_of(p.source());
  order.source_is_random = source_traits_of<Source>().random_order;
  order.has_positions = dealt_source<Source>;
  using stages = typename segment_list<Segments...>::stage_types;
  using marking = marking_source<decltype(without_items(p.source(), order.notes))>;
  return append_stages<marking, order_mark>(stages(), p.composed().stages.data(),
                                            share(marking(without_items(p.source(), order.notes))),
                                            batch_size, order);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
