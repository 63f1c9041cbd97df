// SPDX-License-Identifier: MIT
#pragma once
// Stages whose results are stored, as one stage.
#include <typeinfo>

#include <sys/stat.h>

#include <feedline/cache/detail/cache_store.hpp>
#include <feedline/cache/detail/cache_table.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/plan/facts.hpp>
#include <feedline/core/plan/segments.hpp>
#include <feedline/core/run/sample_worker.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/type_name.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct no_key {};

/// An item with an identity of its content, as tar_sample has.
template <class T>
concept has_identity = requires(const T& item) {
  { item.identity() } -> std::same_as<std::uint64_t>;
};

template <class T>
consteval bool can_be_identified() {
  if constexpr (has_identity<T> || storable<T>) return true;
  else if constexpr (has_fields<T>)
    return all_fields<T>([]<class Field>(Field*) { return can_be_identified<Field>(); });
  else return false;
}

/// Items that can be identified by their content.
template <class T>
concept identified_by_content = can_be_identified<T>();

/// A hash of the size and the modification time of the file with that name.
inline std::uint64_t state_of_file(const std::string& path) noexcept {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) return 0;
  const auto modified = static_cast<std::uint64_t>(modified_ns_of(status));
  return key(static_cast<std::uint64_t>(status.st_size), modified / 1'000'000'000, modified % 1'000'000'000);
}

/// Adds everything about an item that a function can see.
template <bool NamesFiles, identified_by_content T>
void add_identity(byte_hash& hash, const T& item) {
  if constexpr (has_identity<T>) {
    store(hash, item.identity());
  } else if constexpr (NamesFiles && std::is_same_v<T, std::string>) {
    store(hash, item);
    store(hash, state_of_file(item));
  } else if constexpr (has_fields<T> && !has_fixed_size<T>) {
    std::apply([&](const auto&... field) { (add_identity<NamesFiles>(hash, field), ...); }, fields_of(item));
  } else {
    store(hash, item);
  }
}

template <class Key, bool NamesFiles, class... Inner>
class cached_stage {
  using inner_types = types<Inner...>;

 public:
  using feedline_part = void;
  static constexpr stage_traits traits{
      .kind = "cache",
      .stateless = true,
      .one_to_one = (traits_of<Inner>().one_to_one && ...),
      .data_independent_count = (traits_of<Inner>().data_independent_count && ...),
      .position_from_last_sample = (traits_of<Inner>().position_from_last_sample && ...),
      .checkpoints_mid_call = true};

  cached_stage(composed_stages stages, Key key_of_item, std::uint64_t pipeline,
               std::shared_ptr<cache_store> store)
      : composed_(std::move(stages)),
        key_(std::move(key_of_item)),
        pipeline_(pipeline),
        store_(std::move(store)) {}

  /// "map `decode` + filter | cache"
  std::string whole_name() const {
    std::string text;
    inner_types::visit(composed_,
                       [&](const auto& s) { text += (text.empty() ? "" : " + ") + stage_name(s); });
    return text + " | cache";
  }

  std::uint64_t fingerprint() const {
    std::uint64_t hash = 0;
    inner_types::visit(composed_, [&](const auto& s) { hash = key_with_stage(hash, s); });
    return hash;
  }

  template <class In>
  class running {
   public:
    using feedline_runs_stages = void;
    using output = typename inner_types::template output<In>;

    running(const cached_stage& stage, const stage_info& info)
        : stage_(stage),
          parts_(info.parts),
          table_(stage.store_->open(stage.template table_fingerprint<In, output>())),
          inner_(std::make_unique<worker>(stage.names(), stage.composed_.stages.data(), 0, on_error::skip,
                                          info.stop,
                                          outcome_limits{.max_values = stage.store_->items_per_sample()})) {}

    void operator()(sample<In>&& s, auto& emit) {
      const struct leave {
        bool& is_whole;

        ~leave() { is_whole = true; }
      } leave{is_whole_};

      const sample_id in_hand = s.id;
      outcomes<output>& out = outcome_of(std::move(s));
      const std::size_t count = out.values.size() + out.failures.size();
      auto failure = out.failures.begin();
      for (std::size_t k = 0, value = 0; k < count; ++k) {
        is_whole_ = k + 1 == count;
        if (failure != out.failures.end() && failure->position == value) {
          failure->failure->index = in_hand.index;
          failure->failure->epoch = in_hand.epoch;
          if (!emit.failed(std::move((failure++)->failure))) return;
        } else {
          sample<output>& one = out.values[value++];
          sample_id id = in_hand;
          id.sub_index = one.id.sub_index;
          if (!emit(sample<output>{std::move(one.value), parts_.made_inside(in_hand, id)})) return;
        }
      }
    }

