// SPDX-License-Identifier: MIT
#pragma once
// batch: gathers samples into one object that holds a contiguous tensor for each field.
#include <chrono>
#include <iosfwd>
#include <memory_resource>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/value_text.hpp>
#include <feedline/stage/detail/columns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of batch.
struct batch_options {
  bool drop_last = false; ///< leave out a last batch that isn't full
  /// The resource that the tensors' memory comes from, such as memory pinned for a GPU; null: ordinary
  /// memory. The processor writes to this memory. A run reuses the memory of released batches and holds it
  /// until the run and its batches are gone; the resource must outlive them. Several threads may call it at
  /// once.
  std::pmr::memory_resource* memory = nullptr;
};

/// Makes a batch a std::vector of the items, unchanged.
struct as_list_t {};

inline constexpr as_list_t as_list{}; ///< the parameter of batch and bucket_batch

/// Pads strings, vectors, and tensors whose types have no shape to the longest in their batch, and adds their lengths to it.
/// Of a tensor that is its first dimension: [n, 80] becomes [batch, longest n, 80]; the other dimensions must be equal.
struct padded {
  double value = 0; ///< the value to pad with; whole numbers become 0 if it is none, or has more than 64 bits
  bool mask = false; ///< adds a mask: true where a sample has an element
};

struct stacked_t {};

namespace detail {

template <class Mode, class Field>
struct field_column;

template <class Mode, class T>
struct columns_of;

template <class Mode, class T>
class struct_column;

enum class column_kind { none, list, stacked, masked, ragged, padded, columns };

/// What decides a column's shape: types, the lengths of lists, or the first value, which the others must agree with.
enum class shape_source { type, lengths, first_value };

/// The kind of a column of values that aren't structs.
template <class Mode, class Field>
consteval column_kind simple_kind() {
  constexpr bool pads = std::is_same_v<Mode, padded>;
  if constexpr (std::is_same_v<Mode, as_list_t>) {
    return column_kind::list;
  } else if constexpr (is_optional_number<Field>) {
    return column_kind::masked;
  } else if constexpr (number<Field> || is_array<Field> || is_tensor<Field>) {
    return pads && is_shapeless<Field> ? column_kind::padded : column_kind::stacked;
  } else if constexpr (any_text<Field> && !pads) {
    return column_kind::list;
  } else if constexpr (ragged<Field>) {
    using element = field_column<stacked_t, typename Field::value_type>;
    if (element::from == shape_source::type) return pads ? column_kind::padded : column_kind::ragged;
    return !pads && owning<Field> && element::from == shape_source::lengths ? column_kind::ragged
                                                                            : column_kind::none;
  } else {
    return column_kind::none;
  }
}

/// Whether a sample is one column: a number, a tensor, a string, a list; with as_list, any item.
template <class Mode, class T>
inline constexpr bool is_one_column = simple_kind<Mode, T>() != column_kind::none;

template <class Mode, class Field>
consteval column_kind column_kind_of() {
  if constexpr (is_one_column<Mode, Field>) return simple_kind<Mode, Field>();
  else return columns_of<Mode, Field>::exist ? column_kind::columns : column_kind::none;
}

/// `Count`: of tensors. `Keeps`: whether it holds samples until their batch is complete.
template <shape_source From, std::size_t Count = 1, bool Keeps = false>
struct column_facts {
  static constexpr bool exists = true, keeps = Keeps;
  static constexpr shape_source from = From;
  static constexpr std::size_t count = Count;
};

template <column_kind, class Mode, class Field>
struct column : column_facts<shape_source::first_value> {
  static constexpr bool exists = false;
};

template <class Mode, class Field>
struct column<column_kind::list, Mode, Field> : column_facts<shape_source::lengths> {
  using type = list_column<Field>;

