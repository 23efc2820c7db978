// Results that must have the same bits on every instruction set: roundings to BF16, by integers or
// by the instruction of AVX512-BF16, and initial weights.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/norm.h"
#include "ops/optimizer.h"
#include "ops/rotary.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::OpMachine;

class InstructionSets : public ::testing::TestWithParam<CpuIsa> {};

/// Every kind of FP32 number, difficult ones next to each other and alone in a vector.
Tensor awkward_floats() {
  std::vector<float> values;
  const float special[] = {0.0f,
                           -0.0f,
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::max(),
                           std::numeric_limits<float>::min(),
                           std::numeric_limits<float>::denorm_min(),
                           -3e-39f,
                           std::bit_cast<float>(0x00008000u),  // halfway between 0 and the next
                           std::bit_cast<float>(0x00018000u),  // halfway, to the even one above
                           std::bit_cast<float>(0x3f808000u),  // 1 and half a step
                           std::bit_cast<float>(0x3f818000u),
                           std::bit_cast<float>(0x3f808001u),
                           std::bit_cast<float>(0x7f7fffffu),   // rounds to infinity
                           std::bit_cast<float>(0x7fc00001u)};  // NaN
  for (const float value : special) values.push_back(value);
  for (const float value : special) {  // each among ordinary numbers
    for (int i = 0; i < 31; ++i) values.push_back(1.0f + 0.001f * static_cast<float>(i));
    values.push_back(value);
  }
  const Tensor out = host_tensor(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), out.data<float>());
  return out;
}

TEST_P(InstructionSets, RoundToBf16AsTheHostDoes) {
  OpMachine machine(GetParam(), 1, {cpu::add_elementwise});
  OpContext context = machine.context();
  const Tensor from = awkward_floats();
  const Tensor to = host_tensor(DType::bf16, from.shape());
  copy(context, {from, to});
  for (int64_t i = 0; i < from.elements(); ++i) {
    EXPECT_EQ(to.data<bfloat16>()[i].bits, bfloat16(from.data<float>()[i]).bits)
        << "element " << i << " " << from.data<float>()[i];
  }
}

/// BF16 outputs of one op of each family that rounds to BF16, from the same inputs.
std::vector<Tensor> rounded_outputs(CpuIsa isa) {
  OpMachine machine(isa, 2,
                    {cpu::add_elementwise, cpu::add_activation, cpu::add_norm, cpu::add_rotary,
                     cpu::add_optimizer, cpu::add_cross_entropy});
  OpContext context = machine.context();
  const int64_t rows = 9, width = 152;
  const auto random = [&](DType dtype, const Shape& shape, uint64_t seed, double scale = 1) {
    return test::random_tensor(dtype, shape, seed, scale);
  };
  std::vector<Tensor> outputs;
  const auto output = [&](const Shape& shape) {
    outputs.push_back(host_tensor(DType::bf16, shape));
    return outputs.back();
  };
  const Tensor x = random(DType::bf16, {rows, width}, 1), dy = random(DType::bf16, x.shape(), 2);
  const Tensor weight = random(DType::f32, {width}, 3);
  NormForwardArgs norm;
  norm.x = x, norm.weight = weight, norm.y = output(x.shape());
  norm.rstd = host_tensor(DType::f32, {rows});
  norm_forward(context, norm);
  NormBackwardArgs norm_back;
  norm_back.dy = dy, norm_back.x = x, norm_back.weight = weight, norm_back.rstd = norm.rstd;
  norm_back.dx = output(x.shape()), norm_back.d_weight = host_tensor(DType::f32, {width});
  norm_backward(context, norm_back);
  for (const ActivationKind kind : {ActivationKind::gelu, ActivationKind::gelu_tanh}) {
    activation_forward(context,
                       {kind, false, random(DType::bf16, x.shape(), 4, 20), output(x.shape())});
  }
  activation_backward(
      context, {ActivationKind::silu, true, dy, random(DType::bf16, {rows, 2 * width}, 5, 100),
                output({rows, 2 * width})});
  RotaryArgs turn;
  turn.x = output({rows, 2, 20});
  copy(context, {random(DType::f32, turn.x.shape(), 6), turn.x});
  turn.positions = test::integers(DType::i32, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  turn.cos = random(DType::f32, {rows, 10}, 7), turn.sin = random(DType::f32, {rows, 10}, 8);
  rotary(context, turn);
  AdamWArgs adam;
  adam.master = random(DType::f32, {1003}, 9), adam.gradient = random(DType::f32, {1003}, 10);
  adam.first = random(DType::f32, {1003}, 11), adam.second = host_tensor(DType::f32, {1003});
  adam.weight = output({1003});
  adam.scalars = host_tensor(DType::f64, {kStepScalars});
  for (int i = 0; i < kStepScalars; ++i) adam.scalars.data<double>()[i] = 0.5;
  adam.scalars.data<double>()[static_cast<int>(StepScalar::skip)] = 0;
  adamw(context, adam);
  CrossEntropyBackwardArgs loss;
  loss.logits = random(DType::f32, {rows, width}, 12, 30);
  loss.targets = test::integers(DType::i32, {0, 1, 2, 3, 4, 5, 6, 7, -1});
  loss.lse = random(DType::f64, {rows}, 13, 40), loss.weight = random(DType::f32, {rows}, 14);
  loss.factor = host_tensor(DType::f64, {1});
  loss.factor.data<double>()[0] = 3;
  loss.out = output({rows, width}), loss.columns = width - 1;
  cross_entropy_backward(context, loss);
  return outputs;
}

// The AVX512-BF16 instruction treats subnormal numbers as zeros; a kernel must not show it.
TEST_P(InstructionSets, TheWayOfRoundingDoesNotChangeABit) {
  // Sums in vectors of 8 and of 16 have different bits.
  const CpuIsa other = GetParam() <= CpuIsa::avx2 ? CpuIsa::avx2 : CpuIsa::avx512;
  if (!cpu_supports(other)) GTEST_SKIP() << "no other kernels here";
  const std::vector<Tensor> outputs = rounded_outputs(GetParam());
  const std::vector<Tensor> expected = rounded_outputs(other);
  for (size_t i = 0; i < outputs.size(); ++i) {
    SCOPED_TRACE(i);
    test::expect_same_bits(outputs[i], expected[i]);
  }
}

TEST_P(InstructionSets, DrawTheSameNormalNumbers) {
  const auto draw = [](CpuIsa isa, bool transposed) {
    OpMachine machine(isa, 2, {cpu::add_elementwise});
    OpContext context = machine.context();
    const Tensor out = host_tensor(DType::f64, {123, 431});
    random_normal(context, {out, 0.25, 2, RandomKey{5, 6}, 3, 1, 1000, transposed});
    return out;
  };
  for (const bool transposed : {false, true}) {
    test::expect_same_bits(draw(GetParam(), transposed), draw(CpuIsa::portable, transposed));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, InstructionSets, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
