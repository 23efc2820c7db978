// The portable kernels (compiler vectors, for processors without kernels of their own) have the
// bits of the AVX2 kernels, so that a run on such a processor continues one on x86.

#include <gtest/gtest.h>

#include "ops/bias.h"
#include "ops/cross_entropy.h"
#include "ops/elementwise.h"
#include "ops/embedding.h"
#include "ops/gemm.h"
#include "ops/norm.h"
#include "support/op_testing.h"
#include "unit/ops/attention_cases.h"

namespace viaduct {
namespace {

using test::OpMachine;
using test::random_tensor;

constexpr std::initializer_list<OpMachine::AddFamily> kFamilies = {
    cpu::add_gemm,      cpu::add_norm,         cpu::add_activation, cpu::add_attention,
    cpu::add_bias,      cpu::add_embedding,    cpu::add_softmax,    cpu::add_elementwise,
    cpu::add_optimizer, cpu::add_cross_entropy};

class PortableKernels : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!cpu_supports(CpuIsa::avx2)) GTEST_SKIP() << "no AVX2 here to compare with";
  }

  /// Runs `make(context)`, which returns outputs, with both kernels.
  template <class Make>
  void expect_same(const Make& make) {
    OpMachine portable(CpuIsa::portable, 2, kFamilies), avx2(CpuIsa::avx2, 1, kFamilies);
    OpContext here = portable.context(), there = avx2.context();
    const std::vector<Tensor> outputs = make(here), expected = make(there);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      SCOPED_TRACE(i);
      test::expect_same_bits(outputs[i], expected[i]);
    }
  }
};

TEST_P(PortableKernels, Products) {
  const DType dtype = GetParam();
  for (const int64_t rows : {1, 3, 70}) {  // few rows use other kernels
    expect_same([&](OpContext& context) {
      const Tensor x = random_tensor(dtype, {rows, 45}, 1), w = random_tensor(dtype, {37, 45}, 2);
      const Tensor dy = random_tensor(dtype, {rows, 37}, 3);
      const Tensor y = host_tensor(dtype, {rows, 37}), dx = host_tensor(DType::f32, {rows, 45});
      const Tensor dw = random_tensor(DType::f32, {37, 45}, 4),
                   sums = host_tensor(DType::f32, {37});
      gemm(context, {GemmForm::forward, x, w, y, random_tensor(dtype, {37}, 5)});
      gemm(context, {GemmForm::data_gradient, dy, w, dx});
      GemmArgs weight{GemmForm::weight_gradient, dy, x, dw};
      weight.mode = WriteMode::accumulate;
      gemm(context, weight);
      column_sum(context, {dy, sums});
      return std::vector<Tensor>{y, dx, dw, sums};
    });
  }
}

TEST_P(PortableKernels, Attention) {
  test::AttentionCase plain{.name = "plain", .q_offsets = {0, 37, 111}, .kv_offsets = {0, 37, 111}};
  plain.heads = 4, plain.width = 20, plain.value_width = 12, plain.gap = 3;
  test::AttentionCase rest = plain;
  rest.window = 17, rest.softcap = 2, rest.dropout = 0.2, rest.size = 3;
  test::AttentionCase one_query = plain;
  one_query.q_offsets = {0, 1, 2}, one_query.diagonal = {36, 73};
  for (const test::AttentionCase& c : {plain, rest, one_query}) {
    expect_same([&](OpContext& context) {
      const test::AttentionData data(c, GetParam());
      attention_forward(context, data.forward());
      attention_delta(context, {data.out, data.d_out, data.delta});
      attention_backward(context, data.backward());
      return std::vector<Tensor>{data.out, data.lse, data.delta, data.dq, data.dk, data.dv};
    });
  }
}

TEST_P(PortableKernels, RowsAndElements) {
  const DType dtype = GetParam();
  expect_same([&](OpContext& context) {
    const Tensor x = random_tensor(dtype, {9, 83}, 1, 5), dy = random_tensor(dtype, {9, 83}, 2);
    NormForwardArgs norm;
    norm.x = x, norm.weight = random_tensor(DType::f32, {83}, 3);
    norm.y = host_tensor(dtype, x.shape()), norm.rstd = host_tensor(DType::f32, {9});
    norm_forward(context, norm);
    NormBackwardArgs back;
    back.dy = dy, back.x = x, back.weight = norm.weight, back.rstd = norm.rstd;
    back.dx = host_tensor(dtype, x.shape()), back.d_weight = host_tensor(DType::f32, {83});
    norm_backward(context, back);
    std::vector<Tensor> outputs{norm.y, norm.rstd, back.dx, back.d_weight};
    for (const ActivationKind kind :
         {ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::silu,
          ActivationKind::quick_gelu, ActivationKind::relu, ActivationKind::squared_relu}) {
      const Tensor in = random_tensor(dtype, {9, 2 * 41}, 4, 9), out = host_tensor(dtype, {9, 41});
      const Tensor d_in = host_tensor(dtype, in.shape());
      activation_forward(context, {kind, true, in, out});
      activation_backward(context, {kind, true, random_tensor(dtype, {9, 41}, 5), in, d_in});
      outputs.insert(outputs.end(), {out, d_in});
    }
    const Tensor sum = host_tensor(dtype, x.shape());
    add(context, {x, dy, sum});
    outputs.push_back(sum);
    return outputs;
  });
}

INSTANTIATE_TEST_SUITE_P(Formats, PortableKernels,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

}  // namespace
}  // namespace viaduct
