// SPDX-License-Identifier: MIT
#pragma once
// A contiguous, aligned block of numbers with a shape, for decoded images and for batches.
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/type_name.hpp>
#include <feedline/detail/value_text.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The alignment of a tensor's memory in bytes: a cache line, and the widest vector register.
inline constexpr std::size_t tensor_alignment = detail::block_cache::alignment;

/// The sizes of a tensor's dimensions, outermost first; at most eight, stored in the object.
class shape {
 public:
  static constexpr std::size_t max_rank = 8; ///< the most dimensions

  constexpr shape() = default;

  /// Throws std::length_error for more than max_rank dimensions.
  constexpr shape(std::initializer_list<std::size_t> extents)
      : shape(std::span(extents.begin(), extents.size())) {}

  /// The sizes, outermost first. Throws std::length_error for more than max_rank.
  constexpr explicit shape(std::span<const std::size_t> extents) {
    for (const std::size_t extent : extents) append(extent);
  }

  /// The number of dimensions.
  constexpr std::size_t rank() const noexcept { return rank_; }

  /// The size of a dimension; 0 is the outermost.
  constexpr std::size_t operator[](std::size_t dimension) const noexcept { return extents_[dimension]; }

  /// The sizes, outermost first.
  constexpr const std::size_t* begin() const noexcept { return extents_.data(); }

  constexpr const std::size_t* end() const noexcept { return extents_.data() + rank_; }

  /// The number of elements: the product of the extents, 1 for rank 0. Throws std::length_error if it is more
  /// than memory can address, for example because an extent was negative.
  constexpr std::size_t count() const {
    std::size_t product = 1;
    for (const std::size_t extent : *this)
      if (__builtin_mul_overflow(product, extent, &product) || detail::was_negative(product))
        throw std::length_error("feedline::shape: more elements than memory can address");
    return product;
  }

  /// Adds an innermost dimension. Throws std::length_error for more than max_rank.
  constexpr void append(std::size_t extent) {
    if (rank_ == max_rank) throw std::length_error("feedline::shape: more than 8 dimensions");
    extents_[rank_++] = extent;
  }

  /// Changes the size of a dimension.
  constexpr void set(std::size_t dimension, std::size_t extent) noexcept { extents_[dimension] = extent; }

