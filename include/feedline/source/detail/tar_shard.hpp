// SPDX-License-Identifier: MIT
#pragma once
// Groups the members of one TAR shard into samples.
#include <atomic>
#include <iterator>
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Passes the first notice of each kind to a user's function. Any thread may use it.
class tar_notice {
 public:
  explicit tar_notice(callback<std::string> on_notice) : on_notice_(std::move(on_notice)) {}

  /// Members of a sample that aren't neighbours: looking for them takes memory, so only for a function.
  bool may_look_for_neighbours() const noexcept { return static_cast<bool>(on_notice_); }

  bool looks_for_neighbours() const noexcept {
    return may_look_for_neighbours() && !gave_neighbours_.load(std::memory_order_relaxed);
  }

  void give_neighbours(const std::string& sentence) { give(gave_neighbours_, sentence); }

  /// An archive that follows the end of the first one. Without a function the sentence goes to stderr.
  bool looks_for_archives() const noexcept { return !gave_archive_.load(std::memory_order_relaxed); }

  void give_archive(const std::string& sentence) { give(gave_archive_, sentence); }

 private:
  void give(std::atomic<bool>& was_given, const std::string& sentence) {
    if (was_given.exchange(true)) return;
    try {
      notify(on_notice_, sentence);
    } catch (...) { // a notice isn't worth a failure
    }
  }

  const callback<std::string> on_notice_;
  std::atomic<bool> gave_neighbours_{false};
  std::atomic<bool> gave_archive_{false};
};

/// The hashes of a shard's keys so far, at most 2^20.
class seen_keys {
 public:
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;

  /// Adds a hash. False if it was there.
  bool add(std::uint64_t hash) {
    constexpr std::size_t most = most_bytes / sizeof(std::uint64_t) / 2;
    hash += hash == 0;
    const auto slot_of = [this](std::uint64_t wanted) {
      std::size_t at = static_cast<std::size_t>(wanted) % slots_.size();
      while (slots_[at] != 0 && slots_[at] != wanted) at = (at + 1) % slots_.size();
      return slots_.begin() + static_cast<std::ptrdiff_t>(at);
    };
    if (2 * size_ == slots_.size() && size_ < most) {
      const auto before =
          std::exchange(slots_, std::vector<std::uint64_t>(std::max<std::size_t>(64, 4 * size_)));
      for (const std::uint64_t other : before)
        if (other != 0) *slot_of(other) = other;
    }
    const auto slot = slot_of(hash);
    if (*slot == hash) return false;
    if (size_ == most) return true;
    *slot = hash;
    ++size_;
    return true;
  }

 private:
  std::size_t size_ = 0;
  std::vector<std::uint64_t> slots_; // a hash table with linear probing, at most half full; 0: free
};

/// The samples of one shard.
class shard_samples {
 protected:
  /// `reader` begins at `from`.
  shard_samples(std::shared_ptr<const named_version> file, const tar_reader& reader, const tar_settings& how,
                const tar_place& from = {.position = 0})
      : file_(std::move(file)),
        reader_(reader),
        notice_(how.notice),
        usual_size_(static_cast<std::size_t>(from.usual_size)),
        position_(from.position) {
    if (how.hidden) reader_.keep_hidden();
    if (how.concatenated) reader_.read_on();
    else if (notice_ && notice_->looks_for_archives()) reader_.look_for_more();
    if (from.begin != tar_place::none) advance();
    if (has_only_hidden()) begin_ = from.begin; // where an index finds the error again
  }

  shard_samples(shard_samples&&) = delete;
  ~shard_samples() = default;

 public:
  /// Returns the next sample; nothing at the shard's end. Throws tar_error instead of a sample with a member
  /// that can't be read: it never returns a partial sample. Later calls return the samples after it, if the
  /// rest of the shard can be read; this is also so after other exceptions, but not after an outage. A shard of hidden
  /// members only has one sample, which is an error.
  std::optional<tar_sample> next() {
    if (has_only_hidden()) {
      ++position_;
      throw tar_error(readable(file_->path) + ": all members are hidden (" +
                      std::to_string(reader_.hidden()) +
                      "): set `hidden` in the source's options to read them");
    }
    if (status_ == tar_status::end) return {};
    ++position_;
    std::optional<tar_sample> sample{tar_sample()};
    try {
      read(*sample);
    } catch (...) {
      while (goes_on(*sample)) advance();
      throw;
    }
    return sample;
  }

