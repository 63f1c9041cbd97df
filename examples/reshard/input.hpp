// SPDX-License-Identifier: MIT
#pragma once
// The files to read, and their samples.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <feedline/feedline.hpp>

#include "command_line.hpp"
#include "tar_writer.hpp"

/// The names of all shards, or of all files of a folder.
struct input_files {
  /// Throws std::runtime_error or what tar_samples and files throw for wrong names.
  explicit input_files(const std::vector<std::string>& patterns) {
    std::error_code ignored;
    if (std::filesystem::is_directory(patterns.front(), ignored)) folder = patterns.front();
    if (!folder.empty() && patterns.size() > 1)
      throw usage_error("--input is either TAR shards or one folder");
    if (folder.empty()) {
      names = feedline::tar_samples(patterns).shards();
    } else {
      const auto all = feedline::files(folder, "*", {.recursive = true}) | feedline::prefetch(1000);
      for (const std::string& name : all.finite()) names.push_back(name);
    }
    for (const std::string& name : names) add(name);
  }

  /// The name of a file of the folder in a shard.
  std::string name_in_folder(const std::string& file) const { return file.substr(folder.size() + 1); }

  std::string folder; ///< empty: the input is TAR shards
  std::vector<std::string> names;
  std::uint64_t bytes = 0;   ///< of all shards, or of the files as members of shards
  std::uint64_t version = 0; ///< hash of the files' names, sizes and times

 private:
  void add(const std::string& name) {
    struct stat status {};

    if (::stat(name.c_str(), &status) != 0)
      throw std::system_error(errno, std::generic_category(), "can't read " + name);
    const auto size = static_cast<std::uint64_t>(status.st_size);
    bytes += folder.empty() ? size : tar_writer::size_of(name_in_folder(name), size);
    version = feedline::stable_hash(std::to_string(version) + " " + name + " " + std::to_string(size) + " " +
                                    std::to_string(status.st_mtim.tv_sec) + " " +
                                    std::to_string(status.st_mtim.tv_nsec));
  }
};

/// A sample of a folder: files with equal names up to the first dot after the last slash.
struct file_sample {
  std::string key;
  std::vector<std::string> files;
  std::size_t folder_size = 0; ///< length of the folder's name, with its slash
};

/// The samples of a folder, in the order of their first files.
class folder_samples {
 public:
  static constexpr feedline::source_traits traits{.kind = "folder_samples"};

  explicit folder_samples(const input_files& input) {
    std::vector<file_sample> samples;
    std::unordered_map<std::string, std::size_t> numbers;
    for (const std::string& file : input.names) {
      const std::string name = input.name_in_folder(file);
      const std::string key = name.substr(0, name.find('.', name.rfind('/') + 1));
      const auto [number, is_new] = numbers.emplace(key, samples.size());
      if (is_new) samples.push_back({key, {}, input.folder.size() + 1});
      samples[number->second].files.push_back(file);
    }
    samples_ = std::make_shared<const std::vector<file_sample>>(std::move(samples));
    version_ = input.version;
  }

  std::uint64_t size() const { return samples_->size(); }

  file_sample at(std::uint64_t position) const { return (*samples_)[static_cast<std::size_t>(position)]; }

  std::string origin(std::uint64_t index) const { return index < size() ? at(index).files.front() : ""; }

  std::uint64_t fingerprint(std::uint64_t) const { return version_; }

 private:
  std::shared_ptr<const std::vector<file_sample>> samples_;
  std::uint64_t version_;
};

/// A file of a sample.
struct member {
  std::string name;
  feedline::tar_bytes bytes;
};

inline std::vector<member> members_of(const feedline::tar_sample& sample) {
  std::vector<member> members;
  for (const auto& [extension, bytes] : sample) {
    std::string name(sample.key());
    // The members `17` and `17.` both have an empty extension, but only that of `17.` is a part of its name.
    if (extension.data()) name.append(".").append(extension);
    members.push_back({std::move(name), sample.share(extension)});
  }
  return members;
}

inline std::vector<member> members_of(const file_sample& sample) {
  std::vector<member> members;
  for (const std::string& file : sample.files) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(feedline::read_file(file));
    members.push_back({file.substr(sample.folder_size), feedline::tar_bytes(bytes, *bytes)});
  }
  return members;
}

/// Names a file of a sample for messages.
inline std::string place_of(const feedline::tar_sample& sample, const member& file) {
  return sample.file() + ": " + file.name;
}

inline std::string place_of(const file_sample& sample, const member& file) {
  return sample.files.front().substr(0, sample.folder_size) + file.name;
}

inline std::string key_of(const feedline::tar_sample& sample) { return std::string(sample.key()); }

inline std::string key_of(const file_sample& sample) { return sample.key; }
