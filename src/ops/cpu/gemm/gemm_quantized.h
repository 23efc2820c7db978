#pragma once
// Products of quantized operands on the cpu: the product of the BF16 matrices that the operands
// stand for, in its order of summation. Scales of groups are powers of two, or E4M3 beside elements
// of e2m1: they are folded into the matrices, which is exact where elements are normal BF16
// numbers; smaller ones count as zero, as in every BF16 product. Scales of whole matrices multiply
// the sums.

#include "hardware/cpu_isa.h"
#include "ops/gemm.h"

namespace viaduct::cpu {

bool is_quantized_product(const GemmArgs& args);

/// The choice for `args`, from the one for the product of its matrices.
Choice choose_widened(const GemmArgs& args, const Traits& traits,
                      Choice (*choose_matrices)(const GemmArgs&, const Traits&));

/// What is left to launch.
struct WidenedProduct {
  GemmArgs args;
  Choice choice;
  void* workspace = nullptr;
  float factor = 1;
};

/// Widens the operands into the workspace of `choice`, which is choose_widened's.
WidenedProduct widen_operands(OpContext& context, const Choice& choice, const GemmArgs& args,
                              void* workspace, CpuIsa isa);

}  // namespace viaduct::cpu
