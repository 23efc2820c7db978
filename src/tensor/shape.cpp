#include "tensor/shape.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(dims.begin(), static_cast<int>(dims.size())) {}

Shape::Shape(const int64_t* dims, int rank) {
  for (int i = 0; i < rank; ++i) append(dims[i]);
}

void Shape::append(int64_t size) {
  VIADUCT_CHECK(ShapeError, rank_ < kMaxRank, "shape: more than {} dims", kMaxRank);
  VIADUCT_CHECK(ShapeError, size >= 0, "shape: negative size {} of dim {}", size, rank_);
  dims_[static_cast<size_t>(rank_++)] = size;
}

int64_t Shape::dim(int dim) const {
  const int index = dim < 0 ? dim + rank_ : dim;
  VIADUCT_CHECK(ShapeError, index >= 0 && index < rank_, "shape {}: no dim {}", to_string(*this),
                dim);
  return dims_[static_cast<size_t>(index)];
}

int64_t Shape::elements() const {
  int64_t count = 1;
  for (int64_t size : *this) count *= size;
  return count;
}

Shape Shape::without_first() const {
  VIADUCT_CHECK(ShapeError, rank_ > 0, "shape []: no first dim to drop");
  return Shape(dims_.data() + 1, rank_ - 1);
}

bool Shape::operator==(const Shape& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace viaduct
