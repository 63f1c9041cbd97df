// SPDX-License-Identifier: MIT
#pragma once
// Items as Python objects: tensors become arrays that use the item's memory.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <feedline/core/half.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/fields.hpp>
#include <feedline/python/detail/dlpack.hpp>
#include <feedline/stage/batch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

namespace py = pybind11;

/// `name` is the type in Python of what becomes of a T. Types that can't become objects have none.
template <class T>
struct python_type {};

template <class T>
concept becomes_python = requires { python_type<T>::name; };

template <>
struct python_type<std::string> {
  static constexpr auto name = py::detail::const_name("bytes");
};

template <>
struct python_type<std::string_view> : python_type<std::string> {};

template <number T>
struct python_type<T> {
  static constexpr auto name = py::detail::const_name < std::is_integral_v<T> ||
                               std::is_enum_v < T >>
                                   (py::detail::const_name<std::is_same_v<T, bool>>("bool", "int"),
                                    py::detail::const_name("float"));
};

template <becomes_python T>
struct python_type<std::optional<T>> {
  static constexpr auto name =
      py::detail::const_name("Optional[") + python_type<T>::name + py::detail::const_name("]");
};

template <class T>
struct dtype_name : py::detail::npy_format_descriptor<T> {};

template <>
struct dtype_name<bool> {
  static constexpr auto name = py::detail::const_name("numpy.bool_");
};

template <>
struct dtype_name<float16> {
  static constexpr auto name = py::detail::const_name("numpy.float16");
};

template <class T, std::size_t... Extents>
struct python_type<tensor<T, Extents...>> {
  static constexpr auto name =
      py::detail::const_name("numpy.typing.NDArray[") + dtype_name<T>::name + py::detail::const_name("]");
};

template <std::size_t... Extents>
struct python_type<tensor<bfloat16, Extents...>> {
  static constexpr auto name = py::detail::const_name("Bfloat16Tensor");
};

template <becomes_python T>
  requires(!number<T> || std::is_same_v<T, bool>)
struct python_type<std::vector<T>> {
  static constexpr auto name =
      py::detail::const_name("List[") + python_type<T>::name + py::detail::const_name("]");
};

template <number T>
  requires(!std::is_same_v<T, bool>)
struct python_type<std::vector<T>> : python_type<tensor<T>> {};

template <becomes_python T, std::size_t N>
struct python_type<std::array<T, N>> : python_type<std::vector<T>> {};

template <std::size_t N>
struct python_type<std::array<bool, N>> : python_type<tensor<bool>> {};

/// What `fields` decides: a dict, a namedtuple or a tuple.
struct any_fields {
  static constexpr auto name = py::detail::const_name("Any");
};

template <class T, class Mode>
struct python_type<struct_columns<T, Mode>> : any_fields {};

template <class T, class Mode>
struct python_type<batch_of<T, Mode>> : any_fields {};

template <class T, class Mode>
  requires is_one_column<Mode, T>
struct python_type<batch_of<T, Mode>>
    : python_type<std::remove_cvref_t<decltype(std::declval<batch_of<T, Mode>&>().values())>> {};

template <becomes_python... T>
struct python_type<std::variant<T...>> {
  static constexpr auto name = py::detail::const_name("Union[") +
                               py::detail::concat(python_type<T>::name...) + py::detail::const_name("]");
};

template <class Fields>
inline constexpr bool all_become_python = false;
template <becomes_python... Field>
inline constexpr bool all_become_python<std::tuple<Field&...>> = true;

template <class T>
  requires(has_fields<T> && all_become_python<decltype(fields_of(std::declval<T&>()))>)
struct python_type<T> : any_fields {};

template <class T, class Mode>
auto all_columns(struct_columns<T, Mode>& columns) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tie(columns.template get<I>()...);
  }(std::make_index_sequence<std::tuple_size_v<decltype(fields_of(std::declval<T&>()))>>());
}

template <class T, class... Value>
std::string list_fields(std::type_identity<std::tuple<Value&...>>) {
  constexpr auto names = names_of_fields<T>();
  std::string all;
  if constexpr (names.size() == sizeof...(Value)) {
    std::size_t i = 0;
    ((all += (i == 0 ? "" : ", ") + std::string(names[i]) + ": " + python_type<Value>::name.text, ++i), ...);
  }
  return all;
}

/// The fields of an item with their types in Python; empty if it has none with names.
template <class Item>
std::string fields_of_item(std::type_identity<Item>) {
  if constexpr (!has_fields<Item>) return {};
  else return list_fields<Item>(std::type_identity<decltype(fields_of(std::declval<Item&>()))>());
}

