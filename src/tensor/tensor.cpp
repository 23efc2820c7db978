#include "tensor/tensor.h"

#include <cstdlib>
#include <new>
#include <utility>

#include "base/error.h"

namespace viaduct {
namespace {

std::array<int64_t, Shape::kMaxRank> dense_strides(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= shape[i];
  }
  return strides;
}

}  // namespace

Storage::Storage(void* data, int64_t bytes, std::function<void(Storage&)> release)
    : data_(data), bytes_(bytes), release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) release_(*this);
}

Tensor::Tensor(std::shared_ptr<Storage> storage, DType dtype, Shape shape, int64_t offset_bytes)
    : storage_(std::move(storage)),
      dtype_(dtype),
      shape_(shape),
      strides_(dense_strides(shape)),
      offset_bytes_(offset_bytes) {
  VIADUCT_CHECK(
      ShapeError,
      storage_ != nullptr && offset_bytes >= 0 && offset_bytes + bytes() <= storage_->bytes(),
      "tensor {} {} at byte {} does not fit its storage", dtype_name(dtype), to_string(shape_),
      offset_bytes);
}

int64_t Tensor::stride(int dim) const {
  shape_.dim(dim);  // checks the range
  return strides_[static_cast<size_t>(dim < 0 ? dim + rank() : dim)];
}

bool Tensor::is_contiguous() const {
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[static_cast<size_t>(i)] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

void* Tensor::raw() const {
  if (!storage_ || storage_->data() == nullptr) return nullptr;
  return static_cast<std::byte*>(storage_->data()) + offset_bytes_;
}

void Tensor::check_dtype(DType wanted) const {
  VIADUCT_CHECK(ShapeError, dtype_ == wanted, "tensor {} read as {}", describe(*this),
                dtype_name(wanted));
}

Tensor Tensor::in_storage(std::shared_ptr<Storage> storage) const {
  VIADUCT_CHECK(ShapeError, defined() && storage->bytes() >= storage_->bytes(),
                "{} in a block of {} bytes: expected one of {}", describe(*this), storage->bytes(),
                defined() ? storage_->bytes() : 0);
  Tensor result = *this;
  result.storage_ = std::move(storage);
  return result;
}

Tensor Tensor::slice(int dim, int64_t begin, int64_t length) const {
  const int64_t size = this->dim(dim);
  const int index = dim < 0 ? dim + rank() : dim;
  VIADUCT_CHECK(ShapeError, begin >= 0 && length >= 0 && begin + length <= size,
                "slice [{}, {}) of dim {} of {}: out of range", begin, begin + length, index,
                describe(*this));
  Tensor result = *this;
  result.shape_[index] = length;
  result.offset_bytes_ += begin * strides_[static_cast<size_t>(index)] * dtype_bytes(dtype_);
  return result;
}

Tensor Tensor::select(int64_t index) const {
  Tensor result = slice(0, index, 1);
  result.shape_ = shape_.without_first();
  for (int i = 0; i < result.rank(); ++i)
    result.strides_[static_cast<size_t>(i)] = strides_[static_cast<size_t>(i) + 1];
  return result;
}

Tensor Tensor::transposed(int dim_a, int dim_b) const {
  shape_.dim(dim_a), shape_.dim(dim_b);  // checks the range
  const int a = dim_a < 0 ? dim_a + rank() : dim_a, b = dim_b < 0 ? dim_b + rank() : dim_b;
  Tensor result = *this;
  std::swap(result.shape_[a], result.shape_[b]);
  std::swap(result.strides_[static_cast<size_t>(a)], result.strides_[static_cast<size_t>(b)]);
  return result;
}

Tensor Tensor::view(const Shape& shape) const {
  VIADUCT_CHECK(ShapeError, shape.elements() == elements(),
                "cannot view {} as {}: {} elements against {}", describe(*this), to_string(shape),
                elements(), shape.elements());
  Tensor result = *this;
  result.shape_ = shape;
  if (elements() == 0) {
    result.strides_ = dense_strides(shape);
    return result;
  }
  // Walk both shapes from the innermost dim: every dense run of old dims may be split again.
  int source = rank() - 1, target = shape.rank() - 1;
  while (source >= 0 || target >= 0) {
    int64_t source_size = source >= 0 ? shape_[source] : 1;
    const int64_t inner = source >= 0 ? strides_[static_cast<size_t>(source)] : 1;
    int64_t target_size = 1, stride = inner;
    if (target >= 0) {
      target_size = shape[target];
      result.strides_[static_cast<size_t>(target--)] = stride;
    }
    --source;
    while (source_size != target_size) {
      if (source_size < target_size) {
        const bool dense =
            source >= 0 && (source_size == 1 || shape_[source] == 1 ||
                            strides_[static_cast<size_t>(source)] == inner * source_size);
        VIADUCT_CHECK(ShapeError, dense, "cannot view {} as {}: its rows are not dense",
                      describe(*this), to_string(shape));
        source_size *= shape_[source--];
      } else {
        result.strides_[static_cast<size_t>(target)] = inner * target_size;
        target_size *= shape[target--];
      }
    }
  }
  return result;
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  return fmt::format("{} {}", dtype_name(tensor.dtype()), to_string(tensor.shape()));
}

Tensor host_tensor(DType dtype, const Shape& shape) {
  const int64_t bytes = shape.elements() * dtype_bytes(dtype);
  void* data = std::calloc(1, static_cast<size_t>(bytes > 0 ? bytes : 1));
  if (data == nullptr) throw std::bad_alloc();
  auto storage = std::make_shared<Storage>(data, bytes, [](Storage& s) { std::free(s.data()); });
  return Tensor(std::move(storage), dtype, shape);
}

}  // namespace viaduct
