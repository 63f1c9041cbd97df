// SPDX-License-Identifier: MIT
#pragma once
// bfloat16 tensors, which NumPy lacks, for other libraries by DLPack (version 0, https://dmlc.github.io/dlpack).
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <feedline/core/half.hpp>
#include <feedline/core/tensor.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

namespace py = pybind11;

// DLPack's structures, of which other libraries read the members.
struct dl_device {
  std::int32_t type = 1; // the processor's memory
  std::int32_t id = 0;
};

struct dl_type {
  std::uint8_t code = 4; // bfloat
  std::uint8_t bits = 16;
  std::uint16_t lanes = 1;
};

struct dl_tensor {
  void* data = nullptr;
  dl_device device{};
  std::int32_t rank = 0;
  dl_type type{};
  std::int64_t* extents = nullptr;
  std::int64_t* strides = nullptr; // null: the innermost dimension is contiguous
  std::uint64_t offset = 0;
};

struct dl_managed_tensor {
  dl_tensor tensor{};
  void* context = nullptr;
  void (*deleter)(dl_managed_tensor*) = nullptr;
};

/// A NumPy array of such elements, in memory that `owner` has.
template <class T>
py::array array_over(const py::dtype& type, const std::vector<std::int64_t>& extents, T* data,
                     const py::object& owner) {
  // pybind11 before 2.12 would take an element's size from where NumPy 2 no longer has it.
  std::vector<py::ssize_t> strides(extents.size());
  py::ssize_t stride = sizeof(T);
  for (std::size_t i = extents.size(); i-- > 0; stride *= extents[i]) strides[i] = stride;
  static T none[1]; // without memory NumPy would allocate some
  return py::array(type, extents, strides, data ? data : none, owner);
}

/// A view of a bfloat16 tensor that `owner` has.
class [[gnu::visibility("hidden")]] bfloat16_tensor {
 public:
  bfloat16_tensor(py::object owner, bfloat16* data, const shape& s)
      : owner_(std::move(owner)), data_(data), extents_(s.begin(), s.end()) {}

  /// A capsule with a DLManagedTensor, which torch.from_dlpack and jax.dlpack take.
  py::capsule dlpack() const {
    struct exported {
      dl_managed_tensor managed{};
      std::vector<std::int64_t> extents;
      py::object owner;
    };

    auto e = std::make_unique<exported>();
    e->extents = extents_;
    e->owner = owner_;
    e->managed.tensor.data = data_;
    e->managed.tensor.rank = static_cast<std::int32_t>(extents_.size());
    e->managed.tensor.extents = e->extents.data();
    e->managed.context = e.get();
    e->managed.deleter = [](dl_managed_tensor* used) {
      if (!Py_IsInitialized()) return;   // the process ends
      const py::gil_scoped_acquire lock; // any thread may drop it
      delete static_cast<exported*>(used->context);
    };
    // A consumer renames the capsule and calls the deleter when it is done.
    const py::capsule capsule(&e->managed, "dltensor", [](PyObject* object) {
      if (!PyCapsule_IsValid(object, "dltensor")) return;
      auto* const unused = static_cast<dl_managed_tensor*>(PyCapsule_GetPointer(object, "dltensor"));
      unused->deleter(unused);
    });
    static_cast<void>(e.release());
    return capsule;
  }

  /// DLPack's number of the kind of memory, and the device's number.
  static std::pair<int, int> dlpack_device() { return {dl_device().type, dl_device().id}; }

  py::tuple shape() const { return py::tuple(py::cast(extents_)); }

  /// The bits as an array of uint16, which shares the memory.
  py::array bits() const { return array_over(py::dtype::of<std::uint16_t>(), extents_, data_, owner_); }

 private:
  py::object owner_;
  bfloat16* data_;
  std::vector<std::int64_t> extents_;
};

inline void bind_bfloat16_tensor(py::module_& m) {
  if (py::detail::get_local_type_info(typeid(bfloat16_tensor))) return; // by an earlier loader of this module
  py::class_<bfloat16_tensor>(
      m, "Bfloat16Tensor", py::module_local(),
      "A tensor of bfloat16 numbers, which NumPy lacks: torch.from_dlpack(tensor) shares its memory.")
      .def(
          "__dlpack__",
          [](const bfloat16_tensor& t, const py::object&, const py::kwargs& later) {
            if (later.contains("copy") && py::bool_(later["copy"]))
              throw py::buffer_error("the memory is shared, not copied");
            return t.dlpack();
          },
          py::arg("stream") = py::none()) // newer versions of DLPack may ask for more
      .def("__dlpack_device__", [](const bfloat16_tensor&) { return bfloat16_tensor::dlpack_device(); })
      .def_property_readonly("shape", &bfloat16_tensor::shape)
      .def_property_readonly("bits", &bfloat16_tensor::bits,
                             "The bits as a NumPy array of uint16 that shares the memory.");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
