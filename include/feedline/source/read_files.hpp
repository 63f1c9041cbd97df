// SPDX-License-Identifier: MIT
#pragma once
// read_files: a source of the samples of files in any format that can be read by position.
#include <typeinfo>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A format of files for read_files(): a plain copyable class, which any thread may use, with
/// - `std::uint64_t count(std::span<const std::byte> file) const`: how many samples a file has. A sample that is cut off counts:
///   reading it throws. Throws for a file of another kind. It may be `count(std::uint64_t bytes)` where the size says it;
/// - `T at(std::span<const std::byte> file, std::uint64_t number) const`: sample `number` of a file, which owns its data: the file
///   may be unmapped after the call. Throws for a damaged one. Check every length that comes from the file's bytes, and `number`
///   too: another file of the same name may have fewer samples.
///
/// A std::runtime_error that they throw gets the file's name. Optionally a format also has
/// - `static constexpr const char* kind`: its name in messages and checkpoints; by default that of its type;
/// - `std::uint64_t offset(std::uint64_t number) const`: where a sample begins, where that doesn't depend on the file's contents:
///   then the system reads ahead of it;
/// - `static constexpr const char* sample_name`: what messages call a sample: "record"; by default "sample";
/// - `max_item_bytes()`, `parameters()` and `std::uint64_t fingerprint() const`, a hash of its parameters, as for a source.
template <class Format>
concept file_format = std::copy_constructible<Format> &&
                      requires(const Format& f, std::span<const std::byte> file, std::uint64_t number) {
                        requires requires {
                          { f.count(file) } -> std::convertible_to<std::uint64_t>;
                        } || requires {
                          { f.count(number) } -> std::convertible_to<std::uint64_t>;
                        };
                        { f.at(file, number) } -> std::move_constructible;
                        requires std::is_object_v<decltype(f.at(file, number))>;
                      };

namespace detail {

template <class Format>
consteval const char* kind_of_format() {
  if constexpr (requires { Format::kind; }) return Format::kind;
  else return type_name<Format>.data();
}

/// A format whose number of samples follows from a file's size.
template <class Format>
concept counts_by_size = requires(const Format& f, std::uint64_t bytes) { f.count(bytes); };

/// Calls f; a std::runtime_error that it throws gets the file's name.
template <class F>
auto of_file(const std::string& name, F f) {
  try {
    return f();
  } catch (const std::runtime_error& error) {
    if (typeid(error) != typeid(std::runtime_error)) throw;
    throw std::runtime_error(readable(name) + ": " + error.what());
  }
}

/// How many samples a file has: `what` is its bytes or their number. No more than fit into indices.
template <file_format Format>
std::uint64_t samples_of(const std::string& name, const Format& format, const auto& what) {
  return of_file(name, [&] {
    const auto count = static_cast<std::uint64_t>(format.count(what));
    if (count >> 40 != 0) throw std::runtime_error("more than 2^40 samples");
    return count;
  });
}

template <file_format Format>
std::uint64_t samples_of(const mapped_file& file, const Format& format) {
  if constexpr (counts_by_size<Format>)
    return samples_of(file.path(), format, std::uint64_t{file.bytes().size()});
  else return samples_of(file.path(), format, file.bytes());
}

/// Access to the samples of files by position, counted over all files. A file that can't be read has one position; reading it
/// throws. A file is mapped when it is first needed.
template <file_format Format>
class formatted_by_position : public places_in_files {
 public:
  formatted_by_position(const file_order& files, Format format, const std::stop_token& stop)
      : format_(std::move(format)), maps_(std::make_shared<lazy_maps>(files.names())) {
    std::vector<listed> all(files.names().size());
    run_each_on_threads(all.size(), counts_by_size<Format> ? 1 : 16,
                        [&](std::size_t i) { // most wait for the disk
                          throw_if_stopped(stop);
                          all[i] = list(files.names()[i]);
                        });
    for (const listed& file : all) add_file(file.samples);
    files_ = std::make_shared<const std::vector<listed>>(std::move(all));
  }

  auto at(std::uint64_t position) const {
    const std::size_t number = file_of(position);
    const listed& known = (*files_)[number];
    if (!known.problem.empty()) throw std::runtime_error(known.problem);
    const auto file = maps_->at(number);
    const std::uint64_t sample = position - first_of(number);
    std::uint64_t needed = known.bytes;
    if constexpr (requires { format_.offset(sample); }) needed = std::min(needed, format_.offset(sample + 1));
    const auto bytes = file->bytes();
    if (bytes.size() < needed)
      throw std::runtime_error(readable(file->path()) + " has become shorter since it was listed");
    return of_file(file->path(), [&] {
      return format_.at(
          bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(known.bytes, bytes.size()))), sample);
    });
  }

  /// Has the system start to read a sample that isn't in memory.
  bool will_need(std::uint64_t position) const noexcept
    requires requires(const Format& f) { f.offset(position); }
  {
    const std::size_t number = file_of(position);
    const std::uint64_t sample = position - first_of(number), begin = format_.offset(sample);
    return maps_->will_need_few(number, begin, format_.offset(sample + 1) - begin);
  }

 private:
  struct listed {
    std::uint64_t samples = 1; // one for a file that can't be read
    std::uint64_t bytes = 0;   // what is appended later isn't read
    std::string problem{};     // why it can't be read; empty if it can
  };

  listed list(const std::string& name) const {
    listed file;
    try {
      if constexpr (counts_by_size<Format>) { // needn't be opened
        const auto bytes = size_of_regular_file(name);
        if (!bytes) return file;
        file.bytes = *bytes;
        if (*bytes > 0) { // 0 in /proc
          file.samples = samples_of(name, format_, *bytes);
          return file;
        }
      }
      const mapped_file opened(name);
      file.bytes = opened.bytes().size();
      file.samples = samples_of(opened, format_);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      file.problem = error.what();
    }
    return file;
  }

  Format format_;
  std::shared_ptr<lazy_maps> maps_;
  std::shared_ptr<const std::vector<listed>> files_;
};