  static type make(Mode, block_cache&) { return {}; }
};

template <class Mode, class Field>
struct column<column_kind::stacked, Mode, Field>
    : column_facts<is_shapeless<Field> ? shape_source::first_value : shape_source::type> {
  using type = stacked_column<Field>;

  static type make(Mode, block_cache& memory) { return type(memory); }
};

template <class Mode, class Field>
struct column<column_kind::masked, Mode, Field> : column_facts<shape_source::type, 2> {
  using type = masked_column<Field>;

  static type make(Mode, block_cache& memory) { return type(memory); }
};

/// The column of a list's elements, or of a tensor's slices.
template <class Field>
struct elements_column : field_column<stacked_t, typename Field::value_type> {};

template <class T>
struct elements_column<tensor<T>> : field_column<stacked_t, tensor<T>> {};

template <class Mode, class Field>
struct column<column_kind::ragged, Mode, Field>
    : column_facts<shape_source::lengths, elements_column<Field>::count + 1, true> {
  using type = ragged_column<Field, typename elements_column<Field>::type>;

  static type make(Mode, block_cache& memory) {
    return {elements_column<Field>::make(stacked_t(), memory), memory};
  }
};

template <class Field>
struct column<column_kind::padded, padded, Field>
    : column_facts<shape_source::first_value, elements_column<Field>::count + 2, true> {
  using type = padded_column<Field, typename elements_column<Field>::type>;

  static type make(padded mode, block_cache& memory) {
    return {elements_column<Field>::make(stacked_t(), memory), mode.value, mode.mask, memory};
  }
};

template <class Mode, class Field>
struct column<column_kind::columns, Mode, Field>
    : column_facts<columns_of<Mode, Field>::from, columns_of<Mode, Field>::count,
                   columns_of<Mode, Field>::keep> {
  using type = struct_column<Mode, Field>;

  static type make(Mode mode, block_cache& memory) { return type(mode, memory); }
};

/// The column of a field, or the columns of a struct.
template <class Mode, class Field>
struct field_column : column<column_kind_of<Mode, Field>(), Mode, Field> {};

template <class Mode, class Fields>
struct columns_of_fields;

template <class Mode, class... Field>
struct columns_of_fields<Mode, std::tuple<Field&...>> {
  static constexpr bool exist = sizeof...(Field) > 0 && (field_column<Mode, Field>::exists && ...);
  static constexpr bool keep = (field_column<Mode, Field>::keeps || ...);
  static constexpr std::size_t count = (std::size_t{0} + ... + field_column<Mode, Field>::count);
  static constexpr shape_source from = std::max({shape_source::type, field_column<Mode, Field>::from...});
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

/// Finds the field that makes a struct unfit for a batch, for the compiler's message.
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

/// Columns with an operator==; that of std::vector exists for all elements.
template <class Column>
inline constexpr bool is_comparable = std::equality_comparable<Column>;
template <class T>
inline constexpr bool is_comparable<std::vector<T>> = std::equality_comparable<T>;

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

  static consteval bool are_comparable() { return (is_comparable<typename Column::type::result> && ...); }
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

/// The identities of a batch's rows.
class batch_ids {
 public:
  /// Allocates memory for those of `rows` rows, unless it has it already.
  void begin(std::size_t rows) {
    if (list_.size() == 0) list_ = tensor<sample_id>(shape{rows}, block_cache::of_process());
  }

  void add(const auto& ids) noexcept { collected_.add(ids, list_.begin()); }

  std::size_t size() const noexcept { return list_.size() == 0 ? 0 : collected_.size(); } // none after a move

  sample_ids all() const noexcept { return list_.size() == 0 ? sample_ids() : collected_.in(list_.begin()); }

 private:
  tensor<sample_id> list_; // written only as far as necessary
  id_collector collected_;
};

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
  /// The column of the field that a member pointer names, `batch.get<&example::label>()`, or that has a number,
  /// `batch.get<0>()`, for pairs and tuples, for example. That of a temporary is moved out, so that it outlives the batch.
  template <auto Field>
  const auto& get() const& noexcept FEEDLINE_LIFETIMEBOUND {
    return column<Field>(*this);
  }

