// SPDX-License-Identifier: MIT
#pragma once
// batch: so many samples in one object, a contiguous tensor for each of their fields.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <memory_resource>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/item_bytes.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/detail/columns.hpp>

namespace feedline::inline v0 {

struct batch_options {
  bool drop_last = false; ///< leave out a last batch that isn't full
  /// Where the tensors of batches lie (memory that is pinned for a GPU, say), which are written by the
  /// processor; null: ordinary memory. What a batch gives back serves the next one, a run holds on to it
  /// until it and its batches are gone, and the resource must outlive those. Several threads may ask it at
  /// once.
  std::pmr::memory_resource* memory = nullptr;
};

/// Batches whole items as they are: a std::vector of them.
struct as_list_t {};

inline constexpr as_list_t as_list{};

/// Fills up strings, vectors of numbers and tensors to the longest of their batch, and gives the lengths
/// beside them.
struct padded {
  double value = 0; ///< what they are filled up with
};

struct stacked_t {};

namespace detail {

template <class Mode, class Field>
struct column {
  static constexpr bool exists = number<Field> || is_array<Field> || is_tensor<Field> || ragged<Field>;
  using type = std::conditional_t<ragged<Field>, list_column<Field>, stacked_column<Field>>;

  static type make(Mode, block_cache& memory) {
    if constexpr (ragged<Field>) return {};
    else return type(memory);
  }
};

template <class Mode, class Field>
  requires(!std::is_same_v<Mode, as_list_t> && is_optional_number<Field>)
struct column<Mode, Field> {
  static constexpr bool exists = true;
  using type = masked_column<Field>;

  static type make(Mode, block_cache& memory) { return type(memory); }
};

template <class Field>
struct column<as_list_t, Field> {
  static constexpr bool exists = true;
  using type = list_column<Field>;

  static type make(as_list_t, block_cache&) { return {}; }
};

template <class Field>
  requires(ragged<Field> || is_tensor<Field>)
struct column<padded, Field> {
  static constexpr bool exists = true;
  using type = padded_column<Field>;

  static type make(padded mode, block_cache& memory) { return {mode.value, memory}; }
};

/// A sample that is one column: a number, a tensor, a string; with as_list, whatever it is.
template <class Mode, class T>
inline constexpr bool is_one_column = std::is_same_v<Mode, as_list_t> || column<Mode, T>::exists;

template <class Mode, class T>
struct columns_of;

template <class Mode, class T>
class struct_column;

/// The column of a struct's field: one of the above, or a struct again.
template <class Mode, class Field>
struct field_column : column<Mode, Field> {
  static constexpr std::size_t count = 1; // of tensors
};

template <class Mode, class Field>
  requires(!std::is_same_v<Mode, as_list_t> && is_optional_number<Field>)
struct field_column<Mode, Field> : column<Mode, Field> {
  static constexpr std::size_t count = 2;
};

template <class Mode, class Field>
  requires(!column<Mode, Field>::exists && columns_of<Mode, Field>::exist)
struct field_column<Mode, Field> {
  static constexpr bool exists = true;
  static constexpr std::size_t count = columns_of<Mode, Field>::count;
  using type = struct_column<Mode, Field>;

  static type make(Mode mode, block_cache& memory) { return type(mode, memory); }
};

template <class Mode, class Fields>
struct columns_of_fields;

template <class Mode, class... Field>
struct columns_of_fields<Mode, std::tuple<Field&...>> {
  static constexpr bool exist = sizeof...(Field) > 0 && (field_column<Mode, Field>::exists && ...);
  static constexpr std::size_t count = (std::size_t{0} + ... + field_column<Mode, Field>::count);
  using types = std::tuple<field_column<Mode, Field>...>;
};

template <class Mode, class T>
struct columns_of {
  static constexpr bool exist = false;
};

template <class Mode, class T>
  requires is_one_column<Mode, T>
struct columns_of<Mode, T> : columns_of_fields<Mode, std::tuple<T&>> {};

template <class Mode, class T>
  requires(!is_one_column<Mode, T> && (has_fields<T>))
struct columns_of<Mode, T> : columns_of_fields<Mode, decltype(fields_of(std::declval<T&>()))> {};

template <class Mode, class Fields>
inline constexpr std::size_t first_unfit = 0;
template <class Mode, class... Field>
inline constexpr std::size_t first_unfit<Mode, std::tuple<Field&...>> = [] {
  std::size_t number = 0;
  static_cast<void>((... && (field_column<Mode, Field>::exists && ++number > 0)));
  return number;
}();

/// Of a struct that can't be batched, the field that is to blame, for the compiler's message.
template <class Mode, class T>
  requires(has_fields<T> && !columns_of<Mode, T>::exist &&
           std::tuple_size_v<decltype(fields_of(std::declval<T&>()))> > 0)
consteval auto unfit_field_of() {
  using fields = decltype(fields_of(std::declval<T&>()));
  constexpr std::size_t number = first_unfit<Mode, fields>;
  using type = std::remove_reference_t<std::tuple_element_t<number, fields>>;
  if constexpr (requires { unfit_field_of<Mode, type>(); }) return unfit_field_of<Mode, type>();
  else return std::type_identity<field<type, name_of_field<T, number>()>>();
}

template <class Columns>
struct batch_parts;

template <class... Column>
struct batch_parts<std::tuple<Column...>> {
  using builders = std::tuple<typename Column::type...>;
  using results = std::tuple<typename Column::type::result...>;
  using all_numbers = std::make_index_sequence<sizeof...(Column)>;

