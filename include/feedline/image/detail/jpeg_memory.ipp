// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/jpeg_memory.hpp>

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
