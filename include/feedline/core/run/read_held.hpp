// SPDX-License-Identifier: MIT
#pragma once
// Reads the samples again that stages held at a checkpoint, before the resumed run begins.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/held_samples.hpp>
#include <feedline/core/plan/run_options.hpp>
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

/// Makes samples of an epoch again, as they arrive at some stage.
class epoch_again {
 public:
  virtual ~epoch_again() = default;

  /// Makes some of them in the calling thread, until none are left.
  virtual void read(const held_request& r, held_search& search, outcome_limits limits, read_again& into) = 0;

  /// Why it gave up; null if it didn't.
  virtual const char* gave_up() const noexcept = 0;
};

/// Begins to make the samples of an epoch again.
using start_epoch = function_ref<std::unique_ptr<epoch_again>(const held_request& r, const epoch& e,
                                                              const std::vector<wanted_sample>& wanted)>;

/// Reads samples again, by several threads. Leaves out those that can't be read, but passes on an outage.
void read_each_epoch(held_request request, start_epoch start, read_again& into);

/// Makes samples again in one thread, as they arrive at a stage that receives items of type Item.
template <class Item>
class items_again {
 public:
  virtual ~items_again() = default;

  /// What becomes of the next sample; null after the last.
  virtual outcomes<Item>* next() = 0;
};

/// Those of an epoch.
template <class Item>
class epoch_of_items : public epoch_again {
 public:
  virtual std::unique_ptr<items_again<Item>> in_thread(const held_request& r, held_search& search,
                                                       outcome_limits limits) = 0;

  void read(const held_request& r, held_search& search, outcome_limits limits, read_again& into) final {
    typename samples_read_again<Item>::list found;
    const auto items = in_thread(r, search, limits);
    while (outcomes<Item>* const made = items->next()) {
      for (sample<Item>& one : made->values) found.push_back(carry(std::move(one)));
      for (const auto& one : made->failures) search.lost(*one.failure);
    }
    static_cast<samples_read_again<Item>&>(into).add(std::move(found));
  }
};

/// The samples of an epoch as a source yields them.
template <class Item>
class epoch_of_source final : public epoch_of_items<Item> {
 public:
  explicit epoch_of_source(std::shared_ptr<item_finder<Item>> finder) : finder_(std::move(finder)) {}

  std::unique_ptr<items_again<Item>> in_thread(const held_request&, held_search& search,
                                               outcome_limits limits) override {
    return std::make_unique<found_items>(*finder_, search, limits);
  }

  const char* gave_up() const noexcept override { return finder_->gave_up(); }

 private:
  class found_items final : public items_again<Item> {
   public:
    found_items(item_finder<Item>& finder, held_search& search, const outcome_limits& limits)
        : finder_(finder), search_(search), wants_(limits.wants) {}

    outcomes<Item>* next() override {
      found_.clear();
      auto s = finder_.next([&](const sample_id& id) { search_.lost(id); });
      if (!s) return nullptr;
      if (!wants_ || (*wants_)(s->id)) found_.values.push_back(std::move(*s));
      return &found_;
    }

   private:
    item_finder<Item>& finder_;
    held_search& search_;
    const function_ref<bool(const sample_id&)>* wants_;
    outcomes<Item> found_;
  };

  std::shared_ptr<item_finder<Item>> finder_;
};

/// The samples of an epoch behind `Stages`, which receive the items that `before` makes.
template <class Item, class Stages>
class epoch_behind final : public epoch_of_items<typename sample_worker<Item, Stages>::output> {
 public:
  using output = typename sample_worker<Item, Stages>::output;

  epoch_behind(std::unique_ptr<epoch_of_items<Item>> before, stages_before at)
      : before_(std::move(before)), at_(at) {}

  std::unique_ptr<items_again<output>> in_thread(const held_request& r, held_search& search,
                                                 outcome_limits limits) override {
    return std::make_unique<items_behind>(before_->in_thread(r, search, {}), r, at_, limits);
  }

  const char* gave_up() const noexcept override { return before_->gave_up(); }

 private:
  class items_behind final : public items_again<output> {
   public:
    items_behind(std::unique_ptr<items_again<Item>> before, const held_request& r, stages_before at,
                 outcome_limits limits)
        : before_(std::move(before)),
          through_(
              {r.names.begin(), r.names.begin() + static_cast<std::ptrdiff_t>(1 + at.count + Stages::size)},
              r.stages + at.count, r.context.seed, on_error::skip, r.context.stop, limits, at) {}

    outcomes<output>* next() override {
      outcomes<Item>* const items = before_->next();
      if (!items) return nullptr;
      made_.clear();
      for (auto& failed : items->failures) made_.failures.push_back({0, std::move(failed.failure)});
      for (sample<Item>& item : items->values) {
        outcomes<output>& some = through_.run(std::move(item));
        for (auto& value : some.values) made_.values.push_back(std::move(value));
        for (auto& failed : some.failures) made_.failures.push_back({0, std::move(failed.failure)});
      }
      return &made_;
    }

   private:
    std::unique_ptr<items_again<Item>> before_;
    sample_worker<Item, Stages> through_;
    outcomes<output> made_;
  };

  std::unique_ptr<epoch_of_items<Item>> before_;
  stages_before at_;
};

/// The epoch behind the first stages of a pipeline, whose source yields items of type Item.
template <class Item, class Stages>
auto epoch_behind_first(std::shared_ptr<item_finder<Item>> finder) {
  auto epoch = std::make_unique<epoch_of_source<Item>>(std::move(finder));
  if constexpr (Stages::size == 0) return epoch;
  else return std::make_unique<epoch_behind<Item, Stages>>(std::move(epoch), stages_before());
}

/// Reads samples again, as they arrive at the stage after `Stages`, from a source with such a search.
template <class Item, class Stages>
std::shared_ptr<read_again> read_items_held(held_request request, start_search<Item> search_in) {
  auto found = owned<read_again>(new samples_read_again<typename sample_worker<Item, Stages>::output>());
  const auto start = [&](const held_request& r, const epoch& e,
                         const std::vector<wanted_sample>& wanted) -> std::unique_ptr<epoch_again> {
    return epoch_behind_first<Item, Stages>(search_in(r.source, e, wanted, r.context.stopped));
  };
  read_each_epoch(std::move(request), start, *found);
  return found;
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

FEEDLINE_INLINE void read_each_epoch(held_request request, start_epoch start, read_again& into) {
  held_search search(request.names.front(), std::move(request.ids));
  const auto is_wanted = [&](const sample_id& id) { return search.wants(id); };
  const function_ref<bool(const sample_id&)> wanted_part(is_wanted);
  search.for_each_epoch([&](std::uint32_t number, const std::vector<wanted_sample>& wanted) {
    const auto epoch = start(request, make_epoch(request.options, number, request.context.stop, 0), wanted);
    run_on_threads(std::min(request.threads, wanted.size()),
                   [&] { epoch->read(request, search, {.wants = &wanted_part}, into); });
    if (epoch->gave_up()) search.lost(std::string("the source ") + epoch->gave_up());
  });
  into.all_added();
  into.why_lost = search.why_lost();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
