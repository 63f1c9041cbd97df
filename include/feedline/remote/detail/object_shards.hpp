// SPDX-License-Identifier: MIT
#pragma once
// TAR shards in an object store, for tar_samples.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/detail/file_search.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/remote/detail/object_ahead.hpp>
#include <feedline/remote/detail/object_list.hpp>
#include <feedline/remote/detail/tar_objects.hpp>
#include <feedline/remote/object_store.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/opened_tar_shard.hpp>
#include <feedline/source/detail/part_stream.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Reads objects in parts, several of which it requests ahead.
class opened_objects final : public objects_in_order {
 public:
  opened_objects(const std::shared_ptr<object_list>& objects, tar_settings how, const std::stop_token& stop)
      : objects_(objects),
        how_(std::move(how)),
        stop_(stop),
        ahead_(std::make_shared<object_ahead>(objects, stop)) {}

  std::unique_ptr<open_tar_shard> open(const file_order& files, std::size_t number,
                                       const tar_place& from) override {
    constexpr std::size_t most_ahead = 64;
    std::vector<std::size_t> next;
    for (std::size_t i = 0; i < most_ahead; ++i) {
      const auto following = files.peek(i);
      if (!following) break;
      if (objects_->has(*following)) next.push_back(*following);
    }

    // The parts of an object are given up with its shard.
    struct reading {
      explicit reading(std::shared_ptr<object_ahead> all) : ahead(std::move(all)) {}

      reading(const reading&) = delete;

      ~reading() { ahead->close(); }

      std::shared_ptr<object_ahead> ahead;
    };

    const bool resumes = from.is_open();
    const tar_place at = resumes ? from : tar_place{.position = 0};
    const bool may_be_compressed = !how_.decompress.empty() && at.begin != tar_place::none;
    const auto parts = std::make_shared<reading>(ahead_);
    if (at.begin != tar_place::none) ahead_->open(number, may_be_compressed ? 0 : at.begin, std::move(next));
    const auto version = std::make_shared<named_version>(objects_->version(number));
    const auto take = [=, objects = objects_](std::uint64_t offset) {
      object_part part = parts->ahead->take(offset);
      if (version->version == 0)
        *version = objects->version(number); // before there is a sample that shares it
      return stream_part_of(std::move(part));
    };
    part_stream stream(objects_->shown(number), take, may_be_compressed ? 0 : at.begin);
    if (may_be_compressed) {
      const text_opener* const opener = opener_for(how_, stream.peek());
      if (opener) {
        const auto object = std::make_shared<part_stream>(std::move(stream));
        return std::make_unique<compressed_tar_shard>(
            version, opener->open(object->take_some(), [object] { return object->take_some(); }), object,
            how_, stop_);
      }
      stream.skip(at.begin);
    }
    return std::make_unique<opened_tar_shard<streamed_shard>>(
        version, streamed_archive(std::move(stream), how_.max_sample_bytes, at.begin), how_, at);
  }

  bool ready() const override { return ahead_->ready(); }

 private:
  const std::shared_ptr<object_list> objects_;
  const tar_settings how_;
  const std::stop_token stop_;
  const std::shared_ptr<object_ahead> ahead_;
};

/// The objects of a source in an object store.
class store_objects final : public shard_objects {
 public:
  explicit store_objects(std::shared_ptr<object_list> objects) : objects_(std::move(objects)) {}

  bool has(std::size_t number) const noexcept override { return objects_->has(number); }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) override {
    return objects_->fingerprint(extent, stop);
  }

  std::size_t bytes_ahead() const override { return objects_->store().bytes_ahead(); }

  std::string outage() const override { return objects_->store().outage(); }

  void metrics(show out, show total) const override {
    total("seconds waited for parts", objects_->seconds_waited());
    objects_->store().metrics(out, total);
  }

  std::shared_ptr<objects_in_order> in_order(const tar_settings& how, const std::stop_token& stop) override {
    return std::make_shared<opened_objects>(objects_, how, stop);
  }

  std::shared_ptr<const objects_by_position> by_position(const tar_settings& how,
                                                         const std::stop_token& stop) override {
    return std::make_shared<const tar_objects>(objects_, how, object_indexer(objects_, how, stop).all());
  }

 private:
  const std::shared_ptr<object_list> objects_;
};

/// Lists files and objects. A name that the store serves is that of an object, in which only braces are expanded.
/// Throws as file_order does, and std::invalid_argument for a URL that the store doesn't serve.
inline listed_shards list_files_and_objects(const file_patterns& patterns, const char* source,
                                            const std::shared_ptr<object_store>& store) {
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
  return {std::move(order), std::make_shared<store_objects>(std::move(list))};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
