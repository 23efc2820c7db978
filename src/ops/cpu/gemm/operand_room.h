#pragma once
// Quantized operands that an op of the cpu makes in its workspace.

#include "base/thread_pool.h"
#include "hardware/cpu_isa.h"
#include "ops/convert_operand.h"

namespace viaduct::cpu {

/// Tensors one after the other in memory that is not owned; with null memory only sizes.
class OperandRoom {
 public:
  explicit OperandRoom(std::byte* memory) : memory_(memory) {}

  Tensor tensor(DType dtype, const Shape& shape);
  /// Uninitialised, in a quantized form.
  Operand operand(const OperandForm& form, DType dtype, const Shape& shape);
  int64_t used() const { return used_; }

 private:
  std::byte* memory_;
  int64_t used_ = 0;
};

/// `rounding` of an expert's rows, whose token_index is that of the first row, with `tokens` i64
/// [rows], which it fills, of all of them.
StochasticRounding with_tokens_of_rows(StochasticRounding rounding, const Tensor& tokens);

/// `convert_operand` to a form that `is_quantized` or `is_nvfp4`.
void make_operand(ThreadPool& pool, const ConvertOperandArgs& args, CpuIsa isa);

}  // namespace viaduct::cpu
