// SPDX-License-Identifier: MIT
#pragma once
// The files of a source: their order in an epoch, and the indices of their samples.
#include <feedline/core/contract.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class mapped_file;

/// Lists files once, and goes through them in listed order or, in a shuffled epoch, in a keyed random order.
/// A sample's index is `number of its file << 40 | position in the file`, files counted in listed order.
class file_order {
 public:
  /// Throws std::invalid_argument for an empty list, an empty name and a file that is listed twice,
  /// std::runtime_error for wildcards that match nothing, std::system_error for a directory that can't be
  /// listed, std::length_error for more than 2^24 files. what() of the first two contains `source`.
  file_order(const file_patterns& files, const char* source);

  /// The names of files and other things: `append(names, pattern)` adds those that a pattern names, and
  /// `shown(name)` is a name or a pattern for messages. Throws as the constructor does.
  static std::vector<std::string>
  list(const file_patterns& files, const char* source,
       function_ref<void(std::vector<std::string>& names, const std::string& pattern)> append,
       function_ref<std::string(const std::string& name)> shown);

  /// Files that were listed before. `objects`: which of them aren't files on this machine; empty: none.
  file_order(std::vector<std::string> names, const char* source, const std::vector<bool>& objects = {});

  /// Throws std::system_error if one of this rank's files has never existed, and std::runtime_error if one is a directory.
  /// Files that were removed after they were listed are errors when the source reaches them.
  void start(const epoch& e);

  /// Throws the same for all files.
  void expect_files() const;

  /// Advances to the next file and returns its number; nothing after the last one.
  std::optional<std::size_t> next();

  /// The file after `skipping` further ones; doesn't advance.
  std::optional<std::size_t> peek(std::size_t skipping = 0) const;

  /// Makes this file the next and last one.
  void go_to(std::size_t file);

  void state(auto& archive) { archive(reached_); }

  /// The file that next() returned last, in a resumed run.
  std::size_t last() const;

  /// Maps that file, in which the run continues at an offset.
  std::shared_ptr<const mapped_file> map_last(std::size_t offset) const;

  std::uint64_t extent() const noexcept;

  /// A hash of the first `extent` files as listed: of the last part of each name, and of the file's size,
  /// beginning and end.
  std::uint64_t fingerprint(std::uint64_t extent) const;

  const std::vector<std::string>& names() const noexcept;

  static std::uint64_t index_of(std::size_t file, std::uint64_t place) noexcept {
    return std::uint64_t{file} << place_bits | place;
  }

  static std::size_t file_of(std::uint64_t index) noexcept {
    return static_cast<std::size_t>(index >> place_bits);
  }

  static std::uint64_t place_of(std::uint64_t index) noexcept {
    return index & ((std::uint64_t{1} << place_bits) - 1);
  }

  /// A sample's origin: `name`, or, if that is empty, "photos-0003.tar: sample #17".
  std::string origin_of(std::uint64_t index, std::string name) const;

  /// The name of the file that contains a sample; empty if no file has this index.
  std::string name_of(std::uint64_t index) const;

 private:
  static constexpr unsigned place_bits = 40;

  struct listing {
    std::vector<std::string> names;
    std::vector<std::uint32_t> unfit; // those that didn't exist or were directories
    const char* source;
  };

  enum class file_type { missing, directory, other };

  // Throws std::invalid_argument if a name is listed twice, also with extra slashes or `./` if it isn't a URL.
  static void refuse_doubles(const std::vector<std::string>& names,
                             function_ref<std::string(const std::string& name)> shown);

  static file_type type_of(const std::string& name) noexcept;

  // Throws if one of these files, which were unfit, still is.
  void refuse_unfit(const std::vector<std::uint32_t>& files) const;

  std::shared_ptr<const listing> list_;
  std::vector<std::uint32_t> order_; // empty: as listed
  std::size_t reached_ = 0;
  std::size_t end_ = 0; // number of files in this epoch
};

/// Limits the size of a TAR shard, so that a position fits into the 40 bits that an index has for it.
constexpr bool has_too_many_blocks(std::uint64_t bytes) noexcept { return bytes >> 49 != 0; }

inline constexpr const char* too_many_blocks = "has more than 2^40 blocks: split the shard";

/// A source that reads files one after another. After `seek(index)` it yields only samples of that file.
template <class S>
concept file_source = source<S> && requires(S& s, const S& described, std::uint64_t index) {
  { described.files() } -> std::same_as<const file_order&>;
  s.seek(index);
};

/// A base of what gives access to samples by position, counted over all files in listed order: it converts between
/// positions, and files and indices.
class places_in_files {
 public:
  std::uint64_t size() const noexcept { return firsts_.back(); }