  /// Whether both have the same dimensions.
  friend constexpr bool operator==(const shape& a, const shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

  /// "[256, 3, 224, 224]"
  friend std::string to_string(const shape& s) {
    std::string text = "[";
    for (const std::size_t extent : s) text += (text.size() > 1 ? ", " : "") + detail::size_text(extent);
    return text += "]";
  }

  /// Prints to_string().
  friend std::ostream& operator<<(std::ostream& out, const shape& s) { return out << to_string(s); }

 private:
  std::array<std::size_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

/// An owning, move-only, row-major array of numbers. `tensor<float, 3, 224, 224>` has its shape in its type,
/// `tensor<float>` gets it at run time. Elements are uninitialised: the caller fills them.
template <class T, std::size_t... Extents>
class tensor {
  static_assert(std::is_trivially_copyable_v<T>, "a feedline::tensor holds plain numbers");
  static_assert(alignof(T) <= tensor_alignment,
                "a feedline::tensor is aligned to 64 bytes, too few for this type");

 public:
  using value_type = T;                                            ///< the type of an element
  static constexpr bool has_static_shape = sizeof...(Extents) > 0; ///< whether the type determines the shape

  /// Empty: shape [0]; with a shape in the type: of that shape.
  tensor()
    requires(!has_static_shape)
  = default;

  tensor()
    requires has_static_shape
      : tensor(feedline::shape{Extents...}, 0) {}

  /// A tensor of this shape.
  explicit tensor(const feedline::shape& extents)
    requires(!has_static_shape)
      : tensor(extents, 0) {}

  /// For tensors that live as long as a batch: in memory of that cache, which reuses even small blocks.
  tensor(const feedline::shape& extents, detail::block_cache& cache)
    requires(!has_static_shape)
      : cache_(&cache), size_(extents.count()), shape_(extents) {
    allocate(detail::block_cache::smallest);
  }

  // clang-format off
  tensor(const tensor&) = delete; // feedline: a tensor isn't copied by accident: bind `const auto& x`, std::move(x), or call x.clone()
  tensor& operator=(const tensor&) = delete; // feedline: a tensor isn't copied by accident: std::move(x), or call x.clone()

  // clang-format on

  /// The moved-from tensor has no elements.
  tensor(tensor&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        spare_(other.spare_),
        cache_(other.cache_),
        size_(std::exchange(other.size_, 0)),
        shape_(std::exchange(other.shape_, feedline::shape{0})) {}

  /// The moved-from tensor has no elements.
  tensor& operator=(tensor&& other) noexcept {
    tensor(std::move(other)).swap(*this);
    return *this;
  }

  ~tensor() {
    if (data_) cache_->deallocate({data_, bytes_, spare_});
  }

  /// A copy with its own memory.
  tensor clone() const {
    tensor copy(shape_, 0);
    std::copy(begin(), end(), copy.begin());
    return copy;
  }

  /// Keeps the first `extent` elements of the outermost dimension; the memory stays as it is.
  void truncate(std::size_t extent)
    requires(!has_static_shape)
  {
    if (shape_.rank() == 0 || extent > shape_[0])
      throw std::out_of_range(
          "feedline::tensor::truncate: the extent is larger than the outermost dimension");
    const std::size_t kept = extent * stride();
    shape_.set(0, extent);
    size_ = kept;
  }

  /// Exchanges shapes and memory.
  void swap(tensor& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(spare_, other.spare_);
    std::swap(cache_, other.cache_);
    std::swap(size_, other.size_);
    std::swap(shape_, other.shape_);
  }

  /// The sizes of the dimensions, outermost first.
  const feedline::shape& shape() const noexcept { return shape_; }

  /// The number of elements.
  std::size_t size() const noexcept { return size_; }

  ///@{
  /// The elements, in row-major order.
  T* data() noexcept { return data_; }

  const T* data() const noexcept { return data_; }

  T* begin() noexcept { return data_; }

  T* end() noexcept { return data_ + size_; }

  const T* begin() const noexcept { return data_; }

  const T* end() const noexcept { return data_ + size_; }

  ///@}

  ///@{
  /// Element i in row-major order.
  T& operator[](std::size_t i) noexcept { return data_[i]; }

  const T& operator[](std::size_t i) const noexcept { return data_[i]; }

  ///@}

  ///@{
  /// Element i of the outermost dimension, for example one sample of a batch. Throws std::out_of_range.
  std::span<const T> at(std::size_t i) const { return {data_ + offset_of(i), stride()}; }

  std::span<T> at(std::size_t i) { return {data_ + offset_of(i), stride()}; }

  ///@}

  /// Whether both have the same shape and equal elements.
  friend bool operator==(const tensor& a, const tensor& b)
    requires std::equality_comparable<T>
  {
    return a.shape_ == b.shape_ && std::equal(a.begin(), a.end(), b.begin());
  }

  /// "tensor<float> [2, 3]: [[1, 2, 3], [4, 5, 6]]"; of a large one the first and last elements of each dimension.
  friend std::string to_string(const tensor& t) {
    return "tensor<" + std::string(detail::type_name<T>.data()) + "> " + to_string(t.shape_) + ": " +
           detail::array_text({t.shape_.begin(), t.shape_.end()}, t.data_,
                              [](const void* elements, std::size_t i) {
                                return detail::value_text(static_cast<const T*>(elements)[i]);
                              });
  }

  /// Prints to_string().
  friend std::ostream& operator<<(std::ostream& out, const tensor& t) { return out << to_string(t); }

 private:
  // The second parameter only distinguishes this constructor from the public one.
  tensor(const feedline::shape& extents, int)
      : cache_(&detail::block_cache::of_process()), size_(extents.count()), shape_(extents) {
    allocate(0);
  }

  void allocate(std::size_t at_least) {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(size_, sizeof(T), &bytes) || detail::was_negative(bytes))
      throw std::bad_array_new_length();
    if (bytes == 0) return;
    const detail::block_cache::block b = cache_->allocate(std::max(bytes, at_least));
    data_ = static_cast<T*>(b.memory);
    bytes_ = b.bytes;
    spare_ = b.spare;
  }

  std::size_t stride() const noexcept { return shape_.rank() == 0 || shape_[0] == 0 ? 0 : size_ / shape_[0]; }

  std::size_t offset_of(std::size_t i) const {
    if (shape_.rank() == 0 || i >= shape_[0])
      throw std::out_of_range("feedline::tensor::at: the index is out of range");
    return i * stride();
  }

  T* data_ = nullptr;
  std::size_t bytes_ = 0; // of its memory
  std::size_t spare_ = 0; // of those, see block_cache
  detail::block_cache* cache_ = nullptr;
  std::size_t size_ = 0;
  feedline::shape shape_{0};
};

namespace detail {

template <class T>
inline constexpr bool is_tensor = false;
template <class T, std::size_t... Extents>
inline constexpr bool is_tensor<tensor<T, Extents...>> = true;

/// A tensor whose type has no shape.
template <class T>
inline constexpr bool is_shapeless = false;
template <class T>
inline constexpr bool is_shapeless<tensor<T>> = true;

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
