// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/object_stream.hpp>

#include <exception>
#include <utility>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE object_stream::object_stream(std::string name, next_part next, std::uint64_t begin,
                                             std::uint64_t end)
    : name_(std::move(name)), next_(std::move(next)), position_(begin), end_(end) {}

FEEDLINE_INLINE const std::byte* object_stream::view(std::size_t count) {
  if (count == 0 || !load() || count > rest_.size() || !part_.memory) return nullptr;
  if (!part_.is_mapped && !lends_memory_) return nullptr;
  const std::byte* const bytes = rest_.data();
  advance(count);
  return bytes;
}

FEEDLINE_INLINE bool object_stream::load() {
  if (!rest_.empty()) return true;
  if (!problem_.empty() || has_ended()) return false;
  part_ = {};
  try {
    part_ = next_(position_);
  } catch (const std::exception& error) {
    problem_ = error.what();
    // Messages begin with the name already.
    if (problem_.starts_with(name_ + ": ")) problem_.erase(0, name_.size() + 2);
    if (problem_.empty()) problem_ = "it can't be read";
    if (is_outage(std::current_exception())) throw; // the object isn't damaged
    return false;
  }
  end_ = std::min(end_, part_.object.bytes);
  rest_ = part_.bytes;
  if (rest_.size() > end_ - std::min(end_, position_))
    rest_ = rest_.first(static_cast<std::size_t>(end_ - position_));
  return !rest_.empty();
}

FEEDLINE_INLINE object_stream::next_part read_when_needed(std::shared_ptr<object_list> objects,
                                                          std::size_t number, std::size_t step,
                                                          std::uint64_t end, std::stop_token stop,
                                                          std::shared_ptr<object_read> first) {
  return [=, objects = std::move(objects), stop = std::move(stop),
          first = std::move(first)](std::uint64_t offset) mutable {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(step, end - std::min(end, offset)));
    const std::shared_ptr<object_read> read =
        first ? std::exchange(first, nullptr) : objects->read(number, offset, count);
    return objects->get(number, offset, count, *read, stop);
  };
}

} // namespace feedline::inline FEEDLINE_ABI::detail
