// SPDX-License-Identifier: MIT
#pragma once
// cache: what the stages in front of it make of each sample is kept, in memory or in a directory.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <feedline/core/detail/cut.hpp>
#include <feedline/core/detail/fields.hpp>
#include <feedline/core/detail/measure.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/stage/detail/cache_directory.hpp>
#include <feedline/stage/detail/cache_table.hpp>
#include <feedline/stage/detail/cached_stages.hpp>
#include <feedline/stage/detail/stored_value.hpp>

namespace feedline {

/// What hears of a cache's trouble: any function of a sentence.
class trouble_listener {
 public:
  trouble_listener() = default;

  template <class F>
    requires(std::is_invocable_v<F&, const std::string&> && !std::is_same_v<F, trouble_listener>)
  trouble_listener(F f)
      : f_(std::make_shared<F>(std::move(f))),
        call_([](void* called, const std::string& sentence) { (*static_cast<F*>(called))(sentence); }) {}

  void operator()(const std::string& sentence) const {
    if (call_) call_(f_.get(), sentence);
    else std::fprintf(stderr, "%s\n", sentence.c_str());
  }

 private:
  std::shared_ptr<void> f_;
  void (*call_)(void*, const std::string&) = nullptr;
};

/// Where a cache keeps what it keeps: in memory, or in a directory.
struct cache_options {
  std::uint64_t memory = 0; ///< so many bytes of memory at most, or
  std::string directory{};  ///< in this directory, which is made if it isn't there,
  std::uint64_t bytes = 0;  ///< so many bytes of files at most, whosever
  /// Say something else when the functions in front of the cache change: their names and types are all that is
  /// known of them.
  std::string version{};
  /// Called once, from a worker, when nothing more can be written (a full disk, say). By default a line on stderr.
  trouble_listener on_trouble{};
};

/// What a cache has done so far, in all runs of this process.
struct cache_stats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t bytes = 0; ///< that it holds, what it needs to find them included
  bool full = false;       ///< something wasn't kept because there was no room
};

namespace detail {

/// The tables of one cache, one for each pipeline that it is put into.
class cache_store {
 public:
  explicit cache_store(cache_options options) : options_(std::move(options)) {
    if ((options_.memory > 0) == !options_.directory.empty())
      throw std::invalid_argument(
          "feedline::cache: it keeps things in memory or in a directory: give it one of both");
    if (options_.directory.empty() != (options_.bytes == 0))
      throw std::invalid_argument(
          "feedline::cache: a directory and the bytes that it may take at most go together");
  }

  cache_store(cache_store&&) = delete;

  const std::string& version() const noexcept { return options_.version; }

  /// At most so much of it is kept.
  std::size_t memory() const noexcept { return static_cast<std::size_t>(options_.memory); }

  /// The table of a pipeline; it lives as long as the store. Throws std::system_error for a directory that can't be
  /// used.
  cache_table& open(std::uint64_t fingerprint) {
    const std::lock_guard lock(mutex_);
    for (const place& p : tables_)
      if (p.fingerprint == fingerprint && p.table->is_usable()) return *p.table;
    tables_.push_back({fingerprint, make(fingerprint)});
    return *tables_.back().table;
  }

  cache_stats stats() const noexcept {
    return {counters_.hits.load(std::memory_order_relaxed), counters_.misses.load(std::memory_order_relaxed),
            counters_.bytes.load(std::memory_order_relaxed), counters_.full.load(std::memory_order_relaxed)};
  }

  void count(bool hit) noexcept {
    (hit ? counters_.hits : counters_.misses).fetch_add(1, std::memory_order_relaxed);
  }

 private:
  struct place {
    std::uint64_t fingerprint;
    std::unique_ptr<cache_table> table;
  };

  std::unique_ptr<cache_table> make(std::uint64_t fingerprint) {
    if (options_.memory > 0) return std::make_unique<memory_table>(options_.memory, counters_);
    const auto tell = [](void* listener, const std::string& sentence) {
      try {
        (*static_cast<const trouble_listener*>(listener))(sentence);
      } catch (...) { // no fault of the sample in hand
      }
    };
    return std::make_unique<directory_table>(options_.directory, options_.bytes, fingerprint, counters_, tell,
                                             &options_.on_trouble);
  }

