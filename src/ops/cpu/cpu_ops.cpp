#include "ops/cpu/cpu_ops.h"

#include "base/error.h"

namespace viaduct {

OpTable cpu_ops(CpuIsa isa, bool for_simulation) {
  VIADUCT_CHECK(
      DeviceError, for_simulation || cpu_supports(isa),
      "dist.cpu_isa={}: this machine, or this build, cannot run it; the fastest here is {}",
      cpu_isa_name(isa), cpu_isa_name(best_cpu_isa()));
  OpTable table;
  table.traits.name = "cpu:" + std::string(cpu_isa_name(isa));
  table.traits.vector_floats = isa <= CpuIsa::avx2 ? 8 : 16;
  table.traits.matrix_bf16 = isa == CpuIsa::amx;
  cpu::add_gemm(table, isa);
  cpu::add_largest_magnitude(table, isa);
  cpu::add_quantization_error(table, isa);
  cpu::add_square_codes(table, isa);
  cpu::add_nf4(table, isa);
  cpu::add_dequantize_blocks(table);
  cpu::add_amax_history(table, isa);
  cpu::add_norm(table, isa);
  cpu::add_activation(table, isa);
  cpu::add_xielu(table, isa);
  cpu::add_rotary(table, isa);
  cpu::add_attention(table, isa);
  cpu::add_attention_sink(table, isa);
  cpu::add_heads(table, isa);
  cpu::add_bias(table, isa);
  cpu::add_score_matrix(table, isa);
  cpu::add_relative_bias(table, isa);
  cpu::add_embedding(table, isa);
  cpu::add_cross_entropy(table, isa);
  cpu::add_softmax(table, isa);
  cpu::add_elementwise(table, isa);
  cpu::add_optimizer(table, isa);
  cpu::add_optimizer_state(table, isa);
  cpu::add_muon(table, isa);
  cpu::add_routing(table, isa);
  cpu::add_router_extras(table);
  cpu::add_sinkhorn(table);
  cpu::add_load_quantile(table);
  cpu::add_expert_rows(table, isa);
  cpu::add_grouped_gemm(table, isa);
  cpu::add_expert_bias(table, isa);
  return table;
}

}  // namespace viaduct
