// Attention composed of ops gives the results of flash attention, with or without fused softmax.

#include "nn/attention_method.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using test::OpMachine;

constexpr AttentionMethod kOneSoftmax{false, true}, kThreeSteps{false, false};

/// The longest run of keys, which the composed op cannot see.
AttentionData data_of(const AttentionCase& c, DType dtype) {
  AttentionData data(c, dtype);
  for (size_t d = 1; d < c.kv_offsets.size(); ++d)
    data.problem.max_keys = std::max(data.problem.max_keys, c.kv_offsets[d] - c.kv_offsets[d - 1]);
  return data;
}

class ComposedAttention : public ::testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine{
      GetParam(), 3, {cpu::add_attention, cpu::add_score_matrix, cpu::add_elementwise}};
  OpContext context = machine.context();

  /// A GPU's matrix units read probabilities and gradients of scores in 16 bits; the cpu's kernels
  /// do not round them.
  void allow_rounded_factors(AttentionBounds& bounds, DType dtype) const {
    if (machine.table().narrow_score_factors && dtype_bytes(dtype) == 2)
      bounds.allow_rounded_factors(dtype, true);
  }
};

/// The features of attention, and heads as wide as the kernels have, and wider.
std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> list = test::attention_cases();
  for (const int64_t width : {200, 256, 264}) {
    AttentionCase c;
    c.name = "heads of " + std::to_string(width);
    c.width = width, c.value_width = 456 - width;
    c.heads = 4, c.q_offsets = c.kv_offsets = {0, 1, 66};
    list.push_back(c);
  }
  return list;
}

TEST_P(ComposedAttention, FollowsTheReference) {
  for (const AttentionCase& c : cases()) {
    for (DType dtype : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      AttentionData data = data_of(c, dtype);
      AttentionData expected = data.in_f64();
      attend(context, kOneSoftmax, data.forward());
      reference::attention_forward(expected.forward());
      AttentionBounds forward(expected);
      allow_rounded_factors(forward, dtype);
      test::expect_close(data.out, expected.out, forward.terms, forward.out);
      test::expect_close(data.lse, expected.lse, forward.terms, forward.lse);

      attention_delta(context, {data.out, data.d_out, data.delta});
      expected = data.in_f64();
      AttentionBounds backward(expected);
      allow_rounded_factors(backward, dtype);
      attend_backward(context, kOneSoftmax, data.backward());
      reference::attention_backward(expected.backward());
      test::expect_close(data.dq, expected.dq, backward.terms, backward.dq);
      test::expect_close(data.dk, expected.dk, backward.terms, backward.dk);
      test::expect_close(data.dv, expected.dv, backward.terms, backward.dv);
    }
  }
}

TEST_P(ComposedAttention, ThreeStepsOfTheSoftmaxAreOneInEveryBit) {
  for (const AttentionCase& c : test::attention_cases()) {
    if (c.softcap > 0 && c.window == 0) continue;  // the slope of the cap is rounded separately
    SCOPED_TRACE(c.name);
    AttentionData one = data_of(c, DType::bf16), three = data_of(c, DType::bf16);
    for (auto [data, method] : {std::pair(&one, kOneSoftmax), std::pair(&three, kThreeSteps)}) {
      attend(context, method, data->forward());
      attention_delta(context, {data->out, data->d_out, data->delta});
      attend_backward(context, method, data->backward());
    }
    for (Tensor AttentionData::*t : {&AttentionData::out, &AttentionData::lse, &AttentionData::dq,
                                     &AttentionData::dk, &AttentionData::dv})
      test::expect_same_bits(three.*t, one.*t);
  }
}