  cache_options options_;
  cache_counters counters_;
  std::mutex mutex_;
  std::vector<place> tables_; // gone before the counters
};

struct no_key {};

/// An item that can say what it is, as tar_sample does.
template <class T>
concept has_identity = requires(const T& item) {
  { item.identity() } -> std::same_as<std::uint64_t>;
};

template <class T>
consteval bool can_be_told() {
  if constexpr (has_identity<T> || storable<T>) return true;
  else if constexpr (has_fields<T>)
    return all_fields<T>([]<class Field>(Field*) { return can_be_told<Field>(); });
  else return false;
}

/// Items that tell what they are by what they consist of.
template <class T>
concept told_by_content = can_be_told<T>();

/// When the file of that name was written last, and its size.
inline std::uint64_t state_of_file(const std::string& path) noexcept {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) return 0;
  return key(static_cast<std::uint64_t>(status.st_size), static_cast<std::uint64_t>(status.st_mtim.tv_sec),
             static_cast<std::uint64_t>(status.st_mtim.tv_nsec));
}

/// Adds everything that a function may see of an item.
template <bool NamesFiles, told_by_content T>
void add_identity(byte_hash& hash, const T& item) {
  if constexpr (has_identity<T>) {
    store(hash, item.identity());
  } else if constexpr (NamesFiles && std::is_same_v<T, std::string>) {
    store(hash, item);
    store(hash, state_of_file(item));
  } else if constexpr (has_fields<T> && !is_std_array<T>) {
    std::apply([&](const auto&... field) { (add_identity<NamesFiles>(hash, field), ...); }, fields_of(item));
  } else {
    store(hash, item);
  }
}

template <class Key, bool NamesFiles, class... Inner>
class cached_stage {
 public:
  using feedline_part = void;
  static constexpr const char* kind = "cache";
  static constexpr bool is_stateless = true;
  static constexpr bool keeps_one_to_one = (one_to_one<Inner> && ...);
  static constexpr bool leaves_out = !(keeps_ranks_equal<Inner> && ...);

  cached_stage(stage_list<Inner...> stages, Key key_of_item, std::shared_ptr<cache_store> store)
      : stages_(std::move(stages)), key_(std::move(key_of_item)), store_(std::move(store)) {}

  /// "map `decode` + filter | cache"
  std::string whole_name() const {
    std::string text;
    const auto add = [&](const auto& s) { text += (text.empty() ? "" : " + ") + stage_name(s); };
    for_each_inner(stages_, add);
    return text + " | cache";
  }

  std::uint64_t fingerprint() const {
    std::uint64_t hash = 0;
    const auto add = [&]<class S>(const S& s) {
      hash = detail::key(hash, stable_hash(stage_name(s)));
      if constexpr (requires { s.fingerprint(); }) hash = detail::key(hash, s.fingerprint());
    };
    for_each_inner(stages_, add);
    return hash;
  }

  template <class In>
  static consteval fit fits() {
    return fit::yes; // it stands behind what it was made for
  }

  template <class In>
  class running {
   public:
    using feedline_runs_stages = void;
    using output = typename output_after<In, Inner...>::type;

    running(const cached_stage& stage, const std::stop_token& stop)
        : stage_(stage),
          table_(stage.store_->open(stage.template table_fingerprint<In, output>())),
          inner_(std::make_unique<inner_run<In, output, Inner...>>(stage.stages_, stop)) {}

    void operator()(sample<In>&& s, auto& emit) { give(std::move(s), emit, 0); }

    /// In the middle of what came of a sample: that sample, and how much of it was given.
    held held_now() const
      requires(!keeps_one_to_one)
    {
      if (given_ == 0) return {};
      return {.log = std::make_shared<held_once>(held_list{{given_}, {in_hand_}})};
    }

    void expect(const held_list& list)
      requires(!keeps_one_to_one)
    {
      if (list.words.size() != 1 || list.ids.size() != 1)
        throw std::invalid_argument("feedline: the checkpoint is not whole");
      missing_ = list.ids[0];
      given_of_missing_ = list.words[0];
    }