  /// The same column, to be written.
  template <auto Field>
  auto& get() & noexcept FEEDLINE_LIFETIMEBOUND {
    return column<Field>(*this);
  }

  /// The column by value.
  template <auto Field>
  auto get() && noexcept {
    return std::move(column<Field>(*this));
  }

  /// Whether all columns are equal.
  friend bool operator==(const struct_columns& a, const struct_columns& b)
    requires(parts::are_comparable())
  {
    return a.columns_ == b.columns_;
  }

  /// "{label: tensor<int> [2]: [1, 2], text: [\"a\", \"b\"]}"; each column is shortened if it is long.
  friend std::string to_string(const struct_columns& columns) {
    constexpr auto names = detail::names_of_fields<T>();
    return std::apply(
        [&](const auto&... column) {
          return detail::fields_text(std::array<std::string, count>{detail::value_text(column)...}, names);
        },
        columns.columns_);
  }

  /// Prints to_string().
  friend std::ostream& operator<<(std::ostream& out, const struct_columns& columns) {
    return out << to_string(columns);
  }

 private:
  friend struct detail::columns_maker<T, Mode>;

  template <auto Field, class Self>
  static auto& column(Self& self) noexcept {
    if constexpr (std::is_member_pointer_v<decltype(Field)>) return named<Field>(self);
    else return numbered<Field>(self);
  }

  template <auto Member, class Self>
  static auto& named(Self& self) noexcept {
    constexpr bool is_field_of_the_samples = detail::names_field<T, Member>;
    static_assert(is_field_of_the_samples,
                  "feedline: `Member` is not a field of `T`, the type of this batch's samples");
    if constexpr (is_field_of_the_samples) return std::get<detail::field_index<Member>()>(self.columns_);
    else return self;
  }

  template <std::size_t I, class Self>
  static auto& numbered(Self& self) noexcept {
    static_assert(
        I < count,
        "feedline: the samples of this batch, of type `T`, have no field number `I`: the first field is "
        "number 0");
    if constexpr (I < count) return std::get<I>(self.columns_);
    else return self;
  }

  typename parts::results columns_;
};

/// A batch of samples of type T, with one column for each field. Move-only.
///
/// A field's type decides its column's type:
/// - number: a tensor<number> [batch]
/// - std::optional number: a masked_tensor with values [batch], 0 where there is none, and valid [batch]
/// - array, or tensor with a shape in its type: a tensor [batch, shape of one…]
/// - string: a std::vector of them or, with `padded`, a padded_tensor
/// - vector: a ragged_tensor: the elements of all samples as one column, and offsets; with `padded`, a padded_tensor
/// - tensor without a shape in its type: a tensor [batch, shape of one…] or, with `padded`, a padded_tensor
/// - struct: the struct_columns of its fields: `batch.get<&example::box>().get<&box::width>()`; of a vector of structs:
///   `batch.get<&example::boxes>().values.get<&box::width>()`
///
/// With `as_list` the samples themselves are a std::vector<T>.
template <class T, class Mode = stacked_t>
class batch_of : public struct_columns<T, Mode> {
 public:
  using feedline_batch = void;
  using sample_type = T; ///< the type of a sample

  batch_of() = default;
  // clang-format off
  batch_of(const batch_of&) = delete; // feedline: a batch isn't copied: write `for (auto& batch : loader)`, pass `const auto& batch`, or std::move(batch)
  batch_of& operator=(const batch_of&) = delete; // feedline: a batch isn't copied: pass `const auto& batch`, or std::move(batch)
  // clang-format on
  ///@{
  /// The moved-from batch may only be destroyed or assigned to.
  batch_of(batch_of&&) = default;
  batch_of& operator=(batch_of&&) = default;

  ///@}

  /// The number of samples.
  std::size_t size() const noexcept { return ids_.size(); }

