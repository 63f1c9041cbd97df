// SPDX-License-Identifier: MIT
#pragma once
// What went wrong, where, with which sample.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// How many failed samples `on_error::skip` accepts by default.
inline constexpr std::size_t default_failure_limit = 1000;

/// A failure_limit that accepts any number of failed samples.
inline constexpr std::size_t no_failure_limit = ~std::size_t{0};

/// What happens to a sample for which a source or a function threw.
enum class on_error {
  fail, ///< `next()` throws where one thread would: items completed before it are delivered, what stages hold isn't
  skip, ///< it is left out, counted and recorded in `failures()`, up to `failure_limit`; not after an outage_error
};

/// A server or the way to it fails, which says nothing about the sample. Object stores, sources and functions throw it
/// when they have tried for long enough. It ends the run, whatever `on_error` is, as on_error::fail does: a run that is
/// resumed from the last checkpoint after the outage yields what a run without the outage would have. Another exception
/// that nests it (std::throw_with_nested) has the same effect.
struct outage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A sample that failed.
struct failure {
  std::string stage;       ///< the stage's kind and name: "map `decode`"
  std::uint64_t index = 0; ///< the sample's index; sample_id::no_index if the source failed before it had one
  std::uint32_t epoch = 0; ///< the epoch, from 0
  std::string origin;      ///< the sample's file and member, as its source names them; may be empty
  std::string message;     ///< what() of the error
  std::exception_ptr error; ///< the error itself
  /// If a source failed before the sample had an index: how many samples of the epoch it had yielded or
  /// failed on.
  std::uint64_t samples_before = sample_id::no_index;
  std::uint64_t sub_index = 0;  ///< as in sample_id
  std::uint32_t repetition = 0; ///< as in sample_id

  /// The sample, for `pipeline.replay(seed, failure.id())`.
  sample_id id() const noexcept { return {index, sub_index, epoch, repetition}; }
};

/// How often a stage failed with the same message.
struct failure_count {
  std::string stage;       ///< its name, as in messages
  std::string message;     ///< "…" for all beyond the first 1,000 different ones
  std::uint64_t count = 0; ///< how often
};

/// The most failures of one stage that on_error::skip accepts.
struct stage_failure_limit {
  std::string stage;            ///< as in messages, "map `decode`", or its name alone, "decode"
  std::size_t max_failures = 0; ///< one more ends the run: failure or, without a window, failed sample
  /// The number of samples among which failures are counted: the last ones that arrived or failed; 0: all
  /// since the run began or was resumed.
  std::uint64_t window = 0;
};

/// "map `decode` failed on sample 195 (photos-0003.tar: n0123.jpg): not a JPEG file"
std::string to_string(const failure& f);

/// The exception that `next()` throws: the failure in a sentence, with the original error nested in it. To
/// catch that error by its type, write `try { error.rethrow_nested(); } catch (const my_error& e) { … }`, or
/// call `error.cause<my_error>()`.
class pipeline_error : public std::runtime_error, public std::nested_exception {
 public:
  /// Construct it while `f.error` is being handled: that becomes the nested exception.
  explicit pipeline_error(const feedline::failure& f, const std::string& remark = {});

  /// The failure that ended the run.
  const feedline::failure& failure() const noexcept { return failure_; }

  /// The original error if it is an Error, otherwise null. It lives as long as this exception.
  template <class Error>
  const Error* cause() const {
    try {
      rethrow_nested();
    } catch (const Error& error) {
      return &error;
    } catch (...) {
      return nullptr;
    }
  }

 private:
  feedline::failure failure_;
};

namespace detail {

/// A source throws this for the failure of a stage inside it.
struct failure_inside : std::exception {
  explicit failure_inside(feedline::failure f) : failure(std::move(f)) {}

  FEEDLINE_INLINE const char* what() const noexcept override;

  feedline::failure failure;
};

/// Whether an exception is an outage_error or nests one.
bool is_outage(const std::exception_ptr& error) noexcept;

/// Adds a name to a list for messages: "filter `good` and filter `large`".
void add_name(std::string& list, const std::string& name);

/// The error being handled, as a failure of a stage.
failure current_failure(const std::string& stage, const sample_id& id);

/// The call that failed: of the stage at a position in the pipeline, with a sample. Position 0 is the source;
/// the index is then the number of the call of next() in its epoch, from 0.
struct failed_call {
  std::size_t place = 0;
  sample_id id;

  friend auto operator<=>(const failed_call&, const failed_call&) = default;
};

/// A failure on its way through a run.
struct noted_failure : failure {
  noted_failure(failure f, const failed_call& c) : failure(std::move(f)), call(c) {}

