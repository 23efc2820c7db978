#pragma once
// Quantized products of experts: recipes, sizes, and the operands of each expert alone.

#include <gtest/gtest.h>

#include <cmath>

#include "grouped_gemm_cases.h"
#include "ops/largest_magnitude.h"
#include "tensor/hadamard.h"

namespace viaduct::grouped_gemm_test {

using test::OpMachine;

struct Scheme {
  const char* name;
  Quantization quantization;
};
inline const Scheme kSchemes[] = {
    {"tensor", {Scaling::tensor, DType::e4m3, DType::e5m2}},
    {"blocks", {Scaling::blocks, DType::e4m3, DType::e5m2}},
    {"mx", {Scaling::mx, DType::e4m3, DType::e4m3}},
    {"nvfp4", {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}},
};

inline std::vector<Case> even_cases() {
  std::vector<Case> list;
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
    // No row, one row, groups of scales that end with an expert and that do not, and unused rows.
    list.push_back({form, 160, 96, {0, 37, 37, 38, 166}, 9});
    list.push_back({form, 32, 64, {0, 128, 160, 176, 400}});
  }
  return list;
}

/// Runs on the machine of the tests, with its products, conversions and magnitudes.
class GroupedQuantizedBase : public testing::TestWithParam<CpuIsa> {
 protected:
  /// Experts of different magnitude, so that a scale over two of them would differ.
  static void spread(const Case& c, const GroupedGemmArgs& args) {
    for (int64_t e = 0; e < kExperts; ++e) {
      const auto at = static_cast<size_t>(e);
      const GemmArgs own = product_of_expert(args, e, c.offsets[at], c.offsets[at + 1]);
      for (const Tensor& matrix : {own.a.tensor(), own.b.tensor()}) {
        for (int64_t i = 0; i < matrix.elements(); ++i)
          test::set_element(matrix, i, test::element(matrix, i) * std::ldexp(1.0, int(3 * e)));
      }
    }
  }
  Tensor amax_of(const Tensor& matrix, const OperandForm& form, const Tensor& offsets) {
    if (!has_matrix_scale(form)) return {};
    const Tensor amax = host_tensor(DType::f32, {kExperts});
    largest_magnitude(context_, {matrix, amax, form.rotated, offsets});
    return amax;
  }
  GroupedGemmArgs quantized(const Case& c, const Quantization& how, WriteMode mode,
                            DType out = DType::f32) {
    GroupedGemmArgs args = make_args(c, DType::bf16, out, mode);
    spread(c, args);
    args.quantization = how;
    const GemmForms forms = expert_forms(args);
    args.a_amax = amax_of(args.a, forms.a, args.offsets);
    args.b_amax = amax_of(args.b.tensor(), forms.b,
                          c.form == GemmForm::weight_gradient ? args.offsets : Tensor());
    if (how.scaling != Scaling::nvfp4 || c.form == GemmForm::forward) return args;
    args.rounding = {{7, 9}, test::integers(DType::i64, {1000}), {}};
    // Gate and up of each expert.
    for (int64_t e = 0; e < kExperts; ++e)
      for (const int64_t half : {0, 1})
        args.rounding.features.push_back(
            {e * c.n + half * c.n / 2, static_cast<uint64_t>(50000 + 3000 * e + 1000 * half)});
    return args;
  }
  /// One expert's operand made by the op for linear layers; missing rows of a rotated run are
  /// zeros.
  Operand alone(const Tensor& matrix, const OperandForm& form, const StochasticRounding& of_rows) {
    Tensor whole = matrix;
    if (form.rotated && matrix.dim(0) % kRotated != 0) {
      const int64_t rows = (matrix.dim(0) + kRotated - 1) / kRotated * kRotated;
      whole = host_tensor(matrix.dtype(), {rows, matrix.dim(1)});
      for (int64_t i = 0; i < matrix.elements(); ++i)
        test::set_element(whole, i, test::element(matrix, i));
    }
    Tensor amax;
    if (has_matrix_scale(form)) {
      amax = host_tensor(DType::f32, {1});
      largest_magnitude(context_, {whole, amax, form.rotated});
    }
    StochasticRounding rounding = of_rows;
    if (rounding.defined()) {
      std::vector<int64_t> tokens;
      for (int64_t r = 0; r < whole.dim(0); ++r) tokens.push_back(1000 + r);
      rounding.token_index = test::integers(DType::i64, tokens);
    }
    const Operand out =
        allocate_operand(context_, form, whole.dtype(), whole.shape(), MemoryTag::activations);
    convert_operand(context_, {whole, out, amax, rounding});
    return out;
  }

  OpMachine machine_{
      GetParam(), 3, {cpu::add_gemm, cpu::add_grouped_gemm, cpu::add_largest_magnitude}};
  OpContext context_ = machine_.context();
};

}  // namespace viaduct::grouped_gemm_test
