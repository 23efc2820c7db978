#include "ops/checks.h"

#include <algorithm>
#include <string>

namespace viaduct {

void check_shape(std::string_view op, std::string_view argument, const Tensor& tensor,
                 const Shape& shape) {
  VIADUCT_CHECK(ShapeError, tensor.defined() && tensor.shape() == shape,
                "{}: expected {} of shape {}, got {}", op, argument, to_string(shape),
                describe(tensor));
}

void check_rank(std::string_view op, std::string_view argument, const Tensor& tensor, int rank) {
  VIADUCT_CHECK(ShapeError, tensor.defined() && tensor.rank() == rank,
                "{}: expected {} of rank {}, got {}", op, argument, rank, describe(tensor));
}

void check_dtype(std::string_view op, std::string_view argument, const Tensor& tensor,
                 std::initializer_list<DType> dtypes) {
  if (tensor.defined() && std::find(dtypes.begin(), dtypes.end(), tensor.dtype()) != dtypes.end())
    return;
  std::string names;
  for (DType dtype : dtypes) {
    if (!names.empty()) names += " or ";
    names += dtype_name(dtype);
  }
  fail<ShapeError>("{}: expected {} of dtype {}, got {}", op, argument, names, describe(tensor));
}

void check_floating(std::string_view op, std::string_view argument, const Tensor& tensor) {
  VIADUCT_CHECK(ShapeError, tensor.defined() && is_floating(tensor.dtype()),
                "{}: expected a floating {}, got {}", op, argument, describe(tensor));
}

void check_dense_rows(std::string_view op, std::string_view argument, const Tensor& tensor) {
  VIADUCT_CHECK(
      ShapeError,
      tensor.defined() && (tensor.rank() == 0 || tensor.dim(-1) <= 1 || tensor.stride(-1) == 1),
      "{}: expected {} with dense rows, got {} with stride {} between elements of a row", op,
      argument, describe(tensor), tensor.rank() > 0 ? tensor.stride(-1) : 0);
}

void check_contiguous(std::string_view op, std::string_view argument, const Tensor& tensor) {
  VIADUCT_CHECK(ShapeError, tensor.defined() && tensor.is_contiguous(),
                "{}: expected {} contiguous, got {} with gaps between its rows", op, argument,
                describe(tensor));
}

}  // namespace viaduct
