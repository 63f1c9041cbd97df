// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/object_list.hpp>

#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE object_list::object_list(std::shared_ptr<object_store> store, std::vector<std::string> names,
                                         const file_order& files)
    : store_(std::move(store)), names_(std::move(names)), files_(files), versions_(names_.size()) {}

FEEDLINE_INLINE bool object_list::has(std::size_t number) const noexcept { return !names_[number].empty(); }

FEEDLINE_INLINE object_store& object_list::store() const noexcept { return *store_; }

FEEDLINE_INLINE const std::string& object_list::shown(std::size_t number) const noexcept {
  return files_.names()[number];
}

FEEDLINE_INLINE std::unique_ptr<object_read> object_list::read(std::size_t number, std::uint64_t offset,
                                                               std::size_t count) const {
  struct failed_read final : object_read {
    bool ready() const override { return true; }

    object_part get(const std::stop_token&) override { std::rethrow_exception(failure); }

    std::exception_ptr failure;
  };

  auto failed = std::make_unique<failed_read>();
  try {
    if (auto begun = store_->read(names_[number], offset, count, known(number))) return begun;
    throw object_error(shown(number) + ": its store began no read at offset " + std::to_string(offset));
  } catch (...) {
    failed->failure = std::current_exception();
  }
  return failed;
}

FEEDLINE_INLINE object_part object_list::get(std::size_t number, std::uint64_t offset, std::size_t count,
                                             object_read& read, const std::stop_token& stop) {
  object_part part = [&] {
    if (read.ready()) return read.get(stop);
    const wait_time timer(waited_ns_);
    return read.get(stop);
  }();
  const std::uint64_t size = part.object.bytes;
  const std::uint64_t there = offset < size ? std::min<std::uint64_t>(count, size - offset) : 0;
  const auto fail = [&](const std::string& what) { throw object_error(shown(number) + ": " + what); };
  if (has_too_many_blocks(size)) fail(too_many_blocks);
  if (!saw(number, part.object)) fail("has changed since it was first read");
  if (part.bytes.size() != there)
    fail("its store returned " + std::to_string(part.bytes.size()) + " bytes instead of " +
         std::to_string(there) + " at offset " + std::to_string(offset));
  return part;
}

FEEDLINE_INLINE named_version object_list::version(std::size_t number) const {
  const std::optional<object_info> version = known(number);
  if (!version) return {shown(number), 0, 0};
  return {shown(number), version->bytes, stable_hash(version->version)};
}

FEEDLINE_INLINE std::uint64_t object_list::fingerprint(std::uint64_t extent, const std::stop_token& stop) {
  std::vector<std::pair<std::size_t, std::unique_ptr<object_read>>> asked;
  for (std::size_t i = 0; i < std::min<std::uint64_t>(extent, size()); ++i)
    if (has(i) && !known(i)) asked.emplace_back(i, read(i, 0, 0));
  if (!asked.empty())
    if (std::string outage = store_->outage(); !outage.empty()) throw outage_error(std::move(outage));
  for (auto& [number, answer] : asked) {
    try {
      get(number, 0, 0, *answer, stop);
    } catch (const object_missing&) { // as for a missing file, the hash below says so
    }
  }
  return files_.fingerprint(extent, [this](std::size_t i) {
    if (!has(i)) return fingerprint_of_file(files_.names()[i]);
    const auto version = known(i);
    return version ? key(stable_hash(shown(i)), version->bytes, stable_hash(version->version)) : 0;
  });
}

FEEDLINE_INLINE object_list::wait_time::~wait_time() {
  const std::chrono::nanoseconds time = clock::now() - began_;
  sum_.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
}

FEEDLINE_INLINE std::optional<object_info> object_list::known(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  return versions_[number];
}

FEEDLINE_INLINE bool object_list::saw(std::size_t number, const object_info& version) {
  const std::lock_guard lock(mutex_);
  if (!versions_[number]) versions_[number] = version;
  return versions_[number] == version;
}

FEEDLINE_INLINE listed_files list_files_and_objects(const file_patterns& patterns, const char* source,
                                                    const std::shared_ptr<object_store>& store) {
  if (!store) {
    for (const std::string& name : patterns.names())
      if (const std::string_view scheme = scheme_of(name); !scheme.empty())
        throw std::invalid_argument("feedline::" + std::string(source) + ": names that begin with " +
                                    in_backticks(scheme) +
                                    " need an object store: set .remote = feedline::remote(), which is in "
                                    "feedline/remote.hpp of the component feedline::remote");
    return {file_order(patterns, source)};
  }
  const auto shown = [&](const std::string& name) { return store->serves(name) ? store->shown(name) : name; };
  const auto append = [&](std::vector<std::string>& names, const std::string& pattern) {
    if (!store->serves(pattern)) {
      if (const std::string_view scheme = scheme_of(pattern); !scheme.empty())
        throw std::invalid_argument("feedline::" + std::string(source) +
                                    ": the store that was given as .remote "
                                    "doesn't serve names that begin with " +
                                    in_backticks(scheme));
      return append_files(names, pattern);
    }
    for (std::string& name : expand_braces(pattern, shown(pattern))) names.push_back(std::move(name));
  };
  std::vector<std::string> names = file_order::list(patterns, source, append, shown);
  std::vector<std::string> files, objects(names.size());
  std::vector<bool> is_object(names.size());
  files.reserve(names.size());
  bool has_any = false;
  for (std::size_t i = 0; i < names.size(); ++i) {
    files.push_back(shown(names[i]));
    if (!store->serves(names[i])) continue;
    objects[i] = std::move(names[i]);
    is_object[i] = has_any = true;
  }
  file_order order(std::move(files), source, is_object);
  if (!has_any) return {std::move(order)};
  auto list = std::make_shared<object_list>(store, std::move(objects), order);
  return {std::move(order), std::move(list)};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
