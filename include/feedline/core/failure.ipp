// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/failure.hpp>

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
