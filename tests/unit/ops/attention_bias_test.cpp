// Attention with a bias of the scores by relative position: the kernels against the FP64 reference,
// the reference against attention composed of ops, and what is refused.

#include <gmock/gmock.h>

#include "base/error.h"
#include "nn/attention_method.h"
#include "unit/ops/attention_bounds.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::AttentionBounds;
using test::AttentionCase;
using test::AttentionData;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AttentionBias : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_attention}};
  OpContext context_ = machine_.context();

  void SetUp() override {
    if (!context_.ops.biased_attention) GTEST_SKIP() << "has no attention with a bias";
  }
};

TEST_P(AttentionBias, FollowsTheReference) {
  for (const AttentionCase& c : test::biased_attention_cases()) {
    for (const DType dtype : test::kKernelDTypes) {
      SCOPED_TRACE(c.name + " " + std::string(dtype_name(dtype)));
      AttentionData data(c, dtype);
      AttentionData expected = data.in_f64();
      attention_forward(context_, data.forward());
      reference::attention_forward(expected.forward());
      AttentionBounds forward(expected);
      forward.allow_rounding_of(GetParam(), dtype);
      test::expect_close(data.out, expected.out, forward.terms, forward.out);
      test::expect_close(data.lse, expected.lse, forward.terms, forward.lse);

      attention_delta(context_, {data.out, data.d_out, data.delta});
      expected = data.in_f64();
      AttentionBounds backward(expected);
      backward.allow_rounding_of(GetParam(), dtype);
      attention_backward(context_, data.backward());
      reference::attention_backward(expected.backward());
      test::expect_close(data.dq, expected.dq, backward.terms, backward.dq);
      test::expect_close(data.dk, expected.dk, backward.terms, backward.dk);
      test::expect_close(data.dv, expected.dv, backward.terms, backward.dv);
      test::expect_close(data.d_bias, expected.d_bias, backward.terms, backward.d_bias);
    }
  }
}

TEST(AttentionBiasReference, IsThatOfComposedAttention) {
  test::OpMachine machine(
      CpuIsa::portable, 1,
      {cpu::add_attention, cpu::add_score_matrix, cpu::add_relative_bias, cpu::add_elementwise});
  OpContext context = machine.context();
  constexpr AttentionMethod kComposed{.flash = false};
  for (const AttentionCase& c : test::biased_attention_cases()) {
    SCOPED_TRACE(c.name);
    AttentionData one(c, DType::f64), composed(c, DType::f64);
    for (size_t d = 1; d < c.kv_offsets.size(); ++d) {
      composed.problem.max_keys =
          std::max(composed.problem.max_keys, c.kv_offsets[d] - c.kv_offsets[d - 1]);
    }
    if (composed.problem.max_keys == 0) continue;
    one.problem.max_keys = composed.problem.max_keys;
    for (auto [data, method] : {std::pair(&one, AttentionMethod{}), {&composed, kComposed}}) {
      const ScoreBias bias{data->problem.relative, data->problem.bias, data->d_bias};
      AttentionForwardArgs forward = data->forward();
      AttentionBackwardArgs backward = data->backward();
      forward.problem.bias = backward.problem.bias = backward.d_bias = {};
      attend(context, method, forward, &bias);
      attention_delta(context, {data->out, data->d_out, data->delta});
      attend_backward(context, method, backward, &bias);
    }
    const AttentionBounds bounds(one);
    test::expect_close(one.out, composed.out, bounds.terms, bounds.out);
    test::expect_close(one.dq, composed.dq, bounds.terms, bounds.dq);
    test::expect_close(one.dk, composed.dk, bounds.terms, bounds.dk);
    test::expect_close(one.d_bias, composed.d_bias, bounds.terms, bounds.d_bias);
  }
}

TEST_P(AttentionBias, HasTheSameBitsForAnyNumberOfThreads) {
  test::OpMachine one(GetParam(), 1, {cpu::add_attention});
  OpContext alone = one.context();
  for (const AttentionCase& c : test::biased_attention_cases()) {
    SCOPED_TRACE(c.name);
    AttentionData a(c, DType::bf16), b(c, DType::bf16);
    for (auto [context, data] : {std::pair(&context_, &a), std::pair(&alone, &b)}) {
      attention_forward(*context, data->forward());
      attention_delta(*context, {data->out, data->d_out, data->delta});
      attention_backward(*context, data->backward());
    }
    for (Tensor AttentionData::*t : {&AttentionData::out, &AttentionData::dq, &AttentionData::dk,
                                     &AttentionData::dv, &AttentionData::d_bias})
      test::expect_same_bits(a.*t, b.*t);
  }
}

TEST_P(AttentionBias, RefusesWhatItsKernelsDoNotCompute) {
  AttentionCase c;
  c.max_distance = 20;
  AttentionData capped(c, DType::f32), alone(c, DType::f32);
  capped.problem.softcap = 2;
  EXPECT_THAT([&] { attention_forward(context_, capped.forward()); },
              ThrowsMessage<ShapeError>(HasSubstr("bias: expected no soft cap")));
  alone.problem.bias = {};
  EXPECT_THAT([&] { attention_backward(context_, alone.backward()); },
              ThrowsMessage<ShapeError>(HasSubstr("d_bias: expected none without a bias")));
}

INSTANTIATE_TEST_SUITE_P(Isa, AttentionBias, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