template <class T, class Mode>
std::string fields_of_item(std::type_identity<batch_of<T, Mode>>) {
  if constexpr (is_one_column<Mode, T>) return {};
  else
    return list_fields<T>(
        std::type_identity<decltype(all_columns(std::declval<struct_columns<T, Mode>&>()))>());
}

/// A Python object that an item of this type has become.
template <class Item>
struct python_object : py::object {
  python_object(py::object made) : py::object(std::move(made)) {}
};

/// A Python iterator over such objects.
template <class Item>
struct python_iterator : py::object {
  python_iterator(py::object made) : py::object(std::move(made)) {}
};

/// How the fields of a struct arrive in Python.
enum class field_container { dict, named_tuple, tuple };

/// Whether the batches among an item's types have room for a field `epoch`.
template <class Item>
inline constexpr bool may_show_epoch = requires { typename Item::feedline_shows_epoch; };
template <class T, class Mode>
  requires(!is_one_column<Mode, T>)
inline constexpr bool may_show_epoch<batch_of<T, Mode>> = [] {
  constexpr auto names = names_of_fields<T>();
  return std::find(names.begin(), names.end(), "epoch") == names.end();
}();
template <class... T>
inline constexpr bool may_show_epoch<std::variant<T...>> = (may_show_epoch<T> && ...);

/// The epoch of an item's last sample, if the item knows it.
template <class Item>
std::optional<std::uint32_t> last_epoch_of(const Item&) {
  return std::nullopt;
}

template <class T, class Mode>
std::optional<std::uint32_t> last_epoch_of(const batch_of<T, Mode>& batch) {
  return batch.size() > 0 ? std::optional(batch.epoch()) : std::nullopt;
}

template <class... T>
std::optional<std::uint32_t> last_epoch_of(const std::variant<T...>& item) {
  return std::visit([](const auto& held) { return last_epoch_of(held); }, item);
}

/// Makes the Python objects of one item. They keep `owner` alive, which has the item.
class [[gnu::visibility("hidden")]] to_python {
 public:
  to_python(py::object owner, field_container fields, bool epoch)
      : owner_(std::move(owner)), fields_(fields), epoch_(epoch) {}

  py::object operator()(std::string& text) const { return py::bytes(text.data(), text.size()); }

  py::object operator()(std::string_view text) const { return py::bytes(text.data(), text.size()); }

  py::object operator()(py::array_t<std::int64_t>& array) const { return array; }

  template <number T>
  py::object operator()(T& value) const {
    if constexpr (std::is_same_v<T, bool>) return py::bool_(value);
    else if constexpr (std::is_enum_v<T>) return py::int_(static_cast<std::underlying_type_t<T>>(value));
    else if constexpr (std::is_integral_v<T>) return py::int_(value);
    else if constexpr (std::is_floating_point_v<T>) return py::float_(static_cast<double>(value));
    else return py::float_(static_cast<float>(value));
  }

  template <class T>
  py::object operator()(std::optional<T>& value) const {
    return value ? (*this)(*value) : py::none();
  }

  template <class... T>
  py::object operator()(std::variant<T...>& value) const {
    return std::visit(*this, value);
  }

  template <class T, std::size_t... Extents>
  py::object operator()(tensor<T, Extents...>& t) const {
    return array(t.data(), t.shape());
  }

  template <class T>
  py::object operator()(std::vector<T>& list) const {
    if constexpr (number<T> && !std::is_same_v<T, bool>) return array(list.data(), {list.size()});
    else return this->list(list);
  }

  template <class T, std::size_t N>
  py::object operator()(std::array<T, N>& list) const {
    if constexpr (number<T>) return array(list.data(), {N});
    else return this->list(list);
  }

  template <class Values>
  py::object operator()(ragged_tensor<Values>& column) const {
    return named<2>(std::array<std::string_view, 2>{"values", "offsets"},
                    std::tie(column.values, column.offsets));
  }

  template <class Values>
  py::object operator()(padded_tensor<Values>& column) const {
    if (column.mask.shape().rank() == 2)
      return named<3>(std::array<std::string_view, 3>{"values", "lengths", "mask"},
                      std::tie(column.values, column.lengths, column.mask));
    return named<2>(std::array<std::string_view, 2>{"values", "lengths"},
                    std::tie(column.values, column.lengths));
  }

  template <class T>
  py::object operator()(masked_tensor<T>& column) const {
    return named<2>(std::array<std::string_view, 2>{"values", "mask"}, std::tie(column.values, column.valid));
  }