  template <class Mode>
  static builders make(Mode mode, block_cache& memory) {
    return {Column::make(mode, memory)...};
  }
};

/// Adds each field of a value to its column.
template <class Columns, class T, std::size_t... I>
void add_fields(Columns& columns, T& value, std::size_t row, std::size_t rows, std::index_sequence<I...>) {
  auto fields = fields_of(value);
  (std::get<I>(columns).add(std::move(std::get<I>(fields)), row, rows), ...);
}

template <class Columns, class Results, std::size_t... I>
void take_columns(Columns& columns, Results& results, std::size_t rows, std::index_sequence<I...>) {
  ((std::get<I>(results) = std::get<I>(columns).take(rows)), ...);
}

template <class T, class Mode>
struct columns_maker;

template <class T, class Mode>
class batch_builder;

template <class T>
struct batch_maker;

} // namespace detail

/// The columns of a batch, one for each field of T.
template <class T, class Mode = stacked_t>
class struct_columns {
  using parts = detail::batch_parts<typename detail::columns_of<Mode, T>::types>;
  static constexpr std::size_t count = std::tuple_size_v<typename parts::results>;

 public:
  /// The field that a member pointer names: `batch.get<&example::label>()`.
  template <auto Member>
    requires std::is_member_pointer_v<decltype(Member)>
  const auto& get() const noexcept {
    return field<Member>(*this);
  }

  template <auto Member>
    requires std::is_member_pointer_v<decltype(Member)>
  auto& get() noexcept {
    return field<Member>(*this);
  }

  /// Field number I, of a pair or tuple, say.
  template <std::size_t I>
  const auto& get() const noexcept {
    return numbered<I>(*this);
  }

  template <std::size_t I>
  auto& get() noexcept {
    return numbered<I>(*this);
  }

 private:
  friend struct detail::columns_maker<T, Mode>;

  template <auto Member, class Self>
  static auto& field(Self& self) noexcept {
    constexpr bool is_field_of_the_samples = detail::names_field<T, Member>;
    static_assert(is_field_of_the_samples,
                  "feedline: `Member` is no field of `T`, which the samples of this batch are");
    if constexpr (is_field_of_the_samples) return std::get<detail::field_index<Member>()>(self.columns_);
    else return self;
  }

  template <std::size_t I, class Self>
  static auto& numbered(Self& self) noexcept {
    static_assert(I < count, "feedline: the samples `T` of this batch have no field number `I`: they count "
                             "from 0");
    if constexpr (I < count) return std::get<I>(self.columns_);
    else return self;
  }

  typename parts::results columns_;
};

/// Samples of type T, field by field. Move-only.
///
/// A field of numbers is a tensor<number> [batch]; of std::optional numbers, a masked_tensor: values [batch], 0
/// where there is none, and valid [batch]; of arrays or tensors, a tensor [batch, shape of one…]; of strings or
/// vectors, a std::vector of them or, with `padded`, a padded_tensor; of a struct, the struct_columns of its
/// fields: `batch.get<&example::box>().get<&box::width>()`. With `as_list` the samples themselves are a
/// std::vector<T>.
template <class T, class Mode = stacked_t>
class batch_of : public struct_columns<T, Mode> {
 public:
  using feedline_batch = void;
  using sample_type = T;

  /// How many samples.
  std::size_t size() const noexcept { return ids_.size(); }

  /// The identity of each sample: index, part, epoch.
  std::span<const sample_id> ids() const noexcept { return {ids_.begin(), ids_.end()}; }

  /// The index of each sample in its source.
  std::vector<std::uint64_t> indices() const {
    std::vector<std::uint64_t> all;
    for (const sample_id& id : ids_) all.push_back(id.index);
    return all;
  }

  /// The epoch of the last sample. (In infinite mode a batch may hold samples of two epochs: see ids().)
  std::uint32_t epoch() const noexcept { return ids()[size() - 1].epoch; }