  /// How many samples next() has returned, including those that it threw instead of.
  std::uint64_t position() const noexcept { return position_; }

  /// The offset of the next sample.
  std::uint64_t begin() const noexcept { return begin_; }

  /// From where a later pass yields what next() would.
  tar_place place() const {
    return {position_, status_ == tar_status::end ? tar_place::none : begin(), usual_size_};
  }

  /// How many fields the last sample that could be read has.
  std::size_t usual_size() const noexcept { return usual_size_; }

  /// Whether the next header is damaged.
  bool is_at_damage() const noexcept { return status_ == tar_status::damaged; }

 private:
  /// A symbolic link between the last two members.
  struct left_out {
    std::uint64_t begin;
    std::string key;
    std::string sentence; ///< "member `17.jpg` at offset 512 is a symbolic link to `x.jpg`"
  };

  static std::string key_of(const tar_member& member) {
    const std::string name = member.full_name();
    return std::string(split(name).first);
  }

  // "dir.d/17.seg.png" is split into "dir.d/17" and "seg.png".
  static std::pair<std::string_view, std::string_view> split(std::string_view name) noexcept {
    const std::size_t dot = name.find('.', name.rfind('/') + 1);
    if (dot == std::string_view::npos) return {name, {}};
    return {name.substr(0, dot), name.substr(dot + 1)};
  }

  void advance() {
    error_ = nullptr;
    links_.clear();
    try {
      while ((status_ = reader_.next(ahead_)) == tar_status::link) leave_out();
      begin_ = links_.empty() ? ahead_.begin : begin_with_links();
      if (status_ == tar_status::end && !reader_.further().empty() && notice_) [[unlikely]]
        notice_->give_archive(
            readable(file_->path) + ": " + reader_.further() +
            ", which isn't read: set `concatenated` in the source's options to read it too; "
            "further shards aren't reported");
    } catch (...) { // the error of the sample that the member belongs to
      error_ = std::current_exception();
      if (is_outage(error_)) {
        status_ = tar_status::end;
        throw;
      }
      status_ = reader_.has_ended() ? tar_status::damaged : tar_status::unreadable;
      begin_ = ahead_.begin;
    }
  }

  bool has_only_hidden() const noexcept {
    return status_ == tar_status::end && position_ == 0 && reader_.hidden() > 0;
  }

  [[gnu::cold]] void leave_out() {
    constexpr std::size_t most = 16; // that a message may name
    if (links_.size() == most) return;
    links_.push_back({ahead_.begin, key_of(ahead_),
                      "; member " + in_backticks(ahead_.full_name()) + " at offset " +
                          std::to_string(ahead_.offset) + " is a symbolic link to " +
                          in_backticks(ahead_.target)});
  }

  // A sample begins with its links, so that a pass from there on finds them too.
  [[gnu::cold]] std::uint64_t begin_with_links() const {
    for (const left_out& link : links_)
      if (link.key == key_of(ahead_)) return link.begin;
    return ahead_.begin;
  }

  [[gnu::cold]] void add_links(std::string& sentences, const tar_sample& sample) const {
    for (const left_out& link : links_)
      if (link.key == sample.key()) sentences += link.sentence;
  }

  void read(tar_sample& sample) {
    const tar_member first = ahead_;
    archive_ = reader_.zeros();
    try {
      sample.shard_ = reader_.archive().begin_sample(file_);
      sample.offset_ = first.offset;
      const std::string_view stem = split(first.name).first;
      sample.key_ = stem;
      if (!first.directory.empty()) {
        sample.long_key_ =
            std::make_shared<const std::string>(std::string(first.directory).append("/").append(stem));
        sample.key_ = *sample.long_key_;
      }
    } catch (...) { // its key isn't known, so neither are its other members
      status_ = tar_status::end;
      throw;
    }
    std::string problem, links;
    std::exception_ptr error;
    if (!links_.empty()) add_links(links, sample);
    do {
      const bool has_room = reader_.archive().keep_member();
      if (error_) {
        error = error_;
      } else if (status_ != tar_status::member) {
        if (problem.empty()) problem = reader_.problem();
      } else if (has_room) {
        sample.fields_.push_back({split(ahead_.name).second, ahead_.bytes});
      } else if (problem.empty()) {
        problem = "sample " + in_backticks(sample.key()) + " at offset " + std::to_string(first.offset) +
                  " is larger than the limit, max_sample_bytes";
      }
      advance();
      if (!links_.empty()) add_links(links, sample);
    } while (goes_on(sample));
    if (!links.empty()) sample.links_ = std::make_shared<const std::string>(std::move(links));
    if (status_ == tar_status::damaged && problem.empty() && !is_complete(sample)) {
      if (error_) error = error_;
      else
        problem = reader_.problem() + "; sample " + in_backticks(sample.key()) +
                  " before it may have lost members there";
      advance();
    }
    if (notice_ && notice_->looks_for_neighbours()) notice_second(sample, first.offset);
    if (error) std::rethrow_exception(error);
    if (problem.empty()) problem = duplicate(sample, first.offset);
    if (!problem.empty()) throw tar_error(readable(file_->path) + ": " + problem);
    usual_size_ = sample.size();
  }

