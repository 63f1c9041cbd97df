// SPDX-License-Identifier: MIT
#pragma once
// What went wrong, where, with which sample.
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>

#include <feedline/core/sample.hpp>

namespace feedline {

/// What becomes of a sample for which a source or a function threw.
enum class on_error {
  fail, ///< the stream ends at its place: what came before is delivered, then `next()` throws
  skip, ///< it is left out, counted and recorded in `failures()`, up to `failure_limit`
};

/// One sample that could not be had.
struct failure {
  std::string stage;       ///< the stage's kind and name: "map `decode`"
  std::uint64_t index = 0; ///< the sample's index; sample_id::no_index if the source failed before it had one
  std::uint32_t epoch = 0; ///< the epoch, from 0
  std::string origin;      ///< the sample's file and member, as its source names them; may be empty
  std::string message;     ///< what() of the error
  std::exception_ptr error; ///< the error itself
};

/// "map `decode` failed on sample 195 (photos-0003.tar: n0123.jpg): not a JPEG file"
inline std::string to_string(const failure& f) {
  std::string text = f.stage + " failed";
  if (f.index != sample_id::no_index) text += " on sample " + std::to_string(f.index);
  if (!f.origin.empty()) text += " (" + f.origin + ")";
  return text + ": " + f.message;
}

/// What `next()` throws: the failure in a sentence, with the original error nested in it. To catch that by
/// its own type, `try { error.rethrow_nested(); } catch (const my_error& e) { … }`, or ask
/// `error.cause<my_error>()`.
class pipeline_error : public std::runtime_error, public std::nested_exception {
 public:
  /// Construct it while `f.error` is being handled: that becomes the nested exception.
  explicit pipeline_error(const feedline::failure& f, const std::string& remark = {})
      : std::runtime_error(to_string(f) + remark), failure_(f) {}

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

/// The error being handled, as a failure of a stage.
inline failure current_failure(const std::string& stage, const sample_id& id) {
  failure f{
      stage, id.index, id.epoch, {}, "an exception that is no std::exception", std::current_exception()};
  try {
    throw;
  } catch (const std::exception& error) {
    f.message = error.what();
  } catch (...) {
  }
  return f;
}

[[noreturn]] inline void throw_pipeline_error(const failure& f, const std::string& remark = {}) {
  try {
    std::rethrow_exception(f.error);
  } catch (...) {
    throw pipeline_error(f, remark);
  }
}

} // namespace detail

} // namespace feedline
