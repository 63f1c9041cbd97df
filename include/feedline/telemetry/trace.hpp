// SPDX-License-Identifier: MIT
#pragma once
// What each thread of a run did and when, for a viewer of traces.
#include <cstddef>
#include <memory>
#include <string>

#include <feedline/core/loader.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of a trace.
struct trace_options {
  std::size_t events = 10'000; ///< the last ones that each thread keeps, at least 1; one takes 48 bytes
};

/// Traces a run into a file for Perfetto (https://ui.perfetto.dev) or chrome://tracing: what each thread did with which packet,
/// its waits, the fill of each queue, and arrows that lead from a packet to those made from it, up to the consumer.
/// The format is Chrome's Trace Event Format. The trace may outlive the loader.
///
///     fl::trace trace(loader, "run.trace.json"); // … its destructor writes the file
class trace {
 public:
  /// Begins. Throws std::invalid_argument for 0 events, and std::logic_error if the run is being traced already.
  trace(const run_handle& loader, std::string path, const trace_options& options = {});

  trace(trace&&) = delete;

  /// Writes the file, unless write() did. A file that can't be written is reported on stderr.
  ~trace();

  /// Ends the trace and writes the file. Throws std::system_error that names a file that can't be written.
  void write();

  /// The events so far, for any thread.
  std::string to_json() const;

 private:
  struct events;

  std::string path_;
  std::unique_ptr<events> events_;
  bool is_written_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/trace.ipp>
#endif
