#pragma once
// Checks that the contracts of ops share. Each throws ShapeError naming the op, the argument, what
// was expected and what was found.

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
/// Neighbours along the innermost dim are neighbours in memory.
void check_dense_rows(std::string_view op, std::string_view argument, const Tensor& tensor);
void check_contiguous(std::string_view op, std::string_view argument, const Tensor& tensor);

/// f64 where `dtype` is f64, else f32: what sums and statistics are kept in.
inline DType accumulator_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace viaduct