    void hold(sample<In>&& s, auto& emit, context&)
      requires(!keeps_one_to_one)
    {
      if (given_of_missing_ != 0 && s.id == missing_)
        give(std::move(s), emit, std::exchange(given_of_missing_, 0));
    }

    void has_all() const
      requires(!keeps_one_to_one)
    {
      if (given_of_missing_ != 0) throw lost_sample(missing_);
    }

   private:
    // Values and failures count alike: what is given again, on resuming, begins behind the first so many.
    void give(sample<In>&& s, auto& emit, std::uint64_t first) {
      const struct leave {
        std::uint64_t& given;

        ~leave() { given = 0; }
      } leave{given_};

      in_hand_ = s.id;
      outcomes<output>& out = outcome_of(std::move(s));
      const std::size_t count = out.values.size() + out.failures.size();
      auto failure = out.failures.begin();
      for (std::size_t k = 0, value = 0; k < count; ++k) {
        const bool is_failure = failure != out.failures.end() && failure->position == value;
        auto* const failed = is_failure ? &*failure++ : nullptr;
        if (!is_failure) ++value;
        if (k < first) continue;
        given_ = k + 1 < count ? k + 1 : 0;
        if (is_failure) {
          failed->failure->index = in_hand_.index;
          failed->failure->epoch = in_hand_.epoch;
          if (!emit.failed(std::move(failed->failure))) return;
        } else {
          sample<output>& one = out.values[value - 1];
          if (!emit(sample<output>{std::move(one.value), {in_hand_.index, one.id.part, in_hand_.epoch}}))
            return;
        }
      }
    }

    outcomes<output>& outcome_of(sample<In>&& s) {
      sample_id id{s.id.index, s.id.part, 0};
      const cache_key k = stage_.key_of(s.value, id);
      const bool hit = read(k, id.index);
      stage_.store_->count(hit);
      if (hit) return inner_->outcome();
      outcomes<output>& out = inner_->run(std::move(s.value), id);
      // A function that was asked to give up may have.
      if (out.failures.empty() && !inner_->is_stopped()) write(k, out.values);
      return out;
    }

    bool read(const cache_key& k, std::uint64_t index) {
      stored_bytes from(table_.find(k, scratch_));
      std::vector<sample<output>>& values = inner_->outcome().values;
      inner_->outcome().clear();
      std::uint64_t count = 0;
      if (!from.take(&count, sizeof count)) return false;
      while (count > 0) {
        sample<output> one{output{}, {index, 0, 0}};
        if (!from.take(&one.id.part, sizeof one.id.part) || !take_stored(from, one.value)) break;
        values.push_back(std::move(one));
        --count;
      }
      if (count == 0 && from.left() == 0) return true;
      table_.forget(k);
      return false;
    }

    void write(const cache_key& k, const std::vector<sample<output>>& values) {
      byte_count size;
      put(size, values);
      std::byte* const room = table_.room(k, size.size(), scratch_);
      if (!room) return;
      byte_copy to(room);
      put(to, values);
      table_.keep(k, room, size.size());
    }

    static void put(auto& to, const std::vector<sample<output>>& values) {
      store(to, static_cast<std::uint64_t>(values.size()));
      for (const sample<output>& one : values) {
        store(to, one.id.part);
        store(to, one.value);
      }
    }

    const cached_stage& stage_;
    cache_table& table_;
    std::unique_ptr<inner_run<In, output, Inner...>> inner_;
    scratch_memory scratch_;
    sample_id in_hand_;
    std::uint64_t given_ = 0; // of what came of it, while it is given and more is to come
    sample_id missing_; // which a resumed run waits for, as long as some of what came of it was given before:
    std::uint64_t given_of_missing_ = 0;
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    return running<In>(*this, info.stop);
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return bytes_behind<In, 0>(stages_, in);
  }

  std::size_t bytes_kept() const noexcept { return store_->memory(); }

