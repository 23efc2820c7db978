#pragma once
// The launch halves of a GPU's ops. The library that has them (viaduct_cuda) is built by nvcc; the
// emulator of tests/cuda_host has the same sources.

#include "ops/cuda/cuda_ops.h"

namespace viaduct {

/// `cuda_ops` with the launches that exist; others stay as there. Tensors are in device memory.
OpTable cuda_ops_with_launches(CudaTarget target);

namespace cuda {
void add_elementwise_launches(OpTable& table);
void add_gemm_launches(OpTable& table);
void add_grouped_gemm_launches(OpTable& table);
void add_attention_launches(OpTable& table);
void add_composed_launches(OpTable& table);
void add_row_launches(OpTable& table);
void add_embedding_launches(OpTable& table);
void add_expert_launches(OpTable& table);
void add_quantize_launches(OpTable& table);
void add_quantization_error_launches(OpTable& table);
void add_optimizer_launches(OpTable& table);
void add_sum_launches(OpTable& table);
void add_momentum_launches(OpTable& table);
void add_adafactor_launches(OpTable& table);
void add_routing_launches(OpTable& table);
void add_expert_order_launches(OpTable& table);
}  // namespace cuda

}  // namespace viaduct
