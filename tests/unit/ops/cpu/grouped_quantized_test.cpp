// Quantized products of experts: their definition in FP64, and the bits of each expert's operands
// and product alone, whose scales do not depend on other experts' rows.

#include <gmock/gmock.h>

#include "../grouped_gemm_cases.h"
#include "base/error.h"
#include "ops/largest_magnitude.h"
#include "ops/reference/scaled_operand.h"
#include "tensor/hadamard.h"

namespace viaduct {
namespace {

using namespace grouped_gemm_test;
using test::expect_same_bits;
using test::OpMachine;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Scheme {
  const char* name;
  Quantization quantization;
};
const Scheme kSchemes[] = {
    {"tensor", {Scaling::tensor, DType::e4m3, DType::e5m2}},
    {"blocks", {Scaling::blocks, DType::e4m3, DType::e5m2}},
    {"mx", {Scaling::mx, DType::e4m3, DType::e4m3}},
    {"nvfp4", {Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}},
};

std::vector<Case> even_cases() {
  std::vector<Case> list;
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient}) {
    // No row, one row, groups of scales that end with an expert and that do not, and unused rows.
    list.push_back({form, 160, 96, {0, 37, 37, 38, 166}, 9});
    list.push_back({form, 32, 64, {0, 128, 160, 176, 400}});
  }
  return list;
}

class GroupedQuantized : public testing::TestWithParam<CpuIsa> {
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
  GroupedGemmArgs quantized(const Case& c, const Quantization& how, WriteMode mode) {
    GroupedGemmArgs args = make_args(c, DType::bf16, DType::f32, mode);
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

INSTANTIATE_TEST_SUITE_P(Isa, GroupedQuantized, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GroupedQuantized, MatchesTheDefinition) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.quantization.scaling == Scaling::nvfp4) continue;
    for (const Case& c : even_cases()) {
      SCOPED_TRACE(scheme.name);
      const GroupedGemmArgs args = quantized(c, scheme.quantization, WriteMode::assign);
      GroupedGemmArgs exact = args, sums = args;
      for (GroupedGemmArgs* each : {&exact, &sums})
        each->c = host_tensor(DType::f64, args.c.shape());
      grouped_gemm(context_, args);
      reference::scaled_grouped_gemm(exact);
      reference::scaled_grouped_gemm(sums, true);
      // Unused rows stay unchanged.
      const bool gradient = c.form == GemmForm::weight_gradient;
      const int64_t rows = gradient ? args.c.dim(0) : c.offsets.back();
      const auto of_experts = [&](const Tensor& all) { return all.slice(0, 0, rows); };
      const int64_t depth = c.form == GemmForm::forward         ? c.k
                            : c.form == GemmForm::data_gradient ? c.n
                                                                : c.offsets.back();
      test::expect_close(of_experts(args.c), of_experts(exact.c), static_cast<double>(depth),
                         of_experts(sums.c));
    }
  }
}

TEST_P(GroupedQuantized, HasTheBitsOfEachExpertAlone) {
  for (const Scheme& scheme : kSchemes) {
    for (const Case& c : even_cases()) {
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        SCOPED_TRACE(scheme.name);
        const GroupedGemmArgs args = quantized(c, scheme.quantization, mode);
        const GroupedGemmArgs single = quantized(c, scheme.quantization, mode);
        const GemmForms forms = expert_forms(args);
        grouped_gemm(context_, args);
        for (int64_t e = 0; e < kExperts; ++e) {
          const auto at = static_cast<size_t>(e);
          GemmArgs own = product_of_expert(single, e, c.offsets[at], c.offsets[at + 1]);
          if (c.offsets[at] < c.offsets[at + 1]) {
            own.quantization = scheme.quantization;
            own.a = alone(own.a.tensor(), forms.a, rounding_of_expert(single, e));
            own.b = alone(own.b.tensor(), forms.b, {});
          } else if (c.form != GemmForm::weight_gradient) {
            continue;
          }
          gemm(context_, own);
        }
        expect_same_bits(args.c, single.c);
      }
    }
  }
}

// Experts, and gate and up, have separate counters.
TEST_P(GroupedQuantized, RoundingKnowsTheExpertsFeatures) {
  const Case c{GemmForm::data_gradient, 32, 64, {0, 16, 32, 48, 64}};
  const GroupedGemmArgs args = quantized(c, kSchemes[3].quantization, WriteMode::assign);
  const StochasticRounding third = rounding_of_expert(args, 2);
  ASSERT_EQ(third.features.size(), 2u);
  EXPECT_EQ(third.features[0].begin, 0);
  EXPECT_EQ(third.features[0].first, 56000u);
  EXPECT_EQ(third.features[1].begin, 16);
  EXPECT_EQ(third.features[1].first, 57000u);
}

TEST_P(GroupedQuantized, ChecksRefuseWhatTheContractDoesNotAllow) {
  const Case c{GemmForm::forward, 32, 64, {0, 16, 32, 48, 64}};
  GroupedGemmArgs args = quantized(c, kSchemes[0].quantization, WriteMode::assign);
  args.b_amax = {};
  EXPECT_THAT([&] { grouped_gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("expected b_amax f32 [4]")));
  args = quantized(c, kSchemes[2].quantization, WriteMode::assign);
  args.a_amax = host_tensor(DType::f32, {kExperts});
  EXPECT_THAT([&] { grouped_gemm(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("expected no a_amax")));
}

}  // namespace
}  // namespace viaduct
