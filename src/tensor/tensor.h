#pragma once
// `Tensor`: a view of part of a storage with dtype, shape and strides. `Storage`: memory of some
// device, shared by views.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace viaduct {

/// A block of memory. `data` is null if nothing is stored (the sim device). The last view frees it
/// by `release`.
class Storage {
 public:
  Storage(void* data, int64_t bytes, std::function<void(Storage&)> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_;
  int64_t bytes_;
  std::function<void(Storage&)> release_;
};

/// A view. Copying a Tensor copies the view, never the elements; a const Tensor is a const view,
/// its elements may change. An undefined Tensor (default constructed) stands for "absent" in the
/// arguments of ops.
class Tensor {
 public:
  Tensor() = default;
  /// Contiguous view of the start of `storage`; ShapeError if it is too small.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, int64_t offset_bytes = 0);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  /// Size of a dim, negative counted from the end.
  int64_t dim(int dim) const { return shape_.dim(dim); }
  /// Elements between neighbours along a dim, negative counted from the end.
  int64_t stride(int dim) const;
  int64_t elements() const { return shape_.elements(); }
  /// Bytes of the viewed elements (not of the storage).
  int64_t bytes() const { return elements() * dtype_bytes(dtype_); }
  bool is_contiguous() const;
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  int64_t offset_bytes() const { return offset_bytes_; }

  /// Address of the first element, null on a device that stores nothing.
  void* raw() const;
  /// The same as T*; ShapeError if T is not the dtype.
  template <class T>
  T* data() const {
    check_dtype(dtype_of<T>);
    return static_cast<T*>(raw());
  }

  /// The elements [begin, begin + length) along `dim`.
  Tensor slice(int dim, int64_t begin, int64_t length) const;
  /// Element `index` along dim 0, without that dim.
  Tensor select(int64_t index) const;
  /// The same elements with two dims exchanged.
  Tensor transposed(int dim_a, int dim_b) const;
  /// The same elements in another shape. Dims may be split or merged where strides allow;
  /// ShapeError otherwise.
  Tensor view(const Shape& shape) const;
  /// The same view of another block; ShapeError if that block is too small.
  Tensor in_storage(std::shared_ptr<Storage> storage) const;

 private:
  void check_dtype(DType wanted) const;

  std::shared_ptr<Storage> storage_;
  DType dtype_ = DType::f32;
  Shape shape_;
  std::array<int64_t, Shape::kMaxRank> strides_{};
  int64_t offset_bytes_ = 0;
};

/// "bf16 [64, 512]", "nothing" if undefined: for messages.
std::string describe(const Tensor& tensor);

/// A tensor in ordinary host memory (zeroed): files, batches, test data.
Tensor host_tensor(DType dtype, const Shape& shape);

}  // namespace viaduct
