// SPDX-License-Identifier: MIT
#pragma once
// The folder of new shards, and what it takes to continue there after an interruption.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <feedline/feedline.hpp>

#include "command_line.hpp"
#include "input.hpp"
#include "summary.hpp"
#include "tar_writer.hpp"

/// What FOLDER/NAME.reshard stores: words as fl::state_writer writes them, between a mark and a checksum.
struct saved_run {
  std::vector<std::pair<std::string, std::string>> settings; // flags that determine the result
  std::uint64_t input = 0;                                   // input_files::version
  std::vector<std::uint64_t> shards;                         // bytes of each finished shard
  std::vector<std::byte> position; // the loader's checkpoint after them; empty: at the beginning
  bool is_complete = false;
  summary totals; // of the finished shards

  void state(auto& archive) { archive(settings, input, shards, position, is_complete, totals); }

  void save(const std::string& path) const {
    std::vector<std::uint64_t> words{mark};
    feedline::state_writer write(words);
    write(*this);
    words.push_back(checksum(words));
    draft_file file(path);
    file.write(std::as_bytes(std::span(words)));
    file.finish();
  }

  static saved_run load(const std::string& path) {
    const std::vector<std::byte> bytes = feedline::read_file(path);
    std::vector<std::uint64_t> words(bytes.size() / sizeof(std::uint64_t));
    if (!words.empty()) std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint64_t));
    const auto body = std::span(words).first(words.empty() ? 0 : words.size() - 1);
    if (body.empty() || body.front() != mark || words.back() != checksum(body))
      throw std::runtime_error(path + " isn't the state of a run of this program");
    saved_run run;
    feedline::state_reader read(body.subspan(1));
    read(run);
    return run;
  }

 private:
  static constexpr std::uint64_t mark = 0x0131'6472'6168'7365; // "eshard1", version 1

  static std::uint64_t checksum(std::span<const std::uint64_t> words) {
    const auto bytes = std::as_bytes(words);
    return feedline::stable_hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
};

class output_folder {
 public:
  /// Creates the folder, or continues the run in it. Throws usage_error if the folder belongs to the input, and
  /// std::runtime_error if it has other shards, or a run with other flags.
  output_folder(const command_line& options, const input_files& input)
      : prefix_((std::filesystem::path(options.out) / options.name).string()) {
    refuse_input(options, input);
    std::error_code error;
    std::filesystem::create_directories(options.out, error);
    if (error) throw std::system_error(error, "can't create " + options.out);
    lock(options.out);
    run_.settings = settings_of(options);
    run_.input = input.version;
    if (std::filesystem::exists(state_file())) resume(options);
    else refuse_existing(options.out, options.name);
    run_.save(state_file());
  }

  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;

  ~output_folder() { ::close(lock_); }

  const saved_run& run() const { return run_; }

  /// Where the loader continues.
  std::optional<feedline::checkpoint> position() const {
    if (run_.position.empty()) return std::nullopt;
    return feedline::checkpoint::from_bytes(run_.position);
  }

  /// The file name of the shard that comes next.
  std::string next_shard() const { return shard(run_.shards.size()); }

  /// Ends the next shard. `position` is that of the loader after its last sample, `totals` all samples so far.
  void finish(tar_writer& shard, const feedline::checkpoint& position, const summary& totals) {
    if (std::filesystem::exists(shard.path()) && !may_replace_)
      throw std::runtime_error(shard.path() + " appeared during the run: it isn't overwritten");
    may_replace_ = false;
    shard.finish();
    const std::string index = shard.path() + ".index";
    std::filesystem::remove(index);
    feedline::tar_samples(shard.path(), {.keep_index = true}).indexed();
    if (!std::filesystem::exists(index)) throw std::runtime_error("can't write " + index);
    run_.shards.push_back(shard.size());
    run_.position = position.to_bytes();
    run_.totals = totals;
    run_.save(state_file());
  }

  /// Ends the run.
  void complete(const summary& totals) {
    run_.is_complete = true;
    run_.position.clear(); // so that the file is the same whether the run was interrupted or not
    run_.totals = totals;
    run_.save(state_file());
  }

