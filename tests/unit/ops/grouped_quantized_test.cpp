// Quantized products of experts: their definition in FP64, with operands that do not depend on
// other experts' rows.

#include <gmock/gmock.h>

#include <limits>

#include "base/error.h"
#include "grouped_quantized_cases.h"
#include "ops/reference/reference.h"
#include "ops/reference/scaled_operand.h"

namespace viaduct {
namespace {

using namespace grouped_gemm_test;
using test::expect_same_bits;
using testing::HasSubstr;
using testing::ThrowsMessage;

class GroupedQuantizedTest : public GroupedQuantizedBase {
 protected:
  /// c (= or +=) the products in FP64 of the elements that each expert's operands represent, and of
  /// their magnitudes.
  void exact_products(const Case& c, const GroupedGemmArgs& args, const Tensor& out,
                      const Tensor& sums) {
    const GemmForms forms = expert_forms(args);
    for (int64_t e = 0; e < kExperts; ++e) {
      const auto at = static_cast<size_t>(e);
      GemmArgs own = product_of_expert(args, e, c.offsets[at], c.offsets[at + 1]);
      if (c.offsets[at] == c.offsets[at + 1] && c.form != GemmForm::weight_gradient) continue;
      const auto represented = [&](const Tensor& matrix, const OperandForm& form,
                                   const StochasticRounding& rounding) {
        return test::to_f64(reference::dequantized(alone(matrix, form, rounding)));
      };
      Tensor a = host_tensor(DType::f64, {0, args.a.dim(1)}),
             b = host_tensor(DType::f64, {0, args.b.dim(1)});
      if (c.offsets[at] < c.offsets[at + 1]) {
        a = represented(own.a.tensor(), forms.a, rounding_of_expert(args, e));
        b = represented(own.b.tensor(), forms.b, {});
      }
      for (const auto& [to, magnitudes] : {std::pair{&out, false}, {&sums, true}}) {
        GemmArgs product = own;
        product.quantization = {};
        product.a = magnitudes ? test::magnitudes(a) : a;
        product.b = magnitudes ? test::magnitudes(b) : b;
        const bool gradient = c.form == GemmForm::weight_gradient;
        product.c = gradient ? to->slice(0, e * c.n, c.n)
                             : to->slice(0, c.offsets[at], c.offsets[at + 1] - c.offsets[at]);
        reference::gemm(product);
      }
    }
  }

  void expect_products(const Case& c, const Scheme& scheme, WriteMode mode, DType out) {
    const GroupedGemmArgs args = quantized(c, scheme.quantization, mode, out);
    const Tensor exact = test::to_f64(args.c), sums = test::magnitudes(args.c);
    exact_products(c, args, exact, sums);
    const Tensor before = test::converted(args.c, out);
    grouped_gemm(context_, args);
    const bool gradient = c.form == GemmForm::weight_gradient;
    const int64_t rows = gradient ? args.c.dim(0) : c.offsets.back();
    const int64_t depth = c.form == GemmForm::forward         ? c.k
                          : c.form == GemmForm::data_gradient ? c.n
                                                              : c.offsets.back();
    const auto of_experts = [&](const Tensor& all) { return all.slice(0, 0, rows); };
    test::expect_close(of_experts(args.c), of_experts(exact), static_cast<double>(depth),
                       of_experts(sums));
    const int64_t others = args.c.dim(0) - rows;
    expect_same_bits(args.c.slice(0, rows, others), before.slice(0, rows, others));
  }