  /// The identity of each sample: index, sub-index and epoch.
  sample_ids ids() const& noexcept FEEDLINE_LIFETIMEBOUND { return ids_.all(); }

  sample_ids ids() && = delete; // they would be gone with the batch

  /// The index of each sample in its source.
  std::vector<std::uint64_t> indices() const {
    std::vector<std::uint64_t> all;
    for (const sample_id& id : ids()) all.push_back(id.index);
    return all;
  }

  /// How long it was ready in the run's last queue before next() returned it; 0 if it didn't come from there.
  std::chrono::nanoseconds queued() const noexcept { return queued_; }

  /// For the library.
  void set_queued(std::chrono::nanoseconds time) noexcept { queued_ = time; }

  /// The epoch of the last sample. In infinite mode a batch may hold samples of two epochs: see ids().
  std::uint32_t epoch() const noexcept { return ids().back().epoch; }

  ///@{
  /// The only column, for samples that are one value.
  const auto& values() const& noexcept FEEDLINE_LIFETIMEBOUND
    requires detail::is_one_column<Mode, T>
  {
    return this->template get<0>();
  }

  auto& values() & noexcept FEEDLINE_LIFETIMEBOUND
    requires detail::is_one_column<Mode, T>
  {
    return this->template get<0>();
  }

  auto values() && noexcept
    requires detail::is_one_column<Mode, T>
  {
    return std::move(*this).template get<0>();
  }

  ///@}

  /// Whether both have the same samples, by their identities, and equal columns.
  friend bool operator==(const batch_of& a, const batch_of& b)
    requires std::equality_comparable<struct_columns<T, Mode>>
  {
    return a.ids() == b.ids() && a.columns() == b.columns();
  }

  /// "batch of 2: " and the columns.
  friend std::string to_string(const batch_of& b) {
    return "batch of " + std::to_string(b.size()) + ": " + to_string(b.columns());
  }

  /// Prints to_string().
  friend std::ostream& operator<<(std::ostream& out, const batch_of& b) { return out << to_string(b); }

 private:
  const struct_columns<T, Mode>& columns() const noexcept { return *this; }

  friend class detail::batch_builder<T, Mode>;
  friend struct detail::batch_maker<T>;

  detail::batch_ids ids_;
  std::chrono::nanoseconds queued_{0};
};

namespace detail {

/// Lets the code that makes batches write struct_columns.
template <class T, class Mode>
struct columns_maker {
  static auto& of(struct_columns<T, Mode>& all) noexcept { return all.columns_; }
};

/// The columns of a field that is a struct.
template <class Mode, class T>
class struct_column {
  using parts = batch_parts<typename columns_of<Mode, T>::types>;

 public:
  using result = struct_columns<T, Mode>;

  struct_column(Mode mode, block_cache& memory) : columns_(parts::make(mode, memory)) {}

  void begin(const shape& rows) {
    std::apply([&](auto&... column) { (column.begin(rows), ...); }, columns_);
  }

  template <class List, class Select>
  void add_each(List& list, std::size_t row, Select select) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(columns_).add_each(
           list, row, [&](auto& element) -> auto& { return std::get<I>(fields_of(select(element))); }),
       ...);
    }(typename parts::all_numbers());
  }

  void fill(std::size_t row, std::size_t count, double value) {
    std::apply([&](auto&... column) { (column.fill(row, count, value), ...); }, columns_);
  }

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

/// Makes a batch from columns that are filled already.
template <class T>
struct batch_maker {
  /// `take(columns)` moves them into the batch.
  template <class Take>
  static void fill(batch_of<T>& b, batch_ids ids, Take take) {
    b.ids_ = std::move(ids);
    auto& columns = columns_maker<T, stacked_t>::of(b);
    take(columns);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(columns).truncate(b.size()), ...);
    }(std::make_index_sequence<std::tuple_size_v<std::remove_reference_t<decltype(columns)>>>());
  }
};

