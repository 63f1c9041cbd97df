// SPDX-License-Identifier: MIT
#pragma once
// The users' functions inside stages: stored, shared by workers and called.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI {

template <class Factory>
struct per_worker_t {
  Factory factory;
};

/// Makes a separate function for each worker of map, filter, flat_map or tap: `factory()` is called when the
/// worker starts. The function may keep a decoder or a buffer and change it. What it returns must not depend
/// on earlier calls, or results would depend on the number of workers.
///
///     map(per_worker([] { return [codec = my_codec()](const blob& b) mutable { return codec.decode(b); }; }))
template <class Factory>
auto per_worker(Factory factory) {
  constexpr bool makes_functions = std::is_invocable_v<const Factory&>;
  static_assert(
      makes_functions,
      "feedline: per_worker takes a function without arguments, which isn't mutable, that makes the worker's "
      "function: per_worker([] { return [buffer = my_buffer()](const item& i) mutable { … }; })");
  if constexpr (makes_functions) return per_worker_t<Factory>{std::move(factory)};
  else return detail::refused_pipeline();
}

namespace detail {

/// One function for all copies of a stage and all its workers; it may be move-only.
template <class F>
class shared_function {
 public:
  using called = const F;
  using changing = F;

  explicit shared_function(F f) : f_(std::move(f)) {}

  auto bind() const {
    struct reference {
      const F* f;

      const F& get() const noexcept { return *f; }
    };

    return reference{&*f_}; // the run's pipeline keeps it alive
  }

  known_bytes bytes_given(known_bytes in) const
    requires requires(const F& f) {
      { f.bytes_given(in) } -> std::same_as<known_bytes>;
    }
  {
    return (*f_).bytes_given(in);
  }

 private:
  shared<F> f_;
};

template <class Factory>
class made_function {
  using made = std::remove_cvref_t<std::invoke_result_t<const Factory&>>;

 public:
  using called = made;
  using changing = made;

  explicit made_function(per_worker_t<Factory> f) : factory_(std::move(f.factory)) {}

  auto bind() const {
    struct value {
      made f;

      made& get() noexcept { return f; }
    };

    return value{(*factory_)()};
  }

 private:
  shared<Factory> factory_;
};

template <class F>
struct held_function {
  using type = shared_function<F>;
};

template <class Factory>
struct held_function<per_worker_t<Factory>> {
  using type = made_function<Factory>;
};

template <class F>
using held_function_t = typename held_function<std::decay_t<F>>::type;

template <class F, class In>
concept callable_with_item = std::is_invocable_v<F&, In>;

template <class F, class In>
concept callable = callable_with_item<F, In> || std::is_invocable_v<F&, In, context&>;

/// The object to use with a pointer to a member: the item, or what it points to.
template <class Class, class Type, class In>
decltype(auto) object_of(Type Class::*, In&& in) {
  if constexpr (std::is_base_of_v<Class, std::remove_cvref_t<In>>) return std::forward<In>(in);
  else return *std::forward<In>(in);
}

/// Calls f(item) or f(item, context); f may be a pointer to a member of the item or of what it points to.
template <class F, class In>
decltype(auto) call(F& f, In&& in, context& c) {
  if constexpr (!callable_with_item<F, In>) return f(std::forward<In>(in), c);
  else if constexpr (std::is_member_object_pointer_v<std::remove_cv_t<F>>)
    return object_of(f, std::forward<In>(in)).*f;
  else if constexpr (std::is_member_function_pointer_v<std::remove_cv_t<F>>)
    return (object_of(f, std::forward<In>(in)).*f)();
  else return f(std::forward<In>(in));
}

template <class F, class In>
using call_result_t = decltype(call(std::declval<F&>(), std::declval<In>(), std::declval<context&>()));

/// Whether a function can be called with items (In with its reference), whatever it returns.
template <class Held, class In>
consteval fit fit_of_call() {
  if constexpr (callable<typename Held::called, In>) return fit::yes;
  else return callable<typename Held::changing, In> ? fit::not_const : fit::wrong_argument;
}

template <class Option, class... Options>
inline constexpr bool has_option = (std::is_same_v<Option, Options> || ...);

template <class... Options>
inline constexpr bool each_once = true;
template <class Option, class... Rest>
inline constexpr bool each_once<Option, Rest...> = !has_option<Option, Rest...> && each_once<Rest...>;

/// The function and the name of a stage.
template <class Held>
class function_stage {
 public:
  using feedline_part = void;

  function_stage(Held f, std::string name) : f_(std::move(f)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

 protected:
  Held f_;

 private:
  std::string name_;
};

/// The same, with the most bytes of an item that the function makes.
template <class Held>
class limited_function_stage : public function_stage<Held> {
 public:
  using function_stage<Held>::function_stage;

  void limit_items(max_item_bytes limit) {
    refuse_negative(limit.bytes, "feedline: the max_item_bytes");
    limit_ = limit;
  }

 protected:
  /// The bytes of an item of type Out, made of one that takes `in`.
  template <class Out>
  known_bytes bytes_of_one(known_bytes in) const {
    if (limit_.bytes > 0) return limit_.bytes;
    if constexpr (requires(const Held& f) { f.bytes_given(in); }) return this->f_.bytes_given(in);
    else return bytes_of_type<Out>();
  }

  max_item_bytes limit_{};
};

/// The option with that type; `otherwise` if it isn't given.
template <class Option>
Option option_or(Option otherwise) {
  return otherwise;
}

template <class Option, class First, class... Rest>
Option option_or(Option otherwise, const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<Option, First>) return first;
  else return option_or(std::move(otherwise), rest...);
}

/// Makes a stage from a function and options in any order: name, workers, unordered, max_item_bytes.
template <template <class> class Stage, class F, class... Options>
auto make_function_stage(F&& f, Options... options) {
  static_assert(((has_option<Options, name, workers, unordered_t, max_item_bytes>)&&...),
                "feedline: after its function a stage takes name{…}, workers{…} and unordered; map and "
                "flat_map also take max_item_bytes{…}");
  static_assert(has_option<workers, Options...> || !has_option<unordered_t, Options...>,
                "feedline: unordered needs workers: without them a stage keeps the order anyway");
  static_assert(each_once<Options...>, "feedline: one of the `Options` of a stage is given twice");
  if constexpr (!((has_option<Options, name, workers, unordered_t, max_item_bytes>)&&...) ||
                !each_once<Options...> || refused<F>) {
    return refused_pipeline();
  } else {
    Stage<held_function_t<F>> stage(held_function_t<F>(std::forward<F>(f)),
                                    option_or(name{}, options...).text);
    if constexpr (has_option<max_item_bytes, Options...>)
      stage.limit_items(option_or(max_item_bytes{}, options...));
    if constexpr (has_option<workers, Options...>)
      return make_parallel<!has_option<unordered_t, Options...>>(option_or(workers::automatic, options...),
                                                                 as_row(std::move(stage)));
    else return stage;
  }
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
