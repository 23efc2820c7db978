#pragma once
// What ops cost by their contracts, whatever the backend: the operations of the formula, in the
// format in which vector units compute the dtype (FP32, FP64 for f64), and the bytes of each
// operand once. A backend's `choose` starts from these and adds what its kernels do beyond them.

#include "ops/op_list.h"

namespace viaduct {

/// 0 if undefined.
inline int64_t bytes_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.bytes() : 0;
}

/// Adds operations in the format that vector units compute `dtype` in.
void add_vector_flops(Cost& cost, DType dtype, double flops);
/// Moves the operations of FP32 to another format: that of matrix units.
void move_flops(Cost& cost, FlopFormat to);

/// Of each op of the list whose cost is the same for every backend; of the others each backend's
/// `choose` has its own.
#define VIADUCT_DECLARE_COST(name, Args, gpu) Cost cost_of(const Args& args);
VIADUCT_OPS(VIADUCT_DECLARE_COST)
#undef VIADUCT_DECLARE_COST

/// Of a product's epilogue, which `cost_of` the product leaves out.
Cost epilogue_cost(const GemmArgs& args);

}  // namespace viaduct