std::runtime_error lost_batch(std::size_t rows, const std::exception& error);

/// Emits a batch. Returns false if no more items are needed.
template <class Batch>
bool emit_batch(Batch&& b, auto& emit) {
  const std::size_t rows = b.size();
  const sample_id last = b.ids().back();
  try {
    return emit(sample<Batch>{std::move(b), last});
  } catch (const std::exception& error) {
    // Stages downstream catch their own errors: there was no room for the batch.
    throw lost_batch(rows, error);
  }
}

/// The rows of the batch that a stage is filling.
class rows_so_far {
 public:
  rows_so_far(std::size_t size, const batch_options& options) : size_(size), options_(options) {}

  bool is_full() const noexcept { return ids_.size() == size_; }

  /// Whether there are none, and none of this epoch were dropped. (A run resumed within the epoch would read dropped
  /// samples again.)
  bool at_rest() const noexcept { return ids_.size() == 0 && !dropped_; }

  void end_epoch() noexcept { dropped_ = false; }

 protected:
  void drop() {
    ids_ = {};
    dropped_ = true;
  }

  std::size_t size_; // of a full batch
  batch_options options_;
  batch_ids ids_;

 private:
  bool dropped_ = false; // some samples of this epoch
};

template <class T, class Mode>
class batch_builder : public rows_so_far {
  using parts = batch_parts<typename columns_of<Mode, T>::types>;
  static constexpr bool fills_rows = lies_in_rows<T> && !std::is_same_v<Mode, as_list_t>;

 public:
  using feedline_rows = void;
  using output = batch_of<T, Mode>;

  batch_builder(std::size_t size, batch_options options, Mode mode)
      : batch_builder(size, options, mode, block_cache::over(options.memory)) {}

  batch_builder(std::size_t size, batch_options options, Mode mode, std::shared_ptr<block_cache> memory)
      : rows_so_far(size, options), memory_(std::move(memory)), columns_(parts::make(mode, *memory_)) {}

  void operator()(sample<T>&& s, auto& emit) {
    keep(std::move(s));
    if (is_full()) flush(emit);
  }

  /// Adds a sample without emitting a batch. There must be room for it.
  void keep(sample<T>&& s) {
    ids_.begin(size_);
    add(s.value);
    ids_.add(s.id);
  }

  /// The identities of the samples that it holds.
  sample_ids ids() const noexcept { return ids_.all(); }

  /// Emits the samples that it holds, at least one, as a batch. Returns false if no more items are needed.
  bool flush(auto& emit) {
    output b;
    b.ids_ = std::exchange(ids_, {}); // even after an error no sample is emitted twice
    const std::size_t rows = b.size();
    try {
      take_columns(columns_, columns_maker<T, Mode>::of(b), rows, typename parts::all_numbers());
    } catch (const std::exception& error) {
      throw lost_batch(rows, error);
    }
    return emit_batch(std::move(b), emit);
  }

  /// The rows that are still free.
  std::span<T> room()
    requires fills_rows
  {
    ids_.begin(size_);
    return std::get<0>(columns_).rows_from(ids_.size(), size_);
  }

  /// Counts the next rows as filled.
  void commit(const row_ids& ids, auto& emit)
    requires fills_rows
  {
    ids_.add(ids);
    if (is_full()) flush(emit);
  }

  void finish(auto& emit) {
    if (ids_.size() == 0) return;
    if (options_.drop_last) drop();
    else flush(emit);
  }

 private:
  // If a later column refuses a sample, the next sample overwrites what the earlier columns stored of it.
  void add(T& value) {
    if constexpr (is_one_column<Mode, T>) {
      std::get<0>(columns_).add(std::move(value), ids_.size(), size_);
    } else {
      add_fields(columns_, value, ids_.size(), size_, typename parts::all_numbers());
    }
  }

  std::shared_ptr<block_cache> memory_;
  typename parts::builders columns_;
};

