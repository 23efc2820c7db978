#pragma once
// Quantized products of experts on the cpu: the operands of one expert at a time are made in the
// workspace, and then multiplied as any quantized product is (gemm_quantized.h).

#include "base/thread_pool.h"
#include "hardware/cpu_isa.h"
#include "ops/grouped_gemm.h"

namespace viaduct::cpu {

bool is_quantized_product(const GroupedGemmArgs& args);

/// The product of an expert with `rows` rows whose operands begin at `memory`: null for choices,
/// which read no values.
GemmArgs placed_product(const GroupedGemmArgs& args, int64_t rows, std::byte* memory);

/// The bytes of its operands, and of the workspace for their conversion.
int64_t placed_bytes(const GroupedGemmArgs& args, int64_t rows);

/// The product of expert `index`, which has the rows [begin, end), with its operands made at
/// `memory`.
GemmArgs make_product(ThreadPool& pool, const GroupedGemmArgs& args, int64_t index, int64_t begin,
                      int64_t end, std::byte* memory, CpuIsa isa);

}  // namespace viaduct::cpu