  /// The only column, where a sample is one value.
  const auto& values() const noexcept
    requires detail::is_one_column<Mode, T>
  {
    return this->template get<0>();
  }

  auto& values() noexcept
    requires detail::is_one_column<Mode, T>
  {
    return this->template get<0>();
  }

 private:
  friend class detail::batch_builder<T, Mode>;
  friend struct detail::batch_maker<T>;

  tensor<sample_id> ids_;
};

namespace detail {

/// Fills struct_columns.
template <class T, class Mode>
struct columns_maker {
  static auto& of(struct_columns<T, Mode>& all) noexcept { return all.columns_; }
};

/// The columns of a struct that is a field.
template <class Mode, class T>
class struct_column {
  using parts = batch_parts<typename columns_of<Mode, T>::types>;

 public:
  using result = struct_columns<T, Mode>;

  struct_column(Mode mode, block_cache& memory) : columns_(parts::make(mode, memory)) {}

  void add(T&& value, std::size_t row, std::size_t rows) {
    add_fields(columns_, value, row, rows, typename parts::all_numbers());
  }

  result take(std::size_t rows) {
    result all;
    take_columns(columns_, columns_maker<T, Mode>::of(all), rows, typename parts::all_numbers());
    return all;
  }

 private:
  typename parts::builders columns_;
};

/// Makes a batch of columns that somebody else has filled.
template <class T>
struct batch_maker {
  template <class Columns>
  static batch_of<T> make(Columns columns, tensor<sample_id> ids, std::size_t rows) {
    batch_of<T> b;
    b.ids_ = std::move(ids);
    b.ids_.truncate(rows);
    std::apply([&](auto&... column) { (column.truncate(rows), ...); }, columns);
    columns_maker<T, stacked_t>::of(b) = std::move(columns);
    return b;
  }
};

inline std::runtime_error lost_batch(std::size_t rows, const std::exception& error) {
  return std::runtime_error("all " + std::to_string(rows) +
                            " samples of its batch are lost: " + error.what());
}

/// Hands a batch on. False: nobody wants more.
template <class Batch>
bool emit_batch(Batch&& b, auto& emit) {
  const std::size_t rows = b.size();
  const sample_id last = b.ids()[rows - 1];
  try {
    return emit(sample<Batch>{std::move(b), last});
  } catch (const std::exception& error) { // those downstream catch their own: there was no place for it
    throw lost_batch(rows, error);
  }
}

inline tensor<sample_id> make_ids(std::size_t rows) {
  return tensor<sample_id>(shape{rows}, block_cache::of_process());
}

template <class T, class Mode>
class batch_builder {
  using parts = batch_parts<typename columns_of<Mode, T>::types>;
  static constexpr bool fills_rows = is_one_column<Mode, T> && number<T> && !std::is_same_v<Mode, as_list_t>;

 public:
  using feedline_rows = void;
  using output = batch_of<T, Mode>;

  batch_builder(std::size_t size, batch_options options, Mode mode)
      : batch_builder(size, options, mode, block_cache::over(options.memory)) {}

  batch_builder(std::size_t size, batch_options options, Mode mode, std::shared_ptr<block_cache> memory)
      : size_(size), options_(options), memory_(std::move(memory)), columns_(parts::make(mode, *memory_)) {}

  void operator()(sample<T>&& s, auto& emit) {
    keep(std::move(s));
    if (is_full()) give(emit);
  }

  /// Takes a sample in without giving a batch: there must be room.
  void keep(sample<T>&& s) {
    begin();
    add(s.value);
    ids_[rows_++] = s.id;
  }

  bool is_full() const noexcept { return rows_ == size_; }

  /// Those of the samples that it holds.
  std::span<const sample_id> ids() const noexcept { return {ids_.begin(), rows_}; }

  /// Gives what it holds, at least one sample, as a batch. False: nobody wants more.
  bool give(auto& emit) {
    const std::size_t rows = std::exchange(rows_, 0); // whatever happens: none of them comes a second time
    output b;
    b.ids_ = std::exchange(ids_, {});
    b.ids_.truncate(rows);
    try {
      take_columns(columns_, columns_maker<T, Mode>::of(b), rows, typename parts::all_numbers());
    } catch (const std::exception& error) {
      throw lost_batch(rows, error);
    }
    return emit_batch(std::move(b), emit);
  }

  /// The rows that are still free, where a sample is one number.
  std::span<T> room()
    requires fills_rows
  {
    begin();
    return std::get<0>(columns_).rows_from(rows_, size_);
  }

  /// Takes the next rows as filled.
  void commit(std::size_t count, const id_row& ids, auto& emit)
    requires fills_rows
  {
    ids.copy_to(&ids_[rows_], count);
    rows_ += count;
    if (is_full()) give(emit);
  }

