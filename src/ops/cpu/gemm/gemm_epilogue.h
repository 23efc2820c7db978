#pragma once
// From the FP32 sums of a block to memory: bias, rounding and the epilogue of the contract. An
// epilogue runs the row kernels of the ops that it replaces on rows that are rounded but still in
// the L1 cache: the bits are those of these ops.

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/gemm/gemm_kernels.h"
#include "ops/cpu/gemm/produced_rows.h"
#include "ops/cpu/rows/activation_kernels.h"
#include "ops/cpu/rows/elementwise_kernels.h"
#include "ops/gemm.h"

namespace viaduct::cpu {

struct FinishKernels {
  const GemmKernels& gemm;
  const ActivationKernels& activation;
  const ElementwiseKernels& elementwise;
  FormKernels forms;
};

/// The kernels that the ops of an instruction set run for results of `dtype`.
FinishKernels finish_kernels(CpuIsa isa, DType dtype);

/// Sums of the block of a product at (row, column).
struct GemmBlock {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;  // with a gated activation: of the gate
  float* sums = nullptr;
  float* up_sums = nullptr;  // gated activation: the factors of the gate's columns
  int64_t stride = 0;        // elements between rows of sums
  float factor = 1;          // what the sums are multiplied by first
  bool streamed = false;     // results go to memory past the caches
};

/// Prefetches the inputs of a block's epilogue while products run.
void fetch_block(const GemmArgs& args, const GemmBlock& block);

void finish_block(const GemmArgs& args, const FinishKernels& kernels, const GemmBlock& block);

/// Whether it is a forward whose blocks need a gate's columns and the columns that these multiply.
inline bool gates_columns(const GemmArgs& args) {
  return args.epilogue.activated && args.epilogue.gated;
}

}  // namespace viaduct::cpu