  failed_call call;
  /// The run can't continue from the checkpoint: it ends even if a stage downstream has enough of the epoch.
  bool ends_at_once = false;
  bool is_outage = false; ///< it ends the run, whatever on_error is
};

using failure_ptr = std::unique_ptr<noted_failure>;

/// The error being handled, as the failure of a call.
failure_ptr note_failure(const std::string& stage, const sample_id& id, const failed_call& call);

/// The same for an error that isn't being handled.
failure_ptr note_failure(const std::string& stage, const sample_id& id, const failed_call& call,
                         const std::exception_ptr& error);

/// The failure of a call that failed in the earlier run, which had gone further.
failure_ptr note_again(const std::string& stage, const sample_id& id, const failed_call& call);

/// Why an infinite run ends by itself.
struct empty_run : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The error of a source that yields no sample in an epoch of infinite mode, …
empty_run empty_epoch();

/// … and of stages that let no sample through.
empty_run nothing_left();

/// The failure of a stage that receives nothing from upstream in infinite mode. `filters`: names of the stages upstream that may
/// leave out samples.
failure_ptr note_empty_run(const std::string& stage, const std::string& filters, const sample_id& id,
                           const failed_call& call);

[[noreturn]] void throw_pipeline_error(const failure& f, const std::string& remark = {});

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <new>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::string to_string(const failure& f) {
  std::string text = f.stage + " failed";
  if (f.index != sample_id::no_index) text += " on sample " + std::to_string(f.index);
  else if (f.samples_before != sample_id::no_index)
    text += " after " + std::to_string(f.samples_before) + (f.samples_before == 1 ? " sample" : " samples") +
            " of epoch " + std::to_string(f.epoch);
  if (!f.origin.empty()) text += " (" + f.origin + ")";
  return text + ": " + f.message;
}

FEEDLINE_INLINE pipeline_error::pipeline_error(const feedline::failure& f, const std::string& remark)
    : std::runtime_error(to_string(f) + remark), failure_(f) {}

} // namespace feedline::inline FEEDLINE_ABI

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE const char* failure_inside::what() const noexcept { return failure.message.c_str(); }

FEEDLINE_INLINE bool is_outage(const std::exception_ptr& error) noexcept {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const outage_error&) {
    return true;
  } catch (const failure_inside& inner) {
    return is_outage(inner.failure.error);
  } catch (const std::nested_exception& outer) {
    return is_outage(outer.nested_ptr());
  } catch (...) {
    return false;
  }
}

FEEDLINE_INLINE void add_name(std::string& list, const std::string& name) {
  if (!list.empty() && !name.empty()) list += " and ";
  list += name;
}

FEEDLINE_INLINE failure current_failure(const std::string& stage, const sample_id& id) {
  failure f{
      stage, id.index, id.epoch, {}, "an exception that isn't a std::exception", std::current_exception()};
  f.sub_index = id.sub_index;
  f.repetition = id.repetition;
  try {
    throw;
  } catch (const failure_inside& inner) {
    f.stage = inner.failure.stage + " in " + stage;
    f.message = inner.failure.message;
    f.error = inner.failure.error;
  } catch (const std::bad_alloc& error) {
    f.message =
        std::string("out of memory (") + error.what() + "): set a memory_budget to limit what the run holds";
  } catch (const std::exception& error) {
    f.message = error.what();
  } catch (...) {
  }
  return f;
}

FEEDLINE_INLINE failure_ptr note_failure(const std::string& stage, const sample_id& id,
                                         const failed_call& call) {
  auto noted = std::make_unique<noted_failure>(current_failure(stage, id), call);
  noted->is_outage = is_outage(noted->error);
  if (call.place == 0 && id.index == sample_id::no_index) noted->samples_before = call.id.index;
  return noted;
}

FEEDLINE_INLINE failure_ptr note_failure(const std::string& stage, const sample_id& id,
                                         const failed_call& call, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    return std::make_unique<noted_failure>(current_failure(stage, id), call);
  }
}

FEEDLINE_INLINE failure_ptr note_again(const std::string& stage, const sample_id& id,
                                       const failed_call& call) {
  return note_failure(stage, id, call,
                      std::make_exception_ptr(std::runtime_error("it failed in the earlier run")));
}

FEEDLINE_INLINE empty_run empty_epoch() {
  return empty_run("it yielded no sample in a whole epoch, so an infinite run would never yield anything");
}

FEEDLINE_INLINE empty_run nothing_left() {
  return empty_run("it let no sample through in several consecutive epochs, so an infinite run would never "
                   "yield anything");
}

FEEDLINE_INLINE failure_ptr note_empty_run(const std::string& stage, const std::string& filters,
                                           const sample_id& id, const failed_call& call) {
  if (!filters.empty()) return note_failure(filters, id, call, std::make_exception_ptr(nothing_left()));
  const empty_run nothing_came("the stages upstream emitted nothing in several consecutive epochs, so an "
                               "infinite run would never yield anything");
  return note_failure(stage, id, call, std::make_exception_ptr(nothing_came));
}

FEEDLINE_INLINE void throw_pipeline_error(const failure& f, const std::string& remark) {
  try {
    std::rethrow_exception(f.error);
  } catch (...) {
    throw pipeline_error(f, remark);
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
