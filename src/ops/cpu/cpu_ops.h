#pragma once
// The table of ops of the cpu device for an instruction set. Families fill their entries (one
// function each, defined in NAME_choose.cpp); `cpu_ops` (cpu_ops.cpp) puts them together.

#include <vector>

#include "base/function_ref.h"
#include "hardware/cpu_isa.h"
#include "ops/table.h"

namespace viaduct {

/// The instruction sets whose kernels this machine can run, the fastest last: with products of BF16
/// in mind, which are what steps of BF16 wait for.
std::vector<CpuIsa> cpu_isas_by_speed();
/// The last of them.
CpuIsa best_cpu_isa();
/// Whether this machine can run kernels of `isa`: its CPU executes them, and tile registers are
/// granted and compute right.
bool cpu_supports(CpuIsa isa);

/// The table for `isa`; DeviceError if this machine cannot run it and `for_simulation` is false.
OpTable cpu_ops(CpuIsa isa, bool for_simulation = false);

namespace cpu {
/// Of a CPU with these features; `usable` says which it can run.
std::vector<CpuIsa> by_speed(const CpuFeatures& features, FunctionRef<bool(CpuIsa)> usable);

// What each family adds to the table.
void add_gemm(OpTable& table, CpuIsa isa);  // gemm, column_sum
void add_largest_magnitude(OpTable& table, CpuIsa isa);
void add_quantization_error(OpTable& table, CpuIsa isa);
void add_square_codes(OpTable& table, CpuIsa isa);  // of parts of NVFP4 weights
void add_nf4(OpTable& table, CpuIsa isa);
void add_dequantize_blocks(OpTable& table);
void add_amax_history(OpTable& table, CpuIsa isa);
void add_norm(OpTable& table, CpuIsa isa);
void add_activation(OpTable& table, CpuIsa isa);
void add_xielu(OpTable& table, CpuIsa isa);
void add_rotary(OpTable& table, CpuIsa isa);
void add_attention(OpTable& table, CpuIsa isa);  // forward, delta, backward, merge
void add_attention_sink(OpTable& table, CpuIsa isa);
void add_heads(OpTable& table, CpuIsa isa);          // what all heads of a token share
void add_score_matrix(OpTable& table, CpuIsa isa);   // attention composed of ops
void add_relative_bias(OpTable& table, CpuIsa isa);  // … and the bias of its scores
void add_bias(OpTable& table, CpuIsa isa);
void add_embedding(OpTable& table, CpuIsa isa);
void add_cross_entropy(OpTable& table, CpuIsa isa);
void add_softmax(OpTable& table, CpuIsa isa);          // its steps, one op each
void add_elementwise(OpTable& table, CpuIsa isa);      // add, multiply, copy, scale, fill, …
void add_optimizer(OpTable& table, CpuIsa isa);        // reproducible sums, gradient norm, adamw
void add_optimizer_state(OpTable& table, CpuIsa isa);  // its formats; sgd and lion
void add_muon(OpTable& table, CpuIsa isa);             // its steps around matrix products
// Mixture of experts:
void add_routing(OpTable& table, CpuIsa isa);
void add_router_extras(OpTable& table);  // load bias, capacity, noise, random scores
void add_sinkhorn(OpTable& table);
void add_load_quantile(OpTable& table);
void add_expert_rows(OpTable& table, CpuIsa isa);
void add_grouped_gemm(OpTable& table, CpuIsa isa);
void add_expert_bias(OpTable& table, CpuIsa isa);
}  // namespace cpu

}  // namespace viaduct