/// Reads the samples of files in order.
template <file_format Format>
class formatted_files {
 public:
  using feedline_rows = void;
  using value = decltype(std::declval<const Format&>().at(std::span<const std::byte>(), std::uint64_t{0}));

  static constexpr source_traits traits{.kind = kind_of_format<Format>(), .splits_files_by_rank = true};

  formatted_files(const file_patterns& files, Format format)
      : files_(files, traits.kind), format_(std::move(format)) {}

  void start_epoch(const epoch& e) {
    files_.start(e);
    ahead_ = {};
  }

  std::optional<value> next() {
    for (;;) {
      if (!file_) {
        const auto number = files_.next();
        if (!number) return std::nullopt;
        index_ = file_order::index_of(*number, 0); // also of a file that can't be read
        open(*number, ahead_.open(files_, *number), std::exchange(first_, 0));
      }
      if (at_ < count_) {
        announce();
        index_ = file_order::index_of(number_, at_);
        const std::uint64_t number = at_++;
        return of_file(file_->path(), [&] { return format_.at(file_->bytes(), number); });
      }
      close();
    }
  }

  /// For formats of the library, which may have `copy`: copies the next samples of a file, whose indices count up, up to the end of the target; returns how many. 0: next() finds
  /// the next sample, or an error.
  std::size_t next_row(std::span<value> target)
    requires requires(const Format& f, std::span<const std::byte> file) { f.copy(file, 0, target); }
  {
    const std::size_t count = file_ ? format_.copy(file_->bytes(), at_, target) : 0;
    if (count == 0) return 0;
    announce();
    at_ += count;
    index_ = file_order::index_of(number_, at_ - 1);
    return count;
  }

  std::uint64_t index() const noexcept { return index_; }

  void state(auto& archive) {
    files_.state(archive);
    archive(at_);
  }

  void resumed() {
    if (at_ == closed) return;
    const std::uint64_t at = at_;
    open(files_.last(), files_.map_last(0), at);
    if (at > count_)
      throw std::runtime_error(readable(file_->path()) +
                               " has become shorter since the checkpoint was taken");
  }

  void seek(std::uint64_t index) {
    const std::size_t number = file_order::file_of(index);
    if (file_ && number_ == number) {
      at_ = file_order::place_of(index);
    } else {
      files_.go_to(number);
      close();
      first_ = file_order::place_of(index);
    }
  }

  /// The files and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const {
    const std::uint64_t hash = files_.fingerprint(extent);
    if constexpr (requires { format_.fingerprint(); }) return key(hash, format_.fingerprint());
    else return hash;
  }

  std::string parameters() const
    requires requires(const Format& f) { f.parameters(); }
  {
    return format_.parameters();
  }

  std::optional<std::size_t> max_item_bytes() const {
    if constexpr (requires { format_.max_item_bytes(); }) return format_.max_item_bytes();
    else return bytes_of_type<value>();
  }

  formatted_by_position<Format> indexed(const std::stop_token& stop = {}) const {
    files_.expect_files();
    return {files_, format_, stop};
  }

  std::string origin(std::uint64_t index) const {
    return readable(files_.name_of(index)) + ": " + sample_name() + " " +
           std::to_string(file_order::place_of(index));
  }

 private:
  static constexpr std::uint64_t closed = ~std::uint64_t{0};

  static const char* sample_name() {
    if constexpr (requires { Format::sample_name; }) return Format::sample_name;
    else return "sample";
  }

  void open(std::size_t number, std::shared_ptr<const mapped_file> file, std::uint64_t at) {
    count_ = samples_of(*file, format_);
    number_ = number;
    file_ = std::move(file);
    at_ = at;
  }

  void close() {
    file_.reset();
    at_ = closed;
  }

  void announce() {
    if constexpr (requires { format_.offset(at_); }) ahead_.announce(files_, file_, format_.offset(at_));
  }

  file_order files_;
  Format format_;
  std::shared_ptr<const mapped_file> file_;
  read_ahead ahead_;
  std::size_t number_ = 0;
  std::uint64_t count_ = 0;   // of the file's samples
  std::uint64_t at_ = closed; // number of the next one
  std::uint64_t first_ = 0;   // the sample at which reading of the next file starts
  std::uint64_t index_ = 0;
};

} // namespace detail

/// Reads the samples of files in a user's format, in order and by position: with global_shuffle(), ranks, interleave() and
/// exact resuming, as records() does.
///
/// Takes:   file names; each may be a pattern: `games/*.bin`; the format, see file_format
/// Gives:   what `format.at()` returns. A sample's index is `number of its file << 40 | number in the file`
/// Order:   file by file as listed; in infinite mode, or with several epochs, each epoch has a new file order
/// Throws:  when called and when a run starts, what records() throws; in the run, what the format throws for a sample (the next
///          one follows) or for a file (the next file follows); std::system_error for a file that can't be read, which by position is a
///          std::runtime_error, as for a file that has become shorter since its samples were counted
/// Limits:  files are mapped: shortening one in place during a run ends the process with SIGBUS. To replace a file, write
///          another one and rename it
/// Example: `read_files("logs/*.blk", checked_blocks{}) | global_shuffle() | batch(256)`
template <file_format Format>
auto read_files(const file_patterns& files, Format format) {
  return detail::as_pipeline(detail::formatted_files<Format>(files, std::move(format)));
}

} // namespace feedline::inline FEEDLINE_ABI
