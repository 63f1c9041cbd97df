// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/jpeg_memory.hpp>

#include <algorithm>
#include <utility>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void jpeg_memory::manage(jpeg_decompress_struct& state) noexcept {
  own_ = state.mem;
  static_cast<jpeg_memory_mgr&>(*this) = *own_;
  alloc_small =
      alloc_large = [](j_common_ptr codec, int, std::size_t bytes) { return of(codec).take(codec, bytes); };
  alloc_sarray = [](j_common_ptr codec, int pool, JDIMENSION width, JDIMENSION rows) {
    if (pool == JPOOL_IMAGE) return of(codec).array<JSAMPLE>(codec, width, rows);
    return by_own(codec, [=](jpeg_memory_mgr& own) { return own.alloc_sarray(codec, pool, width, rows); });
  };
  alloc_barray = [](j_common_ptr codec, int pool, JDIMENSION width, JDIMENSION rows) {
    if (pool == JPOOL_IMAGE) return of(codec).array<JBLOCK>(codec, width, rows);
    return by_own(codec, [=](jpeg_memory_mgr& own) { return own.alloc_barray(codec, pool, width, rows); });
  };
  request_virt_sarray = [](j_common_ptr codec, int pool, boolean zeroed, JDIMENSION width, JDIMENSION rows,
                           JDIMENSION at_once) {
    return by_own(codec, [=](jpeg_memory_mgr& own) {
      return own.request_virt_sarray(codec, pool, zeroed, width, rows, at_once);
    });
  };
  request_virt_barray = [](j_common_ptr codec, int pool, boolean zeroed, JDIMENSION width, JDIMENSION rows,
                           JDIMENSION at_once) {
    return by_own(codec, [=](jpeg_memory_mgr& own) {
      return own.request_virt_barray(codec, pool, zeroed, width, rows, at_once);
    });
  };
  realize_virt_arrays = [](j_common_ptr codec) {
    by_own(codec, [=](jpeg_memory_mgr& own) { own.realize_virt_arrays(codec); });
  };
  access_virt_sarray = [](j_common_ptr codec, jvirt_sarray_ptr array, JDIMENSION first, JDIMENSION count,
                          boolean written) {
    return by_own(codec, [=](jpeg_memory_mgr& own) {
      return own.access_virt_sarray(codec, array, first, count, written);
    });
  };
  access_virt_barray = [](j_common_ptr codec, jvirt_barray_ptr array, JDIMENSION first, JDIMENSION count,
                          boolean written) {
    return by_own(codec, [=](jpeg_memory_mgr& own) {
      return own.access_virt_barray(codec, array, first, count, written);
    });
  };
  free_pool = [](j_common_ptr codec, int pool) {
    if (pool == JPOOL_IMAGE) of(codec).free_all();
    by_own(codec, [=](jpeg_memory_mgr& own) { own.free_pool(codec, pool); });
  };
  self_destruct = [](j_common_ptr codec) {
    codec->mem = of(codec).own_;
    codec->mem->self_destruct(codec);
  };
  state.mem = this;
}

FEEDLINE_INLINE void* jpeg_memory::take(j_common_ptr codec, std::size_t wanted) noexcept {
  const std::size_t bytes = rounded(wanted);
  wanted_ += bytes;
  if (bytes < wanted || (max_memory_to_use > 0 && wanted_ > static_cast<std::size_t>(max_memory_to_use)))
    libjpeg_errors::of(codec).fail(
        "The image needs more memory than jpeg_options::max_pixels allows; raise it to decode the image");
  // The address sanitizer checks the ends of blocks, so with it each call allocates its own block.
  if (!is_address_sanitized && size_ - used_ >= bytes) {
    std::byte* const at = memory_ + used_;
    used_ += bytes;
    return at;
  }
  void* const block = ::operator new(bytes + step, alignment, std::nothrow);
  if (!block) libjpeg_errors::of(codec).fail("There is no memory left");
  extras_ = new (block) extra{extras_};
  return static_cast<std::byte*>(block) + step;
}

FEEDLINE_INLINE void jpeg_memory::free_all() noexcept {
  while (extras_) ::operator delete(std::exchange(extras_, extras_->next), alignment);
  const std::size_t needed = std::min(std::exchange(wanted_, 0), most_kept);
  used_ = 0;
  if (needed <= size_) return;
  ::operator delete(memory_, alignment);
  memory_ = static_cast<std::byte*>(::operator new(needed + needed / 4, alignment, std::nothrow));
  size_ = memory_ ? needed + needed / 4 : 0;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