  /// The weights as a stack of operands, made one by one.
  Operand stack_of(const GroupedGemmArgs& args) {
    const OperandForm form = expert_forms(args).b;
    const int64_t n = args.b.dim(0) / kExperts;
    const Operand stack = allocate_stack(context_, kExperts, form, DType::bf16, {n, args.b.dim(1)},
                                         MemoryTag::weights);
    for (int64_t e = 0; e < kExperts; ++e) {
      convert_operand(context_, {args.b.tensor().slice(0, e * n, n), stack.member(e),
                                 args.b_amax ? args.b_amax.slice(0, e, 1) : Tensor()});
    }
    return stack;
  }
};

INSTANTIATE_TEST_SUITE_P(Isa, GroupedQuantizedTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GroupedQuantizedTest, MatchesTheDefinition) {
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

/// Sizes that groups of scales, tiles and reads of 16 bytes do not divide; E2M1 has pairs of
/// columns.
std::vector<Case> odd_cases(bool pairs) {
  std::vector<Case> list;
  for (const GemmForm form :
       {GemmForm::forward, GemmForm::data_gradient, GemmForm::weight_gradient})
    list.push_back({form, pairs ? 70 : 69, pairs ? 150 : 149, {0, 3, 3, 150, 151}, 5});
  return list;
}

TEST_P(GroupedQuantizedTest, AreProductsOfEachExpertsOperands) {
  constexpr std::pair<WriteMode, DType> kWays[] = {{WriteMode::assign, DType::bf16},
                                                   {WriteMode::accumulate, DType::bf16},
                                                   {WriteMode::accumulate, DType::f32}};
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    for (const Case& c : even_cases()) expect_products(c, scheme, WriteMode::assign, DType::f32);
    for (const Case& c : odd_cases(scheme.quantization.scaling == Scaling::nvfp4))
      for (const auto& [mode, out] : kWays) expect_products(c, scheme, mode, out);
  }
}

TEST_P(GroupedQuantizedTest, WeightsMadeEarlierGiveTheSameBits) {
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    for (const Case& c : even_cases()) {
      if (c.form == GemmForm::weight_gradient) continue;
      const GroupedGemmArgs made = quantized(c, scheme.quantization, WriteMode::assign);
      GroupedGemmArgs there = quantized(c, scheme.quantization, WriteMode::assign);
      there.b = stack_of(there), there.b_amax = {};
      grouped_gemm(context_, made);
      grouped_gemm(context_, there);
      expect_same_bits(there.c, made.c);
    }
  }
}

// An element that is not finite shows in the products of its expert alone.
TEST_P(GroupedQuantizedTest, AnInfiniteElementStaysWithItsExpert) {
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    const Case c{GemmForm::forward, 32, 64, {0, 16, 32, 48, 64}};
    const GroupedGemmArgs plain = quantized(c, scheme.quantization, WriteMode::assign);
    GroupedGemmArgs args = quantized(c, scheme.quantization, WriteMode::assign);
    test::set_element(args.a, 20 * c.k + 7, std::numeric_limits<double>::infinity());
    args.a_amax = amax_of(args.a, expert_forms(args).a, args.offsets);
    grouped_gemm(context_, plain);
    grouped_gemm(context_, args);
    EXPECT_TRUE(std::isnan(test::element(args.c, 20 * c.n + 3)));
    for (const int64_t row : {0, 32})
      expect_same_bits(args.c.slice(0, row, 16), plain.c.slice(0, row, 16));
  }
}

// Delayed scales, and maxima over ranks, may be those of an expert that has no rows here.
TEST_P(GroupedQuantizedTest, WithoutRowsAGradientIsZeroWhateverTheScale) {
  for (const Scheme& scheme : kSchemes) {
    SCOPED_TRACE(scheme.name);
    const Case c{GemmForm::weight_gradient, 32, 64, {0, 16, 16, 48, 64}};
    const GroupedGemmArgs args = quantized(c, scheme.quantization, WriteMode::assign);
    for (const Tensor& amax : {args.a_amax, args.b_amax})
      if (amax) test::set_element(amax, 1, std::numeric_limits<double>::infinity());
    grouped_gemm(context_, args);
    for (int64_t i = 0; i < c.n * c.k; ++i) EXPECT_EQ(test::element(args.c, c.n * c.k + i), 0) << i;
  }
}

// Experts, and gate and up, have separate counters.
TEST_P(GroupedQuantizedTest, RoundingKnowsTheExpertsFeatures) {
  const Case c{GemmForm::data_gradient, 32, 64, {0, 16, 32, 48, 64}};
  const GroupedGemmArgs args = quantized(c, kSchemes[3].quantization, WriteMode::assign);
  const StochasticRounding third = rounding_of_expert(args, 2);
  ASSERT_EQ(third.features.size(), 2u);
  EXPECT_EQ(third.features[0].begin, 0);
  EXPECT_EQ(third.features[0].first, 56000u);
  EXPECT_EQ(third.features[1].begin, 16);
  EXPECT_EQ(third.features[1].first, 57000u);
}

TEST_P(GroupedQuantizedTest, ChecksRefuseWhatTheContractDoesNotAllow) {
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
