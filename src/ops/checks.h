#pragma once
// Checks common to the contracts of ops. Each throws ShapeError with the op, the argument, what was
// expected and what was found.

#include <initializer_list>
#include <string_view>

#include "base/error.h"
#include "tensor/tensor.h"

namespace viaduct {

/// `tensor` is defined and has `shape`.
void check_shape(std::string_view op, std::string_view argument, const Tensor& tensor,
                 const Shape& shape);
/// `tensor` is defined and has `rank` dims.
void check_rank(std::string_view op, std::string_view argument, const Tensor& tensor, int rank);
/// `tensor` is defined and has one of `dtypes`.
void check_dtype(std::string_view op, std::string_view argument, const Tensor& tensor,
                 std::initializer_list<DType> dtypes);
/// `tensor` is floating.
void check_floating(std::string_view op, std::string_view argument, const Tensor& tensor);
/// Elements of the innermost dim are contiguous in memory.
void check_dense_rows(std::string_view op, std::string_view argument, const Tensor& tensor);
void check_contiguous(std::string_view op, std::string_view argument, const Tensor& tensor);

/// f64 if `dtype` is f64, else f32: the dtype of sums and statistics.
inline DType accumulator_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace viaduct
