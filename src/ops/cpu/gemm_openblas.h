#pragma once
// Matrix products of linear layers in FP32 blocks of OpenBLAS, for instruction sets without tiles
// of our own. The result is cut into blocks of one grid that starts at 0 and depends on the shape
// alone; a task is one block. A block is always computed with the same three sizes of product
// (edges are padded with zeros in scratch memory), so an element's order of summation depends on
// the contracted size alone, never on where it lies or on the number of threads. Operands of 16
// bits are widened piece by piece into the same scratch.

#include "base/thread_pool.h"
#include "ops/cpu/gemm_epilogue.h"
#include "ops/gemm.h"

namespace viaduct::cpu {

/// a, b FP32, BF16 or FP16; c and bias of that dtype or FP32. A gated activation follows the whole
/// product: a block has not both of a gate's columns and those that it multiplies.
void gemm_on_openblas(ThreadPool& pool, const GemmArgs& args, const FinishKernels& kernels);

}  // namespace viaduct::cpu