 private:
  // What is kept under one key is a matter of these alone, and not of workers.
  template <class In, class Out>
  std::uint64_t table_fingerprint() const {
    constexpr std::uint64_t format = 1;
    std::uint64_t hash =
        detail::key(format, stable_hash(store_->version()), fingerprint(), stable_hash(typeid(In).name()),
                    stable_hash(typeid(Out).name()), stable_hash(typeid(Key).name()));
    const auto add = [&]<class S>(const S&) {
      if constexpr (requires { typename S::on_one_thread; })
        hash = detail::key(hash, stable_hash(typeid(typename S::on_one_thread).name()));
      else hash = detail::key(hash, stable_hash(typeid(S).name()));
    };
    for_each_inner(stages_, add);
    return hash;
  }

  /// With a key of the user's that takes the place of the index, for the cached functions too.
  template <class In>
  cache_key key_of(const In& item, sample_id& id) const {
    byte_hash rest;
    if constexpr (std::is_same_v<Key, no_key>) {
      add_identity<NamesFiles>(rest, item);
    } else {
      const auto& given = key_(item);
      if constexpr (std::integral<std::remove_cvref_t<decltype(given)>>) {
        id.index = stable_hash(given);
      } else {
        const std::string_view text(given);
        id.index = stable_hash(text);
        rest.put(text.data(), text.size());
      }
    }
    store(rest, id.part);
    return {id.index, rest.value()};
  }

  stage_list<Inner...> stages_;
  [[no_unique_address]] Key key_;
  std::shared_ptr<cache_store> store_;
};

// The role that a compiler's message names.
template <class T>
struct kept_item;
template <class T>
struct item_in_front;

/// Two lines of a compiler's message say it all, as with fit_check.
template <class In, class Out, class Key, std::size_t Stages>
struct cache_check;

template <class In, class Out, class Key, std::size_t Stages>
struct cache_check<item_in_front<In>, kept_item<Out>, Key, Stages> {
  static constexpr bool has_stages = Stages > 0;
  static constexpr bool can_keep = !has_stages || storable<Out>;
  static constexpr bool can_tell = !has_stages || !std::is_same_v<Key, no_key> || told_by_content<In>;
  static constexpr bool passed = has_stages && can_keep && can_tell;

  static_assert(has_stages,
                "feedline: there is nothing that cache() could keep: right in front of it it needs map, "
                "filter, flat_map or tap");
  static_assert(can_keep, "feedline: cache() can't keep `kept_item`: it keeps numbers, std::arrays, tensors, "
                          "strings, vectors, and pairs, tuples and plain structs of those");
  static_assert(can_tell,
                "feedline: cache() can't tell one `item_in_front` of the stages that it keeps from "
                "another: give it a key, cache(options, [](const auto& item) { return item.name; })");
};

/// Stages that may run in any order and on any thread.
template <class S>
inline constexpr bool runs_anywhere = stateless<S> || is_parallel<S>;

template <class... Stages>
consteval std::size_t stages_to_keep() {
  std::size_t count = 0;
  ((count = runs_anywhere<Stages> ? count + 1 : 0), ...);
  return count;
}

/// A stage as workers may run it.
template <class S>
auto for_workers(const S& stage) {
  if constexpr (is_parallel<S>) return stage;
  else return one_at_a_time<S>(stage);
}

template <class S>
worker_range workers_of(const S& stage) {
  if constexpr (is_parallel<S>) return stage.workers;
  else return {1, 1, false};
}

template <class S>
inline constexpr bool keeps_order = true;
template <class... Inner>
inline constexpr bool keeps_order<parallel_stages<false, Inner...>> = false;

template <class List>
List listed(List list) {
  return list;
}

template <class List, class S, class... Rest>
auto listed(List list, S stage, Rest... rest) {
  return listed(longer_list<List, S>{std::move(list), std::move(stage)}, std::move(rest)...);
}

/// What stands behind a pipeline and has its last stages kept. Copies share what they keep.
template <class Key>
class cache_part {
 public:
  using feedline_part = void;
  using feedline_changes_source = void;

  cache_part(cache_options options, Key key)
      : key_(std::move(key)), store_(std::make_shared<cache_store>(std::move(options))) {}

  cache_stats stats() const noexcept { return store_->stats(); }