  std::uint64_t index_at(std::uint64_t place) const {
    const std::size_t file = file_of(place);
    return file_order::index_of(file, place - firsts_[file]);
  }

  /// The position of the sample with this index, if there is one.
  std::optional<std::uint64_t> find(std::uint64_t index) const {
    const std::size_t file = file_order::file_of(index);
    if (file + 1 >= firsts_.size()) return {};
    const std::uint64_t position = file_order::place_of(index);
    if (position >= firsts_[file + 1] - firsts_[file]) return {};
    return firsts_[file] + position;
  }

  /// How many samples the first `files` files have.
  std::uint64_t size_of_first(std::uint64_t files) const {
    return firsts_[static_cast<std::size_t>(std::min<std::uint64_t>(files, firsts_.size() - 1))];
  }

 protected:
  /// Adds a file with this many samples.
  void add_file(std::uint64_t samples);

  std::size_t file_of(std::uint64_t place) const {
    return static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), place) -
                                    firsts_.begin()) -
           1;
  }

  /// The position of a file's first sample.
  std::uint64_t first_of(std::size_t file) const { return firsts_[file]; }

 private:
  std::vector<std::uint64_t> firsts_{0}; // first position of each file; then the total
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <cerrno>
#include <system_error>

#include <sys/stat.h>

#include <feedline/detail/file_search.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE file_order::file_order(const file_patterns& files, const char* source)
    : file_order(list(
                     files, source,
                     [](std::vector<std::string>& names, const std::string& pattern) {
                       append_files(names, pattern);
                     },
                     [](const std::string& name) { return name; }),
                 source) {}

FEEDLINE_INLINE std::vector<std::string>
file_order::list(const file_patterns& files, const char* source,
                 function_ref<void(std::vector<std::string>& names, const std::string& pattern)> append,
                 function_ref<std::string(const std::string& name)> shown) {
  const auto refuse = [&](const char* reason) {
    throw std::invalid_argument("feedline::" + std::string(source) + ": " + reason);
  };
  if (files.names().empty()) refuse("the list of files is empty: it needs at least one name or pattern");
  std::vector<std::string> names;
  for (const std::string& pattern : files.names()) {
    if (pattern.empty()) refuse("a file in the list has an empty name");
    append(names, pattern);
    if (names.size() > most_files) too_many_files(shown(pattern));
  }
  refuse_doubles(names, shown);
  return names;
}

FEEDLINE_INLINE void file_order::refuse_doubles(const std::vector<std::string>& names,
                                                function_ref<std::string(const std::string& name)> shown) {
  const auto plain = [](std::string_view name) {
    if (!scheme_of(name).empty()) return std::string(name);
    std::string text(name.starts_with('/') ? "/" : "");
    while (!name.empty()) {
      const std::string_view part = name.substr(0, name.find('/'));
      if (!part.empty() && part != ".") text.append(part).append("/");
      name.remove_prefix(std::min(part.size() + 1, name.size()));
    }
    return text;
  };
  std::vector<std::pair<std::uint64_t, std::uint32_t>> hashes;
  hashes.reserve(names.size());
  for (const std::string& name : names)
    hashes.emplace_back(stable_hash(plain(name)), static_cast<std::uint32_t>(hashes.size()));
  std::sort(hashes.begin(), hashes.end());
  for (std::size_t i = 1; i < hashes.size(); ++i)
    if (hashes[i].first == hashes[i - 1].first &&
        plain(names[hashes[i].second]) == plain(names[hashes[i - 1].second]))
      throw std::invalid_argument(in_backticks(shown(names[hashes[i].second])) +
                                  " is listed twice: an epoch would yield each of its samples twice");
}

FEEDLINE_INLINE file_order::file_order(std::vector<std::string> names, const char* source,
                                       const std::vector<bool>& objects)
    : end_(names.size()) {
  std::vector<std::uint32_t> unfit;
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((objects.empty() || !objects[i]) && type_of(names[i]) != file_type::other)
      unfit.push_back(static_cast<std::uint32_t>(i));
  list_ = std::make_shared<const listing>(listing{std::move(names), std::move(unfit), source});
}

FEEDLINE_INLINE file_order::file_type file_order::type_of(const std::string& name) noexcept {
  struct stat status {};

  if (::stat(name.c_str(), &status) != 0)
    return errno == ENOENT || errno == ENOTDIR ? file_type::missing : file_type::other;
  return S_ISDIR(status.st_mode) ? file_type::directory : file_type::other;
}