  /// Whether it holds no samples, and has dropped none that would come again if the epoch went on.
  bool at_rest() const noexcept { return rows_ == 0 && !dropped_; }

  void finish(auto& emit) {
    if (rows_ == 0) return;
    if (!options_.drop_last) {
      give(emit);
    } else {
      rows_ = 0;
      dropped_ = true;
    }
  }

  void end_epoch() noexcept { dropped_ = false; }

 private:
  void begin() {
    if (rows_ == 0 && ids_.size() == 0) ids_ = make_ids(size_);
  }

  // If a later column refuses the sample, the earlier ones overwrite what they took of it with the next one.
  void add(T& value) {
    if constexpr (is_one_column<Mode, T>) {
      std::get<0>(columns_).add(std::move(value), rows_, size_);
    } else {
      add_fields(columns_, value, rows_, size_, typename parts::all_numbers());
    }
  }

  std::size_t size_;
  batch_options options_;
  std::shared_ptr<block_cache> memory_;
  typename parts::builders columns_;
  tensor<sample_id> ids_;
  std::size_t rows_ = 0; // so far
  bool dropped_ = false; // samples of this epoch
};

/// At most, of so many samples that take `row` bytes each: block_cache rounds up by an eighth, or to the
/// smallest.
template <class T, class Mode>
known_bytes bytes_of_batch(std::size_t size, known_bytes row) {
  const known_bytes rows = product_of(size, sum_of(row, sizeof(sample_id)));
  return sum_of(sizeof(batch_of<T, Mode>) + (columns_of<Mode, T>::count + 1) * block_cache::smallest,
                rows ? sum_of(rows, *rows / 8) : rows);
}

/// How many batches so many items make. `with_rest`: also of what doesn't fill one.
constexpr std::uint64_t batches_of(std::uint64_t items, std::size_t size, bool with_rest) noexcept {
  return items / size + (with_rest && items % size != 0);
}

template <class Mode>
struct batch_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{
      .kind = "batch", .gives_by_count = true, .keeps_place = true, .saves_in_calls = true};

  template <class In>
  static consteval fit fits() {
    return columns_of<Mode, In>::exist ? fit::yes : fit::no_shape;
  }

  template <class In>
  static consteval auto unfit_field()
    requires requires { unfit_field_of<Mode, In>(); }
  {
    return unfit_field_of<Mode, In>();
  }

  template <class In>
    requires(columns_of<Mode, In>::exist)
  batch_builder<In, Mode> bind(const stage_info&) const {
    return {size, options, mode};
  }

  /// What a batch has beside itself is that of its samples; padding only makes each as long as the longest.
  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return bytes_of_batch<In, Mode>(size, in);
  }

  /// Padding needs the samples and room for all of them.
  std::size_t items_begun() const noexcept { return std::is_same_v<Mode, padded>; }

  std::size_t samples_in_one() const noexcept { return size; }

  std::uint64_t items_given(std::uint64_t items, bool drains) const noexcept {
    return batches_of(items, size, drains && !options.drop_last);
  }

  std::uint64_t fingerprint_of_ranks(std::uint64_t ranks) const noexcept {
    return key(size * ranks, options.drop_last);
  }

  std::size_t size;
  batch_options options;
  Mode mode;
};

template <class Mode>
auto make_batch_stage(std::size_t size, batch_options options, Mode mode) {
  if (size == 0) throw std::invalid_argument("feedline::batch: a batch needs at least one sample");
  refuse_negative(size, "feedline::batch: the size");
  return batch_stage<Mode>{size, options, mode};
}

} // namespace detail

/// Gathers samples into batches.
///
/// Takes:   numbers, std::optional numbers, arrays of numbers, tensors, strings, vectors of numbers, or plain structs,
///          pairs and tuples of those and of each other (at most 12 fields each); with as_list, any item
/// Gives:   batch_of<item>
/// Order:   kept; in finite mode no batch holds samples of two epochs, in infinite mode batches run on across
///          them
/// Throws:  std::invalid_argument for a size of 0. A tensor of another shape than those before it in its
///          batch is a failure of its sample
/// Stops:   at once
/// Example: `… | batch(256, {.drop_last = true})`, `… | batch(64, padded{.value = -1})`, `… | batch(32,
///          as_list)`
inline auto batch(std::size_t size, batch_options options = {}) {
  return detail::make_batch_stage(size, options, stacked_t());
}

inline auto batch(std::size_t size, as_list_t mode, batch_options options = {}) {
  return detail::make_batch_stage(size, options, mode);
}

inline auto batch(std::size_t size, padded mode, batch_options options = {}) {
  return detail::make_batch_stage(size, options, mode);
}

} // namespace feedline::inline v0