 private:
  static std::string shortest(double number) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, number).ptr};
  }

  static std::vector<std::pair<std::string, std::string>> settings_of(const command_line& o) {
    constexpr const char* names[] = {"fail", "skip", "keep"};
    const bool by_bytes = !o.shards;
    return {{"--shuffle-seed", o.shuffle_seed ? std::to_string(*o.shuffle_seed) : "none"},
            {"--shard-bytes", by_bytes ? std::to_string(o.bytes_per_shard()) : "none"},
            {"--shards", by_bytes ? "none" : std::to_string(*o.shards)},
            {"--segments", std::to_string(o.markers.segments_per_row)},
            {"--max-growth", shortest(o.markers.max_growth)},
            {"--on-error", names[static_cast<int>(o.on_error)]}};
  }

  /// New shards beside the old ones could replace them, or become input of the next run.
  static void refuse_input(const command_line& options, const input_files& input) {
    namespace fs = std::filesystem;
    const fs::path out = fs::weakly_canonical(fs::absolute(options.out));
    const auto refuse = [&](const std::string& what) {
      throw usage_error("--out " + options.out + " is " + what + ": choose another folder");
    };
    if (!input.folder.empty()) {
      const fs::path folder = fs::canonical(input.folder);
      if (std::mismatch(folder.begin(), folder.end(), out.begin(), out.end()).first == folder.end())
        refuse("the folder of the input, or inside it");
      return;
    }
    for (const std::string& shard : input.names)
      if (const fs::path file = fs::absolute(shard);
          fs::canonical(file.parent_path()) == out || fs::canonical(file).parent_path() == out)
        refuse("the folder of the input " + shard);
  }

  void refuse_existing(const std::string& folder, const std::string& name) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string file = entry.path().filename().string();
      const std::size_t digits = name.size() + 1;
      if (file.starts_with(name + "-") && file.find(".tar") != std::string::npos &&
          file.find_first_not_of("0123456789", digits) >= digits + 6)
        throw std::runtime_error(entry.path().string() +
                                 " exists and isn't of this run: choose another --out or --name");
    }
  }

  void lock(const std::string& folder) {
    lock_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ < 0 || (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)) {
      const std::string why = lock_ < 0 ? std::strerror(errno) : "another run writes to it";
      throw std::runtime_error("can't use " + folder + ": " + why);
    }
  }

  void resume(const command_line& options) {
    saved_run earlier = saved_run::load(state_file());
    may_replace_ = true;
    if (!earlier.shards.empty()) { // otherwise the flags don't matter yet
      check_same(earlier, options.out);
      earlier.settings = run_.settings;
      run_ = std::move(earlier);
    }
    remove_drafts(options.out);
  }

  void check_same(const saved_run& earlier, const std::string& folder) const {
    const auto refuse = [&](const std::string& why) {
      throw std::runtime_error(why + ": use the same flags and input to continue, or another --out");
    };
    for (std::size_t i = 0; i < run_.settings.size(); ++i) {
      const auto& [flag, value] = run_.settings[i];
      const std::string before = i < earlier.settings.size() ? earlier.settings[i].second : "";
      // While nothing has failed, the result doesn't depend on it.
      const bool may_change = flag == "--on-error" && earlier.totals.failed == 0 && !earlier.is_complete;
      if (value != before && !may_change)
        refuse("the shards in " + folder + " were begun with " + flag + " " + before + ", not " + value);
    }
    if (earlier.input != run_.input)
      refuse("the input isn't the one with which the shards in " + folder + " were begun");
    for (std::size_t i = 0; i < earlier.shards.size(); ++i) {
      std::error_code error;
      if (std::filesystem::file_size(shard(i), error) != earlier.shards[i] || error)
        throw std::runtime_error(shard(i) + " was changed or removed after it was finished: delete " +
                                 prefix_ + "* and start again");
    }
  }

  /// A killed run may have left a part of the next shard, or of its index.
  void remove_drafts(const std::string& folder) const {
    const std::string begin = std::filesystem::path(next_shard()).filename().string() + ".";
    std::vector<std::filesystem::path> drafts;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with(begin)) drafts.push_back(entry.path());
    for (const auto& draft : drafts) std::filesystem::remove(draft);
  }

  std::string shard(std::size_t number) const {
    const std::string digits = std::to_string(number);
    return prefix_ + "-" + std::string(6 - std::min<std::size_t>(digits.size(), 6), '0') + digits + ".tar";
  }

  std::string state_file() const { return prefix_ + ".reshard"; }

  std::string prefix_;
  saved_run run_;
  int lock_ = -1;
  bool may_replace_ = false; // a killed run may have finished the next shard, but not saved that
};
