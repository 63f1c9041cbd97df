// SPDX-License-Identifier: MIT
#pragma once
// tar_samples: a source of samples from TAR shards in the WebDataset convention, as views of mapped files or from an
// object store.
#include <initializer_list>

#include <feedline/core/contract.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/source/detail/indexed_tar.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/lines_options.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of tar_samples.
struct tar_options {
  /// For access by position (see global_shuffle()): saves the index of each shard next to it, as SHARD.index,
  /// and reuses it as long as the shard's size and time stay the same. A failure to write it is ignored. For a
  /// shard in a store, an object SHARD.index that was written for the same file is used in any case.
  bool keep_index = false;

  /// Where shards lie that aren't files, such as those of `https://` and `s3://`: remote() of feedline/remote.hpp, or another
  /// std::shared_ptr of an object_store.
  std::shared_ptr<detail::shard_store> remote{};

  /// The most bytes of a sample from that store or from a compressed shard, including its headers; reading a larger one fails. Also the
  /// limit for a memory_budget.
  std::size_t max_sample_bytes = std::size_t{1} << 30;

  bool hidden = false; ///< also read hidden members, such as `.DS_Store`, `._17.jpg` and those of `__MACOSX`

  /// Also read the archives that follow the end of the first one in a shard, as `tar --ignore-zeros` does: those of
  /// `cat a.tar b.tar`. Without it they are left out, with a notice.
  bool concatenated = false;

  /// Decompresses shards while it reads them in order, each with the opener for its kind, which its first bytes show:
  /// `{gunzip_stream, unzstd_stream}` of the components gzip and zstd. See tar_samples.
  std::vector<text_opener> decompress{};

  /// Called by a thread of the run with a sentence, once for each of these:
  /// - the members of a sample aren't neighbours in their shard: it is read as several samples. Looking for this takes up to
  ///   16 MiB;
  /// - another archive follows the end of the first one in a shard, see `concatenated`. By default this goes to stderr. An index
  ///   that was kept says nothing of it.
  callback<std::string> on_notice{};
};

/// Reads the samples of TAR shards, one shard after another. Each shuffled epoch has a new order of shards;
/// the samples of a shard keep their order.
///
/// Takes:   names of shards; each may be a pattern: `data/train-*.tar` (see glob(3); sorted),
///          `train-{0000..0146}.tar`, `{a,b}.tar`; a file of exactly that name takes precedence.
/// Gives:   tar_sample. index() is `shard << 40 | position in the shard`, shards counted in listed order.
/// Skips:   directories, devices, members of unknown types, and hidden ones: those with a part of the name that begins with a
///          dot or is `__MACOSX`. A hard link is the file of the same shard that it links to. A symbolic link isn't followed; the
///          error of a field that isn't there names it.
/// Throws:  the constructor std::invalid_argument for an empty list and a shard that is listed twice (two patterns may
///          match it; a link with another name is another shard), std::runtime_error for wildcards that
///          match nothing and std::length_error for more than 2^24 shards. When a run starts, std::system_error for a
///          shard that doesn't exist, and std::runtime_error for a directory. next() throws tar_error when it
///          reaches one of these, and then continues:
///         - a shard that can't be opened, isn't plain TAR or has only hidden members: with the next shard;
///         - a sample with a sparse member, with two members of the same name, or with a hard link to something else than a
///           file before it: with the next sample;
///         - damage, or an end that is cut off, after all samples that were complete before: with the next
///           shard.
///
///          A failed sample or shard has an index as well. A shard that ends after a member, but without the
///          zeros that close an archive, counts as complete; one that ends inside a block, even of padding,
///          is cut off.
/// Example: `tar_samples("photos-*.tar") | map([](const tar_sample& s) { return decode(s["jpg"]); })`
///
/// A shard is opened and mapped when it is reached: don't shorten it in place during a run (SIGBUS). Samples keep their
/// shard mapped; if there are more shards than a process can map, the others are read into memory as a whole.
///
///     tar_samples("https://host/train-{0000..0146}.tar", {.remote = remote()})
///
/// also reads shards from an object store, and the list may have files too. In the names of objects only braces
/// are expanded. Shards are read in large parts, several of which are requested ahead; after global_shuffle(),
/// each sample is read by itself. For objects these differ:
///         - samples are views of memory that they share with their copies, or of the mapped files of a cache;
///         - a sample with a hard link is an error;
///         - a part that can't be read is damage at that place, and the message has the store's reason; but an outage of
///           the store (outage_error) ends the run, whatever on_error is;
///         - a sample of more than `max_sample_bytes` bytes is an error, and the next sample follows;
///         - a shard has one version for the source and its copies: if another one is found later, reading it
///           fails with "has changed". Its size and version identify it in checkpoints, so a checkpoint may ask
///           the store for the versions of shards that weren't reached yet;
///         - without an object SHARD.index (see tar_options), global_shuffle() first reads the headers of each
///           shard, of many shards at once. A shard whose headers can't be read counts as one sample, which fails.
///
///     tar_samples("photos-*.tar.zst", {.decompress = {unzstd_stream}})
///
/// decompresses shards, files and objects, in the thread of the source. For these differ:
///         - samples are in memory that they share with their copies;
///         - a sample with a hard link is an error;
///         - there is no access to samples by position: global_shuffle() refuses them;
///         - a resumed run decompresses the current shard from its beginning;
///         - data that are cut off or damaged are an error after the last sample that was complete before, with the offset
///           in the compressed file. A wrong checksum is found after the samples before it. Other offsets in messages are
///           those in the decompressed archive;
///         - a sample of more than `max_sample_bytes` bytes is an error, and the next sample follows.
class tar_samples : public detail::tar_in_order {
 public:
  using feedline_part = void;
  static constexpr source_traits traits{.kind = "tar_samples", .splits_files_by_rank = true};