FEEDLINE_INLINE void file_order::refuse_unfit(const std::vector<std::uint32_t>& files) const {
  std::string missing;
  std::size_t more = 0;
  for (const std::uint32_t file : files) {
    const std::string& name = names()[file];
    const file_type type = type_of(name);
    if (type == file_type::directory) {
      const std::string_view source = list_->source;
      const char* const ending = source == "tar_samples"      ? "*.tar"
                                 : source == "tar_gz_samples" ? "*.tar.gz"
                                 : source == "arrow_rows"     ? "*.arrow"
                                                              : "*";
      throw std::runtime_error(in_backticks(name) + " is a directory: name the files in it, such as " +
                               in_backticks(name + (name.ends_with('/') ? "" : "/") + ending));
    }
    if (type != file_type::missing) continue;
    if (missing.empty()) missing = readable(name);
    else ++more;
  }
  if (missing.empty()) return;
  if (more > 0) missing += " and " + std::to_string(more) + (more > 1 ? " more files" : " more file");
  throw std::system_error(ENOENT, std::generic_category(), missing);
}

FEEDLINE_INLINE void file_order::expect_files() const { refuse_unfit(list_->unfit); }

FEEDLINE_INLINE void file_order::start(const epoch& e) {
  order_.clear();
  reached_ = 0;
  end_ = static_cast<std::size_t>(std::min<std::uint64_t>(names().size(), e.extent));
  const bool has_others = !e.rank.is_alone() && !e.rank.by_sample;
  if (has_others && end_ < e.rank.world_size)
    throw std::runtime_error(std::to_string(end_) + " files can't be divided among " +
                             std::to_string(e.rank.world_size) +
                             " ranks: each rank needs at least one; rank::by_sample divides their samples");
  if (e.shuffled || has_others) {
    for (std::uint32_t i = 0; i < end_; ++i) order_.push_back(i);
    if (e.shuffled) shuffle_range(order_.begin(), order_.size(), random_generator(key(e.seed, e.number)));
  }
  if (has_others) { // the files of this rank
    end_ = 0;
    for (std::size_t i = e.rank.number; i < order_.size(); i += e.rank.world_size) order_[end_++] = order_[i];
    order_.resize(end_);
  }
  if (list_->unfit.empty()) return;
  std::vector<std::uint32_t> mine;
  for (std::size_t i = 0; i < end_; ++i)
    if (const auto file = static_cast<std::uint32_t>(*peek(i));
        std::ranges::binary_search(list_->unfit, file))
      mine.push_back(file);
  std::ranges::sort(mine);
  refuse_unfit(mine);
}

FEEDLINE_INLINE std::optional<std::size_t> file_order::next() {
  const auto number = peek();
  reached_ += number.has_value();
  return number;
}

FEEDLINE_INLINE std::optional<std::size_t> file_order::peek(std::size_t skipping) const {
  if (reached_ >= end_ || skipping >= end_ - reached_) return std::nullopt;
  return order_.empty() ? reached_ + skipping : order_[reached_ + skipping];
}

FEEDLINE_INLINE void file_order::go_to(std::size_t file) {
  order_.clear();
  reached_ = file;
  end_ = std::min(file + 1, names().size());
}

FEEDLINE_INLINE std::size_t file_order::last() const {
  if (reached_ == 0 || reached_ > end_) throw_state_not_whole();
  return order_.empty() ? reached_ - 1 : order_[reached_ - 1];
}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> file_order::map_last(std::size_t offset) const {
  auto file = std::make_shared<const mapped_file>(names()[last()]);
  if (offset > file->bytes().size())
    throw std::runtime_error(readable(file->path()) + " has become shorter since the checkpoint was taken");
  return file;
}

FEEDLINE_INLINE std::uint64_t file_order::extent() const noexcept { return names().size(); }

FEEDLINE_INLINE std::uint64_t file_order::fingerprint(std::uint64_t extent) const {
  std::uint64_t hash = key(extent);
  for (std::size_t i = 0; i < std::min<std::uint64_t>(extent, names().size()); ++i)
    hash = key(hash, stable_hash(last_name(names()[i])), fingerprint_of_file(names()[i]));
  return hash;
}

FEEDLINE_INLINE const std::vector<std::string>& file_order::names() const noexcept { return list_->names; }

FEEDLINE_INLINE std::string file_order::origin_of(std::uint64_t index, std::string name) const {
  if (!name.empty()) return name;
  return readable(name_of(index)) + ": sample #" + std::to_string(place_of(index));
}

FEEDLINE_INLINE std::string file_order::name_of(std::uint64_t index) const {
  return file_of(index) < names().size() ? names()[file_of(index)] : std::string();
}

FEEDLINE_INLINE void places_in_files::add_file(std::uint64_t samples) { firsts_.push_back(size() + samples); }

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
