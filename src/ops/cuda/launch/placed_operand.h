#pragma once
// Coded operands of several matrices in the memory of a launch: made there, or earlier.

#include "ops/cuda/grouped_operands.h"
#include "ops/cuda/kernels/grouped_codes.h"
#include "ops/cuda/launch/launch_args.h"

namespace viaduct::cuda {

class PlacedOperand {
 public:
  /// `from`: as of `grouped_operand`. `offsets`: undefined if all matrices have the same rows.
  PlacedOperand(const GroupedOperand& place, const Operand& from, const Tensor& offsets,
                int64_t matrices, void* workspace);

  /// Makes the operand of `from` if its place says so. `amax` f32 [matrices], where the form has
  /// scales of matrices; `rounding`: as `grouped_gemm` has it with offsets, else as
  /// `convert_operand`.
  void make(std::string_view op, const Operand& from, const Tensor& amax,
            const StochasticRounding& rounding, Stream stream) const;
  CodedOperand coded() const;

 private:
  void make_fp8(std::string_view op, const Tensor& matrix, const Tensor& amax, Stream stream) const;
  void make_nvfp4(std::string_view op, const Tensor& matrix, const Tensor& amax,
                  const StochasticRounding& rounding, Stream stream) const;

  const GroupedOperand& place_;
  MatrixRows rows_;
  uint8_t* values_ = nullptr;
  void* scales_ = nullptr;  // of groups
  float* matrix_scales_ = nullptr;
};

}  // namespace viaduct::cuda
