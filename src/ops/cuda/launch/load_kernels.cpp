#include "ops/cuda/launch/load_kernels.h"

#include "device/cuda/load_modules.h"

/// The files of kernels, without ".cu".
#define VIADUCT_KERNEL_FILES(X) \
  X(activation)                 \
  X(adafactor_sums)             \
  X(adafactor_update)           \
  X(adamw)                      \
  X(adamw_coded)                \
  X(attention_backward_keys)    \
  X(attention_backward_queries) \
  X(attention_forward)          \
  X(attention_rows)             \
  X(binned_sum)                 \
  X(column_sums)                \
  X(cross_entropy)              \
  X(elementwise)                \
  X(embedding)                  \
  X(expand)                     \
  X(expert_limit)               \
  X(expert_order)               \
  X(expert_rows)                \
  X(grouped_code_warpgroups)    \
  X(grouped_codes)              \
  X(grouped_gemm)               \
  X(grouped_warpgroups)         \
  X(load_bias)                  \
  X(load_quantile)              \
  X(magnitudes)                 \
  X(momentum)                   \
  X(muon)                       \
  X(norm_backward)              \
  X(norm_forward)               \
  X(nvfp4)                      \
  X(optimizer_state)            \
  X(product_operands)           \
  X(quantization_error)         \
  X(quantize)                   \
  X(quantize_tiles)             \
  X(random_normal)              \
  X(random_uniform)             \
  X(rotary)                     \
  X(route)                      \
  X(route_backward)             \
  X(score_bias)                 \
  X(score_product)              \
  X(score_product_mma)          \
  X(score_rows)                 \
  X(sinkhorn)                   \
  X(softmax_rows)               \
  X(sort_tokens)                \
  X(square_codes)               \
  X(strided_copy)               \
  X(xielu)

namespace viaduct::cuda {

#define VIADUCT_DECLARE_FILE(name) const void* kernels_of_##name();
VIADUCT_KERNEL_FILES(VIADUCT_DECLARE_FILE)
#undef VIADUCT_DECLARE_FILE

void load_kernels() {
#define VIADUCT_ADD_FILE(name) kernels_of_##name(),
  load_modules({VIADUCT_KERNEL_FILES(VIADUCT_ADD_FILE)});
#undef VIADUCT_ADD_FILE
}

}  // namespace viaduct::cuda
