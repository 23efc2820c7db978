// Epilogues of matrix products: bitwise equal to the product followed by the op that they replace,
// over instruction sets, dtypes, odd shapes and strides; and refusals.

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/activation.h"
#include "ops/elementwise.h"
#include "ops/gemm.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::strided_zeros;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  int64_t m, n, k;  // tokens, output features (of the gate if there is one) and input features
  DType dtype, out;
};

/// Shapes with edges of every kind; with a single row of blocks each task packs for itself.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {5, 70, 33},
                                {64, 128, 64},
                                {131, 97, 40},
                                {70, 200, 1100},
                                {3, 8, 0},
                                {0, 8, 4}}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      list.push_back({m, n, k, dtype, dtype});
      if (dtype == DType::bf16) list.push_back({m, n, k, dtype, DType::f32});
    }
  }
  return list;
}

std::string name_of(const Case& c) {
  return std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k) + ", " +
         std::string(dtype_name(c.dtype)) + " to " + std::string(dtype_name(c.out));
}

class GemmEpilogueTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_gemm, cpu::add_activation, cpu::add_elementwise}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, GemmEpilogueTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(GemmEpilogueTest, ResidualIsAnAddition) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(name_of(c));
    GemmArgs args{GemmForm::forward, random_strided(c.dtype, {c.m, c.k}, 3, 1),
                  random_strided(c.dtype, {c.n, c.k}, 1, 2), strided_zeros(c.out, {c.m, c.n}, 5),
                  random_tensor(c.dtype, {c.n}, 3)};
    const Tensor residual = random_strided(c.out, {c.m, c.n}, 2, 4);
    const Tensor branch = strided_zeros(c.out, {c.m, c.n}, 0);
    const Tensor expected = strided_zeros(c.out, {c.m, c.n}, 0);
    gemm(context_, {args.form, args.a, args.b, branch, args.bias});
    add(context_, {residual, branch, expected});
    args.epilogue.residual = residual;
    gemm(context_, args);
    expect_same_bits(args.c, expected);
    if (HasFailure()) return;
  }
}

TEST_P(GemmEpilogueTest, ActivatedIsAnActivation) {
  for (const Case& c : cases()) {
    for (const bool gated : {false, true}) {
      for (const ActivationKind kind : {ActivationKind::gelu, ActivationKind::silu}) {
        SCOPED_TRACE(name_of(c) + (gated ? " gated" : ""));
        const int64_t columns = gated ? 2 * c.n : c.n;
        GemmArgs args{GemmForm::forward, random_strided(c.dtype, {c.m, c.k}, 3, 1),
                      random_strided(c.dtype, {columns, c.k}, 1, 2),
                      strided_zeros(c.out, {c.m, columns}, 5),
                      random_tensor(c.dtype, {columns}, 3)};
        const Tensor raised = strided_zeros(c.out, {c.m, columns}, 0);
        const Tensor activated = strided_zeros(c.out, {c.m, c.n}, 0);
        gemm(context_, {args.form, args.a, args.b, raised, args.bias});
        activation_forward(context_, {kind, gated, raised, activated});
        args.epilogue.activated = strided_zeros(c.out, {c.m, c.n}, 7);
        args.epilogue.activation = kind;
        args.epilogue.gated = gated;
        gemm(context_, args);
        expect_same_bits(args.c, raised);
        expect_same_bits(args.epilogue.activated, activated);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(GemmEpilogueTest, RaisedIsTheGradientOfAnActivation) {
  for (const Case& c : cases()) {
    for (const bool gated : {false, true}) {
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(name_of(c) + (gated ? " gated" : "") + (in_place ? " in place" : ""));
        const Shape shape{c.m, gated ? 2 * c.n : c.n};
        const ActivationKind kind = gated ? ActivationKind::silu : ActivationKind::gelu_tanh;
        GemmArgs args{GemmForm::data_gradient, random_strided(c.dtype, {c.m, c.k}, 3, 1),
                      random_strided(c.dtype, {c.k, c.n}, 1, 2)};
        args.epilogue.raised = random_strided(c.out, shape, 4, 5, 3);
        args.epilogue.activation = kind;
        args.epilogue.gated = gated;
        args.c = in_place ? args.epilogue.raised : strided_zeros(c.out, shape, 5);
        const Tensor d_activated = strided_zeros(c.out, {c.m, c.n}, 0);
        const Tensor expected = strided_zeros(c.out, shape, 0);
        gemm(context_, {args.form, args.a, args.b, d_activated});
        activation_backward(context_, {kind, gated, d_activated, args.epilogue.raised, expected});
        gemm(context_, args);
        expect_same_bits(args.c, expected);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(GemmEpilogueTest, BitsDoNotDependOnThreads) {
  const auto run = [&](int threads) {
    OpMachine machine(GetParam(), threads, {cpu::add_gemm});
    OpContext context = machine.context();
    GemmArgs args{GemmForm::forward, random_tensor(DType::bf16, {150, 70}, 1),
                  random_tensor(DType::bf16, {540, 70}, 2), host_tensor(DType::bf16, {150, 540})};
    args.epilogue.activated = host_tensor(DType::bf16, {150, 270});
    args.epilogue.gated = true;
    gemm(context, args);
    return args.epilogue.activated;
  };
  const Tensor expected = run(1);
  for (const int threads : {2, 3}) expect_same_bits(run(threads), expected);
}

TEST_P(GemmEpilogueTest, RefusesWhatDoesNotFit) {
  const auto tensor = [](DType dtype, const Shape& shape) { return host_tensor(dtype, shape); };
  const GemmArgs plain{GemmForm::forward, tensor(DType::bf16, {4, 8}), tensor(DType::bf16, {6, 8}),
                       tensor(DType::bf16, {4, 6})};
  const auto refused = [&](const GemmArgs& args, const std::string& text) {
    EXPECT_THAT([&] { gemm(context_, args); }, ThrowsMessage<ShapeError>(HasSubstr(text)));
  };
  GemmArgs args = plain;
  args.epilogue.residual = tensor(DType::bf16, {4, 5});
  refused(args, "expected residual of shape [4, 6], got bf16 [4, 5]");
  args.epilogue.residual = tensor(DType::f32, {4, 6});
  refused(args, "expected residual of dtype bf16");
  args.epilogue.residual = args.c;
  refused(args, "residual is c itself");
  args.epilogue.residual = tensor(DType::bf16, {4, 6});
  args.mode = WriteMode::accumulate;
  refused(args, "need assignment");
  args.mode = WriteMode::assign;
  args.epilogue.activated = tensor(DType::bf16, {4, 6});
  refused(args, "expected one epilogue");
  args.epilogue.residual = {};
  args.epilogue.gated = true;
  refused(args, "expected activated of shape [4, 3]");
  args.epilogue = {};
  args.epilogue.raised = tensor(DType::bf16, {4, 6});
  refused(args, "needs data_gradient");
  GemmArgs back{GemmForm::data_gradient, tensor(DType::bf16, {4, 6}), tensor(DType::bf16, {6, 8}),
                tensor(DType::bf16, {4, 8})};
  back.epilogue.raised = tensor(DType::bf16, {4, 16});
  refused(back, "expected raised of shape [4, 8]");
  back.epilogue.gated = true;
  refused(back, "expected c of shape [4, 16]");
}

}  // namespace
}  // namespace viaduct
