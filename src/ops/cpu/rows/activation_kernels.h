#pragma once
// Types of the activation kernels of an instruction set.

#include "ops/activation.h"
#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/vector_choice.h"

namespace viaduct::cpu {

struct ActivationRows {
  ActivationKind kind = ActivationKind::silu;
  bool gated = true;
  int64_t width = 0;  // F, or a part of it
  RowView in, out;    // backward: in = the saved input, out = d_out, d_in = the output
  RowView d_in;
  int64_t up = 0;    // elements from a gate to its factor `up`: F
  int64_t d_up = 0;  // the same in d_in
  GateShape shape = {};
};

/// Rows [begin, end).
struct ActivationKernels {
  void (*forward)(const ActivationRows& rows, int64_t begin, int64_t end);
  void (*backward)(const ActivationRows& rows, int64_t begin, int64_t end);
};

VIADUCT_KERNELS_WITH_BF16(ActivationKernels, activation_kernels)

}  // namespace viaduct::cpu
