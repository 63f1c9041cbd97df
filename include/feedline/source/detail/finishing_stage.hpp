// SPDX-License-Identifier: MIT
#pragma once
// Stages on workers at the end of the parts of a source such as mix:
//   mix(a | map(f, workers{4}), b)   becomes   mix(a, b) ─▶ [queue] ─▶ f on 4 workers, for the samples of a
#include <variant>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/detail/mapped_source.hpp>
#include <feedline/source/detail/sub_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Finishes the samples of several sources. `Zipped`: an item has one of each; otherwise it is one of them, whose index says
/// of which source.
template <bool Zipped, source... Parts>
class finishing_stage {
  template <class... Items>
  using combined = typename std::conditional_t<Zipped, zipped<Items...>, any_item<types<>, Items...>>::type;
  using input = combined<source_item_t<Parts>...>;

 public:
  using output = combined<typename finisher<Parts>::output...>;
  static constexpr stage_traits traits{.kind = "workers of a source",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .belongs_to_source = true};

  explicit finishing_stage(const Parts&... parts) : parts_(finisher<Parts>(parts)...) {}

  /// "map `decode` or map `render`", "map `decode` and map `render`"
  std::string whole_name() const {
    std::string all;
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      if (!part.name().empty()) all += (all.empty() ? "" : Zipped ? " and " : " or ") + part.name();
    });
    return all;
  }

  void operator()(input&& item, auto& emit, context& c) {
    if constexpr (Zipped) {
      [&]<std::size_t... I>(std::index_sequence<I...>) {
        emit(
            output{std::get<I>(parts_).finish(std::get<I>(std::move(item)), c.stop)...}); // one after another
      }(std::index_sequence_for<Parts...>());
    } else {
      emit(with_part(parts_, part_index::part_of(c.index), [&]<class Part>(finisher<Part>& part) {
        using own = source_item_t<Part>;
        if constexpr (std::is_same_v<input, own>) return as_any<output>(part.finish(std::move(item), c.stop));
        else return as_any<output>(part.finish(std::get<own>(std::move(item)), c.stop));
      }));
    }
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    known_bytes all = 0;
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      const known_bytes its = part.bytes_given(in);
      if (Zipped) all = sum_of(all, its);
      else if (!its || !all) all = std::nullopt;
      else all = std::max(*all, *its);
    });
    return all;
  }

  /// Those of all parts together. Their number is fixed if that of some part is; they run on certain processors only if
  /// those of each part do.
  workers all_workers() const {
    workers all{.count = 0};
    std::size_t most = 0;
    bool is_fixed = false, all_pinned = true;
    for_each_part(parts_, [&](const auto& part, std::size_t) {
      if constexpr (std::remove_cvref_t<decltype(part)>::has_work) {
        const segment_description& its = part.segment();
        most += its.workers.on(processors()).most;
        all.count = std::min(workers::limit, all.count + its.workers.least);
        all.max = std::min(workers::limit, all.max + its.workers.most);
        all.io_bound |= its.workers.io_bound;
        is_fixed |= its.workers.is_fixed();
        all_pinned = all_pinned && !its.cpus.is_empty();
        all.cpus.add(its.cpus);
      }
    });
    if (is_fixed) all.count = all.max = std::min(workers::limit, most);
    if (!all_pinned) all.cpus = {};
    return all;
  }

 private:
  std::tuple<finisher<Parts>...> parts_;
};

/// A pipeline of a source, with workers for the stages that its parts don't run themselves.
template <bool Zipped, source Whole, source... Parts>
auto with_workers_of_parts(Whole whole, const Parts&... parts) {
  if constexpr ((finisher<Parts>::has_work || ...)) {
    finishing_stage<Zipped, Parts...> stage(parts...);
    const workers all = stage.all_workers();
    return as_pipeline(std::move(whole)) | parallel(all, std::move(stage));
  } else {
    return as_pipeline(std::move(whole));
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