  template <class T, class Mode>
  py::object operator()(batch_of<T, Mode>& batch) const {
    if constexpr (is_one_column<Mode, T>) {
      return (*this)(batch.values());
    } else {
      if (!epoch_) return (*this)(static_cast<struct_columns<T, Mode>&>(batch));
      py::array_t<std::int64_t> epochs(static_cast<py::ssize_t>(batch.size()));
      std::int64_t* to = epochs.mutable_data();
      for (const sample_id& id : batch.ids()) *to++ = id.epoch;
      constexpr auto names = names_of_fields<T>();
      std::array<std::string_view, names.size() + 1> all{};
      std::copy(names.begin(), names.end(), all.begin());
      all.back() = "epoch";
      return named<std::tuple_size_v<decltype(all_columns(batch))> + 1>(
          all, std::tuple_cat(all_columns(batch), std::tie(epochs)));
    }
  }

  template <class T, class Mode>
  py::object operator()(struct_columns<T, Mode>& columns) const {
    const auto all = all_columns(columns);
    return named<std::tuple_size_v<decltype(all)>>(names_of_fields<T>(), all);
  }

  /// A struct, a pair, a tuple or a class with fields().
  template <class T>
    requires has_fields<T>
  py::object operator()(T& value) const {
    return named<std::tuple_size_v<decltype(fields_of(value))>>(names_of_fields<T>(), fields_of(value));
  }

 private:
  template <class T>
  py::object array(T* data, const shape& s) const {
    if constexpr (std::is_same_v<T, bfloat16>) {
      return py::cast(new bfloat16_tensor(owner_, data, s), py::return_value_policy::take_ownership);
    } else {
      return array_over(dtype<T>(), {s.begin(), s.end()}, data, owner_);
    }
  }

  template <class T>
  static py::dtype dtype() {
    if constexpr (std::is_same_v<T, float16>) return py::dtype("float16");
    else return py::dtype::of<T>();
  }

  template <class List>
  py::object list(List& values) const {
    py::list all(std::size(values));
    std::size_t i = 0;
    for (auto&& value : values) {
      if constexpr (std::is_same_v<List, std::vector<bool>>) all[i++] = py::bool_(value);
      else all[i++] = (*this)(value);
    }
    return all;
  }

  // Without names, or if the user wants it: a tuple.
  template <std::size_t N, std::size_t Named, class... Value>
  py::object named(const std::array<std::string_view, Named>& names,
                   const std::tuple<Value&...>& values) const {
    const std::array<py::object, N> objects =
        std::apply([&](auto&... value) { return std::array<py::object, N>{(*this)(value)...}; }, values);
    if (Named == N && fields_ == field_container::dict) {
      py::dict all;
      for (std::size_t i = 0; i < Named; ++i) all[py::str(names[i].data(), names[i].size())] = objects[i];
      return all;
    }
    py::tuple all(N);
    for (std::size_t i = 0; i < N; ++i) all[i] = objects[i];
    if (Named != N || fields_ == field_container::tuple) return all;
    return named_tuple(names)(*all);
  }

  // The class for these names, made at its first use in this module. Names that Python doesn't allow become numbers.
  template <std::size_t N>
  static py::object named_tuple(const std::array<std::string_view, N>& names) {
    py::tuple all(N);
    for (std::size_t i = 0; i < N; ++i) all[i] = py::str(names[i].data(), names[i].size());
    static py::dict& known = *new py::dict(); // never destroyed: the interpreter may be gone before
    if (!known.contains(all))
      known[all] =
          py::module_::import("collections").attr("namedtuple")("Batch", all, py::arg("rename") = true);
    return known[all];
  }

  py::object owner_;
  field_container fields_;
  bool epoch_; // whether a batch has a field of its samples' epochs
};

/// The Python objects of an item, which lives as long as one of them uses its memory.
template <class Item>
py::object as_python(Item item, field_container fields, bool epoch) {
  auto held = std::make_unique<Item>(std::move(item));
  Item& kept = *held;
  const py::capsule owner(held.get(), [](void* memory) { delete static_cast<Item*>(memory); });
  static_cast<void>(held.release());
  if constexpr (becomes_python<Item>)
    return to_python(owner, fields, epoch)(kept); // else the user sees one error
  else return {};
}

} // namespace feedline::inline FEEDLINE_ABI::detail

template <class Item>
struct pybind11::detail::handle_type_name<feedline::detail::python_object<Item>> {
  static constexpr auto name = feedline::detail::python_type<Item>::name;
};

template <class Item>
struct pybind11::detail::handle_type_name<feedline::detail::python_iterator<Item>> {
  static constexpr auto name =
      const_name("Iterator[") + feedline::detail::python_type<Item>::name + const_name("]");
};