  bool goes_on(const tar_sample& sample) const {
    return status_ != tar_status::end && status_ != tar_status::damaged && status_ != tar_status::spoilt &&
           archive_ == reader_.zeros() && has_key_of(sample);
  }

  bool has_key_of(const tar_sample& sample) const {
    std::string_view key = sample.key(), stem = split(ahead_.name).first;
    if (ahead_.directory.empty()) return key == stem;
    const std::size_t directory = ahead_.directory.size();
    return key.size() == directory + 1 + stem.size() && key.starts_with(ahead_.directory) &&
           key[directory] == '/' && key.ends_with(stem);
  }

  // At a damaged header it is unknown whether the sample before it continues there. It counts as complete if
  // it has as many fields as the sample before, or if the damaged header seems to name another key with a
  // field that the sample has already.
  bool is_complete(const tar_sample& sample) const {
    if (has_key_of(sample)) return false;
    if (usual_size_ > 0 && sample.size() >= usual_size_) return true;
    return sample.find(split(ahead_.name).second).has_value();
  }

  void notice_second(const tar_sample& sample, std::uint64_t offset) {
    if (seen_.add(stable_hash(sample.key()))) return;
    notice_->give_neighbours(
        readable(file_->path) + ": the members of sample " + in_backticks(sample.key()) +
        " aren't neighbours: at offset " + std::to_string(offset) +
        " more of them follow, as another sample. Write the members of a sample one after another "
        "(tar --sort=name); further samples aren't reported");
  }

  static std::string duplicate(const tar_sample& sample, std::uint64_t offset) {
    const std::string_view* twice = nullptr;
    constexpr std::size_t few = 16; // above it, sort: all pairs of a hostile shard would take too long
    std::vector<std::string_view> names;
    if (sample.size() <= few) {
      for (const tar_field& a : sample)
        for (const tar_field* b = &a + 1; b < sample.end(); ++b)
          if (a.name == b->name) twice = &a.name;
    } else {
      for (const tar_field& f : sample) names.push_back(f.name);
      std::sort(names.begin(), names.end());
      const auto found = std::adjacent_find(names.begin(), names.end());
      if (found != names.end()) twice = &*found;
    }
    if (!twice) return {};
    const std::string where = "sample " + in_backticks(sample.key()) + " at offset " + std::to_string(offset);
    if (twice->empty())
      return where + " has more than one member without an extension: give each a different extension";
    return where + " has the field " + in_backticks(*twice) + " more than once";
  }

  std::shared_ptr<const named_version> file_;
  tar_reader reader_;
  std::shared_ptr<tar_notice> notice_;
  seen_keys seen_; // if there is a notice to give
  tar_member ahead_;
  tar_status status_ = tar_status::end;
  std::exception_ptr error_; // instead of the member ahead
  std::size_t usual_size_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t begin_ = 0;     // of the next sample
  std::uint64_t archive_ = 0;   // which one of the shard's has the last sample, see tar_reader::zeros()
  std::vector<left_out> links_; // between the last two members
};

/// Where the members of an archive in memory are, for hard links to them. Reads all headers when it is first asked, so that
/// all links of a shard take one pass over it. Any thread may use it.
class tar_targets {
 public:
  /// The contents of the last file of that name before an offset.
  std::optional<std::span<const std::byte>> find(std::span<const std::byte> archive, std::string_view name,
                                                 std::uint64_t before) {
    constexpr int most_links = 40; // to a link
    const std::lock_guard lock(mutex_);
    if (!is_made_) make(archive);
    place wanted{.name = hash_of(name), .begin = before};
    for (int links = 0; links < most_links; ++links) {
      const auto after = std::lower_bound(places_.begin(), places_.end(), wanted);
      if (after == places_.begin() || std::prev(after)->name != wanted.name) return {};
      const place& found = *std::prev(after);
      if (!found.is_link)
        return archive.subspan(static_cast<std::size_t>(found.contents),
                               static_cast<std::size_t>(found.size));
      wanted = {.name = found.contents, .begin = found.begin};
    }
    return {};
  }