TEST_P(ComposedAttention, TheRecordHasTheChainAndItsMatrix) {
  StepRecord record;
  AttentionCase c;
  c.q_offsets = c.kv_offsets = {0, 40, 100};
  c.dropout = 0.25;
  const AttentionData data = data_of(c, DType::bf16);
  const auto ops = [&](const AttentionMethod& method) {
    record = {};
    machine.device().reset_peak();
    const int64_t before = machine.device().memory().bytes_in_use;
    machine.device().set_record(&record);
    attend(context, method, data.forward());
    attend_backward(context, method, data.backward());
    machine.device().set_record(nullptr);
    const int64_t matrices = 2 * c.heads * 100 * 60 * 4;  // f32 [N, Tq, longest document]
    const int64_t held = machine.device().memory().peak_bytes - before;
    if (!method.flash) {
      EXPECT_GE(held, matrices);
    }
    std::vector<std::string> names;
    for (const OpEntryRecord& op : record.ops()) names.emplace_back(op.op);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(ops({}), (Names{"attention_forward", "attention_backward"}));
  EXPECT_EQ(ops(kOneSoftmax),
            (Names{"attention_scores", "masked_softmax", "score_dropout", "attention_values",
                   "attention_scores", "masked_softmax", "score_dropout", "attention_keys",
                   "attention_scores", "score_dropout", "masked_softmax_backward",
                   "attention_values", "attention_keys"}));
  int64_t fused_bytes = 0, bytes = 0;
  for (const OpEntryRecord& op : record.ops())
    fused_bytes += op.cost.bytes_read + op.cost.bytes_written;
  EXPECT_EQ(ops(kThreeSteps),
            (Names{"attention_scores", "score_scale", "score_mask", "score_softmax",
                   "score_dropout", "attention_values", "attention_scores", "score_scale",
                   "score_mask", "score_softmax", "score_dropout", "attention_keys",
                   "attention_scores", "score_dropout", "score_softmax_backward",
                   "score_scale_backward", "attention_values", "attention_keys"}));
  for (const OpEntryRecord& op : record.ops()) bytes += op.cost.bytes_read + op.cost.bytes_written;
  // The scores pass through memory two more times in each direction, and once more in the backward;
  // lse and delta once more.
  const int64_t matrix = c.heads * 100 * 60 * 4;
  EXPECT_EQ(bytes - fused_bytes, 5 * 2 * matrix + 2 * c.heads * 100 * 4);
}

// Scores of 256 and 257 are the same number in BF16. One query, two keys with the values 1 and 0.
TEST_P(ComposedAttention, ASoftmaxOfTheActivationsFormatRoundsScores) {
  AttentionCase c;
  c.q_offsets = {0, 1}, c.kv_offsets = {0, 2};
  c.heads = c.kv_heads = 1, c.width = c.value_width = 16;
  c.causal = false;
  const auto outcome = [&](const AttentionMethod& method, DType dtype) {
    AttentionData data = data_of(c, dtype);
    data.problem.scale = 1;
    for (const Tensor& t : {data.q, data.k, data.v, data.d_out, data.dq, data.dk, data.dv})
      for (int64_t i = 0; i < t.shape().elements(); ++i) test::set_element(t, i, 0);
    for (const auto& [tensor, index] : {std::pair(data.q, 0), {data.k, 0}, {data.k, 16}})
      test::set_element(tensor, index, 16);
    for (const auto& [tensor, index] : {std::pair(data.q, 1), {data.k, 17}, {data.v, 0}})
      test::set_element(tensor, index, 1);
    test::set_element(data.d_out, 0, 1);
    attend(context, method, data.forward());
    attention_delta(context, {data.out, data.d_out, data.delta});
    attend_backward(context, method, data.backward());
    return std::pair(test::element(data.out, 0), test::element(data.dq, 1));
  };
  const double p = 1 / (1 + std::exp(1.0));
  for (const bool fusion : {true, false}) {
    const auto [out, dq] = outcome({false, fusion, true}, DType::bf16);
    EXPECT_NEAR(out, p, 2e-3);
    EXPECT_NEAR(dq, -p * (1 - p), 2e-3);
    const auto [rounded, rounded_dq] = outcome({false, fusion, false}, DType::bf16);
    EXPECT_EQ(rounded, 0.5);
    EXPECT_EQ(rounded_dq, -0.25);
    EXPECT_NEAR(outcome({false, fusion, false}, DType::f32).first, p, 1e-6) << "nothing to round";
  }
}

// Factors of products are stored in 16 bits where products round them, except probabilities from
// which the slope of a cap is computed.
TEST_P(ComposedAttention, FactorsAreAsNarrowAsTheirProducts) {
  for (const bool narrow : {false, true}) {
    if (narrow && !machine.table().narrow_score_factors) continue;
    for (const double cap : {0.0, 2.0}) {
      AttentionCase c;
      c.softcap = cap;
      const AttentionData data = data_of(c, narrow ? DType::bf16 : DType::f32);
      StepRecord record;
      machine.device().set_record(&record);
      attend(context, kOneSoftmax, data.forward());
      attend_backward(context, kOneSoftmax, data.backward());
      machine.device().set_record(nullptr);
      const int64_t f32 = c.heads * 37 * 37 * 4, factor = narrow ? f32 / 2 : f32;
      std::vector<int64_t> written, expected{f32, factor, f32, cap > 0 ? f32 : factor, f32, factor};
      for (const OpEntryRecord& op : record.ops())
        if (op.op == "attention_scores" || op.op.starts_with("masked_softmax"))
          written.push_back(op.cost.bytes_written);
      expected[1] += c.heads * 37 * 4;  // the forward writes lse
      EXPECT_EQ(written, expected) << "cap " << cap << (narrow ? " narrow" : "");
    }
  }
}

TEST_P(ComposedAttention, RefusesRowsThatAreTooShort) {
  AttentionData data = data_of({}, DType::f32);
  data.problem.max_keys = 36;
  EXPECT_THROW(attend(context, kOneSoftmax, data.forward()), ShapeError);
}

INSTANTIATE_TEST_SUITE_P(Isas, ComposedAttention, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
