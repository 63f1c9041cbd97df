// SPDX-License-Identifier: MIT
#pragma once
// Shared ownership of an object of any type, at less compile time than std::make_shared.
#include <memory>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Owns an object that `destroy` deletes; compiled once for all types.
std::shared_ptr<const void> share(const void* object, void (*destroy)(const void*));

template <class T>
void destroy(const void* object) {
  ::delete static_cast<const T*>(object);
}

template <class T>
std::shared_ptr<const void> share(T value) {
  return share(static_cast<const void*>(::new const T(std::move(value))), &destroy<T>);
}

/// Owns an object of a class derived from Base, whose destructor is virtual; compiled once for all of them.
template <class Base>
std::shared_ptr<Base> owned(Base* object) {
  return std::shared_ptr<Base>(object);
}

/// A value that all copies share.
template <class T>
class shared {
 public:
  explicit shared(T value) : object_(detail::share(std::move(value))) {}

  const std::shared_ptr<const void>& object() const noexcept { return object_; }

  const T& operator*() const noexcept { return *static_cast<const T*>(object_.get()); }

 private:
  std::shared_ptr<const void> object_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const void> share(const void* object, void (*destroy)(const void*)) {
  return std::shared_ptr<const void>(object, destroy);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
