// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/pipeline.hpp>

#include <atomic>
#include <new>

#include <feedline/core/callback.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A loop over `finite()` with the same options trains on the same random order in every pass, which is rarely intended: one
/// notice for each pipeline, on stderr one in all, says so.
struct described_pipeline::finite_runs {
  void note(const run_options& options) {
    if (options.endless || options.first_epoch || options.resume) return;
    static std::atomic<bool> was_printed{false};
    const std::uint64_t order = key(options.seed, options.rank.number);
    const std::uint64_t before = order_.exchange(order);
    if (!has_run_.exchange(true) || before != order || was_noticed_.exchange(true)) return;
    if (!options.on_notice && was_printed.exchange(true)) return;
    notify(options.on_notice,
           "feedline: a pipeline with a random order runs once more with finite() and the same seed: it "
           "repeats the order and the random numbers of the run before; in a loop over epochs pass "
           ".first_epoch = epoch");
  }

 private:
  std::atomic<bool> has_run_{false};
  std::atomic<std::uint64_t> order_{0}; // hash of what determines it
  std::atomic<bool> was_noticed_{false};
};

FEEDLINE_INLINE described_pipeline::described_pipeline(std::shared_ptr<const void> source,
                                                       composed_stages&& stages)
    : source_(std::move(source)), stages_(std::move(stages)), finite_runs_(std::make_shared<finite_runs>()) {}

FEEDLINE_INLINE described_pipeline::described_pipeline(const described_pipeline&) = default;
FEEDLINE_INLINE described_pipeline::described_pipeline(described_pipeline&&) noexcept = default;
FEEDLINE_INLINE described_pipeline& described_pipeline::operator=(const described_pipeline&) = default;
FEEDLINE_INLINE described_pipeline& described_pipeline::operator=(described_pipeline&&) noexcept = default;
FEEDLINE_INLINE described_pipeline::~described_pipeline() = default;

FEEDLINE_INLINE std::shared_ptr<owned_run>
described_pipeline::start(const run_type& type, const run_options& options,
                          owned_run* (*own)(std::shared_ptr<pipeline_run> planned)) const {
  try {
    owned_run* const run = own(std::make_shared<pipeline_run>(type, source_, stages_, options));
    // A child of fork() inherits the run without its threads, whose locks may never be released: it leaves the memory as it is.
    const std::shared_ptr<owned_run> started(run, [](owned_run* r) {
      if (!r->run->is_inherited()) delete r;
    });
    if (type.has_random_order) finite_runs_->note(options);
    return started;
  } catch (const std::bad_alloc&) {
    throw pipeline_error(current_failure("the start of the run", {}));
  }
}

FEEDLINE_INLINE memory_plan described_pipeline::memory(const run_type& type,
                                                       const run_options& options) const {
  return pipeline_run(type, source_, stages_, options).memory();
}

FEEDLINE_INLINE std::optional<std::uint64_t> described_pipeline::size(const run_type& type,
                                                                      const run_options& options) const {
  if (type.drops) return std::nullopt;
  for (const stage_type& s : type.stages)
    if (!s.output_count) return std::nullopt;
  std::optional<std::uint64_t> items = type.source.samples_in_epoch(source_.get(), options);
  const bool drains = options.epochs != run_options::for_ever;
  for (std::size_t i = 0; items && i < type.stages.size(); ++i)
    items = type.stages[i].output_count(stages_.stages[i].get(), *items, drains);
  return items;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
