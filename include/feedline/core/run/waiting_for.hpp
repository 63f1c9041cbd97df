// SPDX-License-Identifier: MIT
#pragma once
// Finds out what the consumer of a run waits for.
#include <cstdint>
#include <memory>
#include <string>

#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class pipeline_run;

/// What the consumer waits for. It doesn't need the run.
struct found_wait {
  std::string before, after;                 ///< around the sample's name
  std::uint64_t index = sample_id::no_index; ///< of the sample; no_index: it names none
  std::shared_ptr<const void> source{};
  std::string (*origin)(const void* source, std::uint64_t index) = nullptr;

  /// The sentence. Asks the source for the sample's name, which may take long.
  std::string to_string() const;
};

/// See run_handle::waiting_for(). Any thread may call it while the run exists.
found_wait find_wait(const pipeline_run& run);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/waiting_for.ipp>
#endif
