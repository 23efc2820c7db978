#include "ops/cuda/cuda_ops.h"

#include "ops/cuda/produced_choose.h"

namespace viaduct {

OpTable cuda_ops(CudaTarget target) {
  OpTable table;
  table.traits.name = "cuda:" + std::string(cuda_target_name(target));
  table.traits.vector_floats = 4;  // a thread's widest access, 16 bytes
  table.traits.matrix_bf16 = true;
  table.traits.block_memory_bytes = cuda_block_memory_bytes(target);
  table.traits.head_chunk_bytes = int64_t{1} << 30;  // a GPU makes 300 operations a byte, a cpu 20
  table.produced_forms = cuda::produced_forms;
  cuda::add_gemm(table, target);
  cuda::add_attention(table);
  cuda::add_composed(table);
  cuda::add_rows(table);
  cuda::add_elementwise(table);
  cuda::add_experts(table);
  cuda::add_grouped_gemm(table, target);
  cuda::add_quantize(table);
  cuda::add_quantization_error(table);
  cuda::add_optimizer(table);
  return table;
}

}  // namespace viaduct