  /// Without this, one name in braces could also be a source that is copied.
  tar_samples(std::initializer_list<std::string> shards, tar_options options = {})
      : tar_samples(file_patterns(shards), std::move(options)) {}

  /// The samples of all shards whose names match. Throws std::invalid_argument for a URL that `options.remote`
  /// doesn't serve, and for a negative max_sample_bytes.
  explicit tar_samples(const file_patterns& shards, tar_options options = {});

  /// Access to the samples by position; reads the headers of all shards. Throws std::runtime_error after a stop,
  /// and std::invalid_argument if there are openers in `decompress`.
  detail::indexed_tar indexed(const std::stop_token& stop = {}) const;

  /// Whether next() would return a sample, or end the epoch, without waiting for an object.
  bool ready() const { return is_ready(); }

  /// Why the object store doesn't answer now; empty if it does.
  std::string outage() const;

  /// The numbers of the object store, and how long threads waited for parts of objects.
  void metrics(auto& out) const {
    if (!objects()) return;
    objects()->metrics([&](const char* name, double value) { out(name, value); },
                       [&](const char* name, double value) { out.total(name, value); });
  }

 private:
  tar_samples(detail::listed_shards all, const tar_options& options);

  static detail::tar_settings checked(const tar_options& options);

  bool keep_index_;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_samples::tar_samples(const file_patterns& shards, tar_options options)
    : tar_samples(detail::list_shards(shards, traits.kind, options.remote), options) {}

FEEDLINE_INLINE detail::indexed_tar tar_samples::indexed(const std::stop_token& stop) const {
  if (!settings().decompress.empty())
    throw std::invalid_argument(
        "feedline::tar_samples: compressed shards can only be read in order: for access by "
        "position, as by global_shuffle, use plain shards and no tar_options::decompress");
  files().expect_files();
  return {{files(), objects()}, keep_index_, settings(), stop};
}

FEEDLINE_INLINE std::string tar_samples::outage() const {
  return objects() ? objects()->outage() : std::string();
}

FEEDLINE_INLINE tar_samples::tar_samples(detail::listed_shards all, const tar_options& options)
    : tar_in_order(std::move(all.files), detail::tar_shards(std::move(all.objects), checked(options))),
      keep_index_(options.keep_index) {}

FEEDLINE_INLINE detail::tar_settings tar_samples::checked(const tar_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_samples: max_sample_bytes");
  return {options.max_sample_bytes, options.hidden, options.concatenated,
          std::make_shared<detail::tar_notice>(options.on_notice), options.decompress};
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
