// SPDX-License-Identifier: MIT
#pragma once
// A memory manager for libjpeg that reuses its memory for every image.
#include <cstddef>
#include <type_traits>

#include <feedline/image/detail/image_memory.hpp>
#include <feedline/image/jpeg_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// libjpeg's memory manager with its per-image memory replaced: libjpeg's own manager allocates dozens of
/// blocks for each image and frees them afterwards, this one keeps its memory. The codec itself, and the
/// arrays that hold a whole progressive image, stay with libjpeg's own manager. libjpeg keeps tables for the
/// next image; here they belong to one image, so the decoder must clear them before it starts the next.
///
/// libjpeg's functions look for their manager in the codec, so by_own() sets the codec's manager to libjpeg's
/// own while they run.
class jpeg_memory : public jpeg_memory_mgr {
 public:
  jpeg_memory() noexcept : jpeg_memory_mgr{} {}

  jpeg_memory(const jpeg_memory&) = delete;
  jpeg_memory& operator=(const jpeg_memory&) = delete;

  /// Replaces the manager of a codec that was just created.
  void manage(jpeg_decompress_struct& state) noexcept;

  /// Call it after an error, which may have jumped out of a function of libjpeg's own manager.
  void resume(jpeg_decompress_struct& state) noexcept {
    if (state.mem) state.mem = this;
  }

 private:
  // Calls a function of libjpeg's own manager, which is the codec's manager during the call. An error may jump
  // out of the call, so nothing here has a destructor.
  template <auto Function, class... Arguments>
  static auto by_own(j_common_ptr codec, Arguments... arguments) noexcept {
    jpeg_memory* const mine = &of(codec);
    mine->own_->max_memory_to_use = mine->max_memory_to_use;
    codec->mem = mine->own_;
    const auto call = [&] { return (mine->own_->*Function)(codec, arguments...); };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      codec->mem = mine;
    } else {
      const auto result = call();
      codec->mem = mine;
      return result;
    }
  }

  static jpeg_memory& of(j_common_ptr codec) noexcept { return static_cast<jpeg_memory&>(*codec->mem); }

  // libjpeg calls it, so it reports errors without an exception.
  void* take(j_common_ptr codec, std::size_t bytes) noexcept;

  // Rows of `width` elements, each padded to a whole number of vectors.
  template <class Element>
  Element** array(j_common_ptr codec, std::size_t width, std::size_t rows) noexcept {
    const std::size_t pitch = image_memory::rounded(width * sizeof(Element));
    auto** const pointers = static_cast<Element**>(take(codec, rows * sizeof(Element*)));
    auto* const elements = static_cast<std::byte*>(take(codec, rows * pitch + image_memory::step));
    for (std::size_t i = 0; i < rows; ++i) pointers[i] = reinterpret_cast<Element*>(elements + i * pitch);
    return pointers;
  }

  jpeg_memory_mgr* own_ = nullptr;
  image_memory memory_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void jpeg_memory::manage(jpeg_decompress_struct& state) noexcept {
  own_ = state.mem;
  static_cast<jpeg_memory_mgr&>(*this) = *own_;
  alloc_small =
      alloc_large = [](j_common_ptr codec, int, std::size_t bytes) { return of(codec).take(codec, bytes); };
  alloc_sarray = [](j_common_ptr codec, int pool, JDIMENSION width, JDIMENSION rows) {
    if (pool == JPOOL_IMAGE) return of(codec).array<JSAMPLE>(codec, width, rows);
    return by_own<&jpeg_memory_mgr::alloc_sarray>(codec, pool, width, rows);
  };
  alloc_barray = [](j_common_ptr codec, int pool, JDIMENSION width, JDIMENSION rows) {
    if (pool == JPOOL_IMAGE) return of(codec).array<JBLOCK>(codec, width, rows);
    return by_own<&jpeg_memory_mgr::alloc_barray>(codec, pool, width, rows);
  };
  request_virt_sarray = [](auto... a) { return by_own<&jpeg_memory_mgr::request_virt_sarray>(a...); };
  request_virt_barray = [](auto... a) { return by_own<&jpeg_memory_mgr::request_virt_barray>(a...); };
  realize_virt_arrays = [](auto... a) { return by_own<&jpeg_memory_mgr::realize_virt_arrays>(a...); };
  access_virt_sarray = [](auto... a) { return by_own<&jpeg_memory_mgr::access_virt_sarray>(a...); };
  access_virt_barray = [](auto... a) { return by_own<&jpeg_memory_mgr::access_virt_barray>(a...); };
  free_pool = [](j_common_ptr codec, int pool) {
    if (pool == JPOOL_IMAGE) of(codec).memory_.free_all();
    by_own<&jpeg_memory_mgr::free_pool>(codec, pool);
  };
  self_destruct = [](j_common_ptr codec) {
    codec->mem = of(codec).own_;
    codec->mem->self_destruct(codec);
  };
  state.mem = this;
}

FEEDLINE_INLINE void* jpeg_memory::take(j_common_ptr codec, std::size_t bytes) noexcept {
  const auto limit = static_cast<std::size_t>(max_memory_to_use);
  if (max_memory_to_use > 0 && (bytes > limit || memory_.taken() + image_memory::rounded(bytes) > limit))
    libjpeg_errors::of(codec).fail(
        "The image needs more memory than jpeg_options::max_pixels allows; raise it to decode the image");
  void* const block = memory_.take(bytes);
  if (!block) libjpeg_errors::of(codec).fail("There is no memory left");
  return block;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