    /// Whether it has emitted all results of the last sample.
    bool at_rest() const noexcept
      requires(!traits.position_from_last_sample)
    {
      return is_whole_;
    }

   private:
    // It sees each sample as that of a run with seed 0 in its epoch 0, so that the results depend on the sample alone.
    using worker = sample_worker<In, types<Inner...>>;

    outcomes<output>& outcome_of(sample<In>&& s) {
      sample_id id{s.id.index, s.id.sub_index, 0};
      const cache_key k = stage_.key_of(s.value, id);
      const bool hit = read(k, id.index);
      stage_.store_->count(hit);
      if (hit) return inner_->made();
      outcomes<output>& out = inner_->run({std::move(s.value), id});
      // A function that was asked to stop may have returned early.
      if (out.failures.empty() && !inner_->is_stopped()) write(k, out.values);
      return out;
    }

    bool read(const cache_key& k, std::uint64_t index) {
      stored_bytes from(table_.find(k, scratch_));
      std::vector<sample<output>>& values = inner_->made().values;
      inner_->made().clear();
      std::uint64_t count = 0;
      if (!from.take(&count, sizeof count)) return false;
      while (count > 0) {
        sample<output> one{output{}, {index, 0, 0}};
        if (!from.take(&one.id.sub_index, sizeof one.id.sub_index) || !take_stored(from, one.value)) break;
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
        store(to, one.id.sub_index);
        store(to, one.value);
      }
    }

    const cached_stage& stage_;
    part_names parts_;
    cache_table& table_;
    std::unique_ptr<worker> inner_;
    scratch_memory scratch_;
    bool is_whole_ = true; // all results of the sample in hand were emitted
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    return running<In>(*this, info);
  }

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return facts_of<In>(inner_types(), composed_, in).back().size.emitted;
  }

  std::size_t bytes_held() const {
    return sum_of(store_->memory(), bytes_held_by(inner_types(), composed_)).value_or(~std::size_t{0});
  }

  /// The bytes that a worker holds: those inside the cached stages, and all results of a sample, as values and, for
  /// a directory, as bytes.
  template <class In>
  known_bytes bytes_gathered(known_bytes in) const {
    using out = typename inner_types::template output<In>;
    const std::size_t items = traits.position_from_last_sample ? 1 : store_->items_per_sample();
    if (items == 0) return std::nullopt;
    const std::vector<stage_facts> facts = facts_of<In>(inner_types(), composed_, in);
    const known_bytes item = facts.back().size.emitted;
    return sum_of(
        bytes_inside(facts),
        product_of(items, sum_of(product_of(store_->memory() > 0 ? 1 : 2, item), 2 * sizeof(sample<out>))));
  }

  /// Explains why that isn't known although the size of an item is.
  std::string unknown() const {
    if (traits.position_from_last_sample || store_->items_per_sample() > 0) {
      std::string text; // of a stage that says it
      inner_types::visit(composed_, [&](const auto& stage) {
        if constexpr (requires { stage.unknown(); })
          if (text.empty()) text = stage.unknown();
      });
      return text;
    }
    return "how many items " + whole_name() +
           " gathers of one sample: set items_per_sample in the options of the cache, or put the cache "
           "before the stages that emit several";
  }

 private:
  std::vector<std::string> names() const { return names_of(std::string(), composed_, inner_types()); }

  // Depends on everything that decides the stored values, and not on workers.
  template <class In, class Out>
  std::uint64_t table_fingerprint() const {
    constexpr std::uint64_t format = 2;
    const auto hash_of = [](const std::type_info& type) { return stable_hash(mangled_name(type)); };
    std::uint64_t hash = detail::key(format, pipeline_, stable_hash(store_->version()), fingerprint(),
                                     hash_of(typeid(In)), hash_of(typeid(Out)), hash_of(typeid(Key)));
    inner_types::visit(composed_, [&]<class S>(const S&) {
      if constexpr (requires { typename S::on_one_thread; })
        hash = detail::key(hash, hash_of(typeid(typename S::on_one_thread)));
      else hash = detail::key(hash, hash_of(typeid(S)));
    });
    return hash;
  }

  /// The user's key, if there is one, replaces the index, for the cached functions too.
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
    store(rest, id.sub_index);
    return {id.index, rest.value()};
  }

  composed_stages composed_;
  [[no_unique_address]] Key key_;
  std::uint64_t pipeline_;
  std::shared_ptr<cache_store> store_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