  template <class Source, class... Stages>
  auto changed(pipeline<Source, Stages...> p) const {
    constexpr std::size_t count = stages_to_keep<Stages...>();
    constexpr std::size_t first = sizeof...(Stages) - count;
    using in = typename output_after_first<first, source_item_t<Source>, Stages...>::type;
    using out = typename pipeline<Source, Stages...>::item;
    if constexpr (cache_check<item_in_front<in>, kept_item<out>, Key, count>::passed)
      return changed(p, std::make_index_sequence<first>(), std::make_index_sequence<count>());
    else return refused_pipeline();
  }

 private:
  template <class Source, class... Stages, std::size_t... Front, std::size_t... Kept>
  auto changed(const pipeline<Source, Stages...>& p, std::index_sequence<Front...>,
               std::index_sequence<Kept...>) const {
    const auto& stages = p.stages();
    auto kept = keep<names_files<Source>>(stages.template get<sizeof...(Front) + Kept>()...);
    using result =
        pipeline<Source, std::remove_cvref_t<decltype(stages.template get<Front>())>..., decltype(kept)>;
    return result(p.source(), listed(no_stages(), stages.template get<Front>()..., std::move(kept)));
  }

  template <bool NamesFiles, class... Stages>
  auto keep(const Stages&... stages) const {
    const auto one = [&](auto... inner) {
      return cached_stage<Key, NamesFiles, decltype(inner)...>(listed(no_stages(), std::move(inner)...), key_,
                                                               store_);
    };
    if constexpr ((is_parallel<Stages> || ...)) {
      auto stage = one(for_workers(stages)...);
      return parallel_stages<(keeps_order<Stages> && ...), decltype(stage)>{
          listed(no_stages(), std::move(stage)),
          std::max({workers_of(stages)...}, [](const auto& a, const auto& b) { return a.most < b.most; })};
    } else {
      return one(stages...);
    }
  }

  Key key_;
  std::shared_ptr<cache_store> store_;
};

} // namespace detail

/// Keeps what the stages in front of it make of each sample: from the second epoch on nothing of it is computed
/// again. Those are all map, filter, flat_map and tap that stand there in a row; they run together, with the
/// workers that the busiest of them was given, and one that was given none is called by one worker at a time.
///
/// What they make must be a matter of the sample alone: whatever the run's seed and the epoch, they see those of
/// epoch 0, and random numbers keyed by the sample. Put what is to differ from epoch to epoch, augmentation, behind
/// the cache. A function that looks at anything else, such as files whose names come from elsewhere than files(),
/// needs a key that tells of it.
///
///     const auto kept = cache({.directory = "/scratch/photos", .bytes = 200'000'000'000});
///     const auto train = tar_samples("train-*.tar") | shuffled() | map(decode, workers{8}) | kept
///                        | map(augment, workers{8}) | batch(64);
///     … kept.stats().hits …
///
/// A sample is told by its index and by the item in front of those stages: its content where that is a number, a
/// text, a vector or a plain struct of those; a tar_sample's shard (name, size, time) and place in it; for files()
/// their size and time as well. So changed data isn't mixed up with what it was. Any other item needs a key.
///
/// Takes:   the options, and perhaps a function of an item that gives its key: a text or a whole number, which
///          alone then tells the sample, and stands for its index in the cached functions' context. What they make
///          must be numbers, std::arrays, tensors, texts, vectors, or pairs, tuples and plain structs of those
/// Gives:   what those stages would. When it is full it keeps nothing more, and what it has stays
/// Order:   kept, unless one of those stages is unordered
/// Throws:  std::invalid_argument unless there is either memory or a directory with bytes. Failures of the stages,
///          under their names; they aren't kept. A directory that can't be used is a failure when a run begins; a
///          disk that is full later is told to on_trouble, and nothing more is kept
/// Stops:   as those stages do
/// Example: `files("train", "*.jpg") | map(read_file, workers{8}) | map(decode, workers{8})
///          | cache({.memory = 8'000'000'000}) | map(augment, workers{8}) | batch(64)`
///
/// A directory serves later runs and other processes, also at once, as long as stages, types and `version` stay the
/// same. Files of other pipelines in it are removed when room is needed, unless they are in use.
inline auto cache(cache_options options) {
  return detail::cache_part<detail::no_key>(std::move(options), {});
}

template <class Key>
auto cache(cache_options options, Key key) {
  return detail::cache_part<Key>(std::move(options), std::move(key));
}

} // namespace feedline
