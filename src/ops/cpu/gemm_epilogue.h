#pragma once
// The way of a block of a product from FP32 sums to memory: bias, rounding and the epilogue of the
// contract. An epilogue runs the row kernels of the ops that it stands for on rows that are rounded
// but still in the first-level cache: bits are those of these ops.

#include "ops/cpu/activation_rows.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/elementwise_entry.h"
#include "ops/cpu/gemm_entry.h"
#include "ops/gemm.h"

namespace viaduct::cpu {

struct FinishKernels {
  const GemmKernels& gemm;
  const ActivationKernels& activation;
  const ElementwiseKernels& elementwise;
};

/// Those that the ops of an instruction set run for results of `dtype`.
FinishKernels finish_kernels(CpuIsa isa, DType dtype);

/// Sums of a block of a product, at (row, column) of it.
struct GemmBlock {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;  // with a gated activation: of the gate
  const float* sums = nullptr;
  const float* up_sums = nullptr;  // gated activation alone: what the columns of the gate multiply
  int64_t stride = 0;              // elements between rows of sums
};

/// Asks for what the epilogue of a block reads, so that it arrives while products go on.
void fetch_block(const GemmArgs& args, const GemmBlock& block);

void finish_block(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block);

/// A forward whose blocks need a gate's columns and those that it multiplies.
inline bool gates_columns(const GemmArgs& args) {
  return args.epilogue.activated && args.epilogue.gated;
}

/// What an epilogue adds to the cost of a product.
void add_epilogue_cost(const GemmArgs& args, Choice& choice);

}  // namespace viaduct::cpu