 private:
  struct place {
    std::uint64_t name; // its hash
    std::uint64_t begin;
    std::uint64_t contents = 0; // of a link: the hash of its target
    std::uint64_t size = 0;
    bool is_link = false;

    bool operator<(const place& other) const noexcept {
      return std::pair(name, begin) < std::pair(other.name, other.begin);
    }
  };

  static std::uint64_t hash_of(std::string_view name) noexcept {
    while (name.starts_with("./")) name.remove_prefix(2);
    return stable_hash(name);
  }

  void make(std::span<const std::byte> archive) {
    tar_memory memory(archive);
    tar_reader reader(memory);
    reader.keep_hidden();
    reader.read_on();
    tar_member member;
    places_.clear(); // of a try that found no memory
    for (tar_status status; (status = reader.next(member)) != tar_status::end;) {
      const std::uint64_t name = hash_of(member.full_name());
      if (status == tar_status::member) places_.push_back({name, member.begin, member.contents, member.size});
      else if (status == tar_status::unreadable && !member.target.empty())
        places_.push_back({name, member.begin, hash_of(member.target), 0, true});
    }
    std::sort(places_.begin(), places_.end());
    is_made_ = true;
  }

  std::mutex mutex_; // guards making them
  bool is_made_ = false;
  std::vector<place> places_;
};

/// A mapped archive, in which hard links find their files. Without `targets`, which several threads may share, the first link
/// makes them.
class linked_tar_memory : public tar_memory {
 public:
  linked_tar_memory(std::span<const std::byte> archive, std::shared_ptr<tar_targets> targets)
      : tar_memory(archive), bytes_(archive), targets_(std::move(targets)) {}

  bool follows_links() const noexcept override { return true; }

  std::optional<std::span<const std::byte>> find(std::string_view name, std::uint64_t before) override {
    if (!targets_) targets_ = std::make_shared<tar_targets>();
    return targets_->find(bytes_, name, before);
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<tar_targets> targets_;
};

/// Constructed before the samples that are read from it.
template <class Archive>
struct archive_of_shard {
  Archive bytes;
};

/// The samples of a shard with an archive of its own.
template <class Archive>
class tar_shard_of : archive_of_shard<Archive>, public shard_samples {
  using own = archive_of_shard<Archive>;

 public:
  /// The archive begins at `from`.
  tar_shard_of(std::shared_ptr<const named_version> file, Archive archive, const tar_settings& how,
               const tar_place& from = {.position = 0})
      : own{std::move(archive)}, shard_samples(std::move(file), tar_reader(own::bytes), how, from) {}

  const Archive& archive() const noexcept { return own::bytes; }

 protected:
  struct continued {};

  /// The archive has random access.
  tar_shard_of(continued, std::shared_ptr<const named_version> file, Archive archive, const tar_settings& how,
               const tar_place& from)
      : own{std::move(archive)},
        shard_samples(std::move(file), tar_reader(own::bytes, from.begin), how, from) {}
};

/// The samples of a mapped shard.
class tar_shard : public tar_shard_of<linked_tar_memory> {
 public:
  tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_settings& how)
      : tar_shard_of(version_of(file), {bytes_of(*file), nullptr}, how) {}

  /// The shard from a place on that an earlier pass has reached. `targets`: those of the same archive, or null.
  tar_shard(const std::shared_ptr<const mapped_file>& file, const tar_settings& how, const tar_place& from,
            std::shared_ptr<tar_targets> targets)
      : tar_shard_of(continued(), version_of(file), {file->bytes(), std::move(targets)}, how, from) {}

  static std::shared_ptr<const mapped_file> map(const std::string& path, sharing with = sharing::all) {
    try {
      return std::make_shared<const mapped_file>(path, with);
    } catch (const std::runtime_error& error) {
      throw tar_error(error.what());
    }
  }

 private:
  static std::shared_ptr<const named_version> version_of(const std::shared_ptr<const mapped_file>& file) {
    return {file, &file->version()};
  }

  static std::span<const std::byte> bytes_of(const mapped_file& file) {
    if (has_too_many_blocks(file.bytes().size()))
      throw tar_error(readable(file.path()) + ": " + too_many_blocks);
    return file.bytes();
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
