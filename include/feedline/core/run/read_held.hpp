// SPDX-License-Identifier: MIT
#pragma once
// Reads the samples again that stages held at a checkpoint, before the resumed run begins.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/held_samples.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/run/sample_finder.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The samples that are read again, and why some can't be. Any thread may use it.
class held_search {
 public:
  held_search(std::string source_name, std::vector<sample_id> ids);

  const std::string& source_name() const noexcept { return source_name_; }

  bool wants(const sample_id& id) const noexcept;

  /// Calls `read` for each epoch of these samples. If it throws, those of that epoch are lost, but an outage is passed on.
  void for_each_epoch(function_ref<void(std::uint32_t epoch, const std::vector<wanted_sample>& wanted)> read);

  /// A sample is lost. Throws an outage.
  void lost(const failure& f);

  /// The sample is lost for which an exception is being handled. Throws an outage.
  void lost(const sample_id& id);

  void lost(const std::string& why);

  /// The first reason; empty if there was none.
  std::string why_lost() const;

 private:
  const std::string source_name_;
  const std::vector<sample_id> ids_;  // sorted
  std::atomic<bool> is_known_{false}; // why_lost_
  mutable std::mutex mutex_;
  std::string why_lost_;
};

/// Reads samples again, as they arrive at a stage that receives items of type Item. `start(request, epoch, wanted)` returns what
/// makes those of an epoch again; its `worker(request, search, wants)` makes some of them in a thread, `next()` by `next()`. Leaves
/// out samples that can't be read, but passes on an outage.
template <class Item, class Start>
std::shared_ptr<read_again> read_each_epoch(held_request request, const Start& start) {
  std::mutex mutex;
  typename samples_read_again<Item>::list all;
  all.reserve(request.ids.size());
  held_search search(request.names.front(), std::move(request.ids));
  const auto is_wanted = [&](const sample_id& id) { return search.wants(id); };
  const function_ref<bool(const sample_id&)> wanted_part(is_wanted);
  search.for_each_epoch([&](std::uint32_t number, const std::vector<wanted_sample>& wanted) {
    const auto epoch = start(request, make_epoch(request.options, number, request.context.stop, 0), wanted);
    run_on_threads(std::min(request.threads, wanted.size()), [&] {
      typename samples_read_again<Item>::list found;
      const auto worker = epoch->worker(request, search, {.wants = &wanted_part});
      while (outcomes<Item>* const made = worker->next()) {
        for (sample<Item>& one : made->values) found.push_back(carry(std::move(one)));
        for (const auto& one : made->failures) search.lost(*one.failure);
      }
      const std::lock_guard lock(mutex);
      std::move(found.begin(), found.end(), std::back_inserter(all));
    });
    if (epoch->gave_up()) search.lost(std::string("the source ") + epoch->gave_up());
  });
  auto found = owned<read_again>(new samples_read_again<Item>(std::move(all)));
  found->why_lost = search.why_lost();
  return found;
}

/// The samples of an epoch as they arrive behind `Stages`, the first of a pipeline, whose source yields items of type `Item`.
template <class Item, class Stages>
class epoch_again {
 public:
  class worker_again {
   public:
    using output = typename sample_worker<Item, Stages>::output;

    worker_again(item_finder<Item>& finder, const held_request& r, held_search& search, outcome_limits limits)
        : finder_(finder),
          search_(search),
          through_({r.names.begin(), r.names.begin() + 1 + Stages::size}, r.stages, r.context.seed,
                   on_error::skip, r.context.stop, limits) {}

    /// What becomes of the next sample; null after the last.
    outcomes<output>* next() {
      auto s = finder_.next([&](const sample_id& id) { search_.lost(id); });
      return s ? &through_.run(std::move(*s)) : nullptr;
    }

   private:
    item_finder<Item>& finder_;
    held_search& search_;
    sample_worker<Item, Stages> through_;
  };

  explicit epoch_again(std::shared_ptr<item_finder<Item>> finder) : finder_(std::move(finder)) {}

  std::unique_ptr<worker_again> worker(const held_request& r, held_search& search, outcome_limits limits) {
    return std::make_unique<worker_again>(*finder_, r, search, limits);
  }

  const char* gave_up() const noexcept { return finder_->gave_up(); }

 private:
  std::shared_ptr<item_finder<Item>> finder_;
};

/// Reads samples again, as they arrive at the stage after `Stages`, from a source with such a search.
template <class Item, class Stages>
std::shared_ptr<read_again> read_items_held(held_request request, start_search<Item> search_in) {
  using result = typename sample_worker<Item, Stages>::output;
  return read_each_epoch<result>(std::move(request), [&](const held_request& r, const epoch& e,
                                                         const std::vector<wanted_sample>& wanted) {
    return std::make_unique<epoch_again<Item, Stages>>(search_in(r.source, e, wanted, r.context.stopped));
  });
}

template <source Source, class Stages>
std::shared_ptr<read_again> read_held(held_request request) {
  using item = source_item_t<Source>;
  return read_items_held<item, Stages>(std::move(request), &find_samples<Source, item>);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <exception>
#include <new>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE held_search::held_search(std::string source_name, std::vector<sample_id> ids)
    : source_name_(std::move(source_name)), ids_([&] {
        std::sort(ids.begin(), ids.end());
        return std::move(ids);
      }()) {}

FEEDLINE_INLINE bool held_search::wants(const sample_id& id) const noexcept {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

FEEDLINE_INLINE void held_search::for_each_epoch(
    function_ref<void(std::uint32_t epoch, const std::vector<wanted_sample>& wanted)> read) {
  for (const auto& [epoch, wanted] : wanted_by_epoch(ids_)) {
    try {
      read(epoch, wanted);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const pipeline_error&) { // the outage of a stage
      throw;
    } catch (...) {
      lost(current_failure(source_name_, {.epoch = epoch}));
    }
  }
}

FEEDLINE_INLINE void held_search::lost(const failure& f) {
  if (is_outage(f.error)) throw_pipeline_error(f);
  if (!is_known_) lost(to_string(f));
}

FEEDLINE_INLINE void held_search::lost(const sample_id& id) {
  if (is_outage(std::current_exception())) throw;
  if (!is_known_) lost(to_string(current_failure(source_name_, id)));
}

FEEDLINE_INLINE void held_search::lost(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!is_known_.exchange(true)) why_lost_ = why;
}

FEEDLINE_INLINE std::string held_search::why_lost() const {
  const std::lock_guard lock(mutex_);
  return why_lost_;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
