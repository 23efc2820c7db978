#pragma once
// The table of ops of a GPU: for each op the kernel, launches, workspace and cost. The choices read
// only shapes and dtypes and include no CUDA header, so they are compiled everywhere and a dry run
// for a GPU needs none. Launches are in a library of their own (launch/cuda_launches.h); in this
// table, and for ops that have none yet, a device that executes gets a DeviceError.
//
// Properties of the kernels that a choice depends on:
//   - Products are cuBLASLt's, with a fixed workspace. Its epilogues do not round the product first
//     and so differ from two ops, so an activation or a residual is a second launch.
//   - Norms and activations make FP8 codes and largest magnitudes of their results in the kernel
//     that makes these (produced_choose.h).
//   - Sums over rows (norm weights, biases) are computed in parts whose number depends only on the
//   shape, and a second launch adds the parts in order: deterministic without atomics.
//   - Attention is flash attention on mma.sync. Its backward is two kernels, one for dq and one for
//     dk and dv, each with the scores computed again: deterministic, without a workspace for dq.

#include "hardware/cuda_target.h"
#include "ops/table.h"

namespace viaduct {

OpTable cuda_ops(CudaTarget target);

namespace cuda {
// What each family adds to the table.
void add_gemm(OpTable& table, CudaTarget target);  // gemm, column_sum, bias_add
void add_attention(OpTable& table);
void add_composed(OpTable& table);     // score matrices, steps of softmax cross entropy
void add_rows(OpTable& table);         // norm, activation, rotary, embedding, cross entropy
void add_elementwise(OpTable& table);  // add, multiply, copy, scale, fill, …
void add_quantize(OpTable& table);     // FP8 operands, magnitudes, delayed scaling
void add_quantization_error(OpTable& table);
void add_optimizer(OpTable& table);  // reproducible sums, gradient norm, updates, formats
void add_experts(OpTable& table);    // routing, order of rows
void add_grouped_gemm(OpTable& table, CudaTarget target);  // products of experts
}  // namespace cuda

}  // namespace viaduct