/// The most bytes of a batch whose samples take `row` bytes each. Padding only makes each as long as the longest, and the
/// column of a list takes less than its object and elements. A mask has at most a byte for each byte of a sample.
/// block_cache rounds a block up by an eighth, or to the smallest size.
template <class T, class Mode>
known_bytes bytes_of_batch(std::size_t size, known_bytes row, const Mode& mode) {
  if constexpr (std::is_same_v<Mode, padded>)
    if (mode.mask) row = product_of(2, row);
  const known_bytes rows = product_of(size, sum_of(row, sizeof(sample_id)));
  return sum_of(sizeof(batch_of<T, Mode>) + (columns_of<Mode, T>::count + 1) * block_cache::smallest,
                rows ? sum_of(rows, *rows / 8) : rows);
}

/// The number of batches that `items` items make. `with_rest`: counts a last batch that isn't full.
constexpr std::uint64_t batches_of(std::uint64_t items, std::size_t size, bool with_rest) noexcept {
  return items / size + (with_rest && items % size != 0);
}

/// What batch and batch_into are to a run.
struct batch_sizes {
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "batch",
                                       .data_independent_count = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true};

  std::size_t samples_in_one() const noexcept { return size; }

  std::uint64_t output_count(std::uint64_t items, bool drains) const noexcept {
    return batches_of(items, size, drains && !options.drop_last);
  }

  std::uint64_t fingerprint_of_ranks(std::uint64_t ranks) const noexcept {
    return key(size * ranks, options.drop_last);
  }

  std::size_t size;
  batch_options options;
};

template <class Mode>
struct batch_stage : batch_sizes {
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

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return bytes_of_batch<In, Mode>(size, in, mode);
  }

  /// Lists are copied when their batch is complete: for a moment they and their copies exist.
  template <class In>
  std::size_t items_begun() const noexcept {
    return columns_of<Mode, In>::keep;
  }

  Mode mode;
};

template <class Mode>
auto make_batch_stage(std::size_t size, batch_options options, Mode mode) {
  if (size == 0) throw std::invalid_argument("feedline::batch: a batch needs at least one sample");
  refuse_negative(size, "feedline::batch: the size");
  return batch_stage<Mode>{{size, options}, mode};
}

} // namespace detail

/// Gathers samples into batches.
///
/// Takes:   numbers, std::optional numbers, arrays of numbers, tensors, strings; vectors, plain structs, pairs and tuples of
///          those and of each other (at most 64 fields each; a class with a constructor or a base class has them by a function `auto
///          fields() { return std::tie(a, b); }`). As elements of vectors: no tensors whose types have no shape and, with
///          padded, no strings or vectors. With as_list: any item
/// Gives:   batch_of<item>
/// Order:   kept; in finite mode no batch holds samples of two epochs, in infinite mode a batch may continue
///          into the next epoch
/// Throws:  std::invalid_argument for a size of 0. A tensor whose shape differs from those before it in its
///          batch is a failure of its sample
/// Stops:   at once
/// Example: `… | batch(256, {.drop_last = true})`, `… | batch(64, padded{.value = -1, .mask = true})`, `… |
///          batch(32, as_list)`
inline auto batch(std::size_t size, batch_options options = {}) {
  return detail::make_batch_stage(size, options, stacked_t());
}

/// A batch is a std::vector of any items.
inline auto batch(std::size_t size, as_list_t mode, batch_options options = {}) {
  return detail::make_batch_stage(size, options, mode);
}

/// Strings, vectors, and tensors whose types have no shape are padded to the longest in their batch, in their first dimension.
inline auto batch(std::size_t size, padded mode, batch_options options = {}) {
  return detail::make_batch_stage(size, options, mode);
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_STAGE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::runtime_error lost_batch(std::size_t rows, const std::exception& error) {
  return std::runtime_error("all " + std::to_string(rows) +
                            " samples of the batch are lost: " + error.what());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
