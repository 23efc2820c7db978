#include "ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::OpMachine;

const ActivationKind kKinds[] = {ActivationKind::gelu,       ActivationKind::gelu_tanh,
                                 ActivationKind::quick_gelu, ActivationKind::silu,
                                 ActivationKind::relu,       ActivationKind::squared_relu};

struct Data {
  Tensor in, out, d_out, d_in;
  Data(DType dtype, int64_t rows, int64_t width, bool gated, int64_t gap)
      : in(test::random_strided(dtype, {rows, gated ? 2 * width : width}, gap, 1, 6)),
        out(test::strided_zeros(dtype, {rows, width}, gap)),
        d_out(test::random_strided(dtype, {rows, width}, gap, 2)),
        d_in(test::strided_zeros(dtype, in.shape(), gap)) {}
};

/// The argument x is an input of functions of x: its magnitude counts as a term in addition to the
/// value (slopes are at most 1 + |x|), times the other factor.
Tensor forward_terms(const Data& data, bool gated) {
  const Tensor sums = host_tensor(DType::f64, data.out.shape());
  const int64_t width = data.out.dim(1);
  for (int64_t i = 0; i < sums.elements(); ++i) {
    const int64_t at = i / width * data.in.dim(1) + i % width;
    const double x = std::abs(element(data.in, at));
    sums.data<double>()[i] = (x + x * x) * (gated ? std::abs(element(data.in, at + width)) : 1);
  }
  return sums;
}

Tensor backward_terms(const Data& data, bool gated) {
  const Tensor sums = host_tensor(DType::f64, data.in.shape());
  const int64_t width = data.out.dim(1), row = data.in.dim(1);
  for (int64_t i = 0; i < data.out.elements(); ++i) {
    const int64_t at = i / width * row + i % width;
    const double x = std::abs(element(data.in, at)), d = std::abs(element(data.d_out, i));
    sums.data<double>()[at] =
        d * (1 + x + x * x) * (gated ? std::abs(element(data.in, at + width)) : 1);
    if (gated) sums.data<double>()[at + width] = d * (x + x * x);
  }
  return sums;
}

class Activation : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(Activation, FollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_activation});
  OpContext context = machine.context();
  for (ActivationKind kind : kKinds) {
    for (bool gated : {false, true}) {
      for (DType dtype : test::kKernelDTypes) {
        for (int64_t width : {1, 16, 37, 600}) {
          SCOPED_TRACE(fmt::format("kind {} {} {} width {}", static_cast<int>(kind),
                                   gated ? "gated" : "plain", dtype_name(dtype), width));
          const Data data(dtype, 5, width, gated, width == 37 ? 3 : 0);
          Data expected = data;
          for (Tensor Data::*t : {&Data::in, &Data::out, &Data::d_out, &Data::d_in}) {
            expected.*t = test::to_f64(data.*t);
          }
          activation_forward(context, {kind, gated, data.in, data.out});
          reference::activation_forward({kind, gated, expected.in, expected.out});
          test::expect_close(data.out, expected.out, 1, forward_terms(expected, gated));
          activation_backward(context, {kind, gated, data.d_out, data.in, data.d_in});
          reference::activation_backward({kind, gated, expected.d_out, expected.in, expected.d_in});
          test::expect_close(data.d_in, expected.d_in, 1, backward_terms(expected, gated));
        }
      }
    }
  }
}

// Clamped gates with an offset, as halves and interleaved (GPT-OSS).
TEST_P(Activation, ShapedGatesFollowTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_activation});
  OpContext context = machine.context();
  for (const GateShape& shape :
       {GateShape{.clamp = 3, .offset = 1, .interleaved = true}, GateShape{.clamp = 2},
        GateShape{.offset = -0.5}, GateShape{.interleaved = true}}) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      for (int64_t width : {1, 37, 600}) {
        SCOPED_TRACE(fmt::format("clamp {} offset {} interleaved {} {} width {}", shape.clamp,
                                 shape.offset, shape.interleaved, dtype_name(dtype), width));
        const Data data(dtype, 5, width, true, 3);
        Data expected = data;
        for (Tensor Data::*t : {&Data::in, &Data::out, &Data::d_out, &Data::d_in})
          expected.*t = test::to_f64(data.*t);
        constexpr ActivationKind kind = ActivationKind::quick_gelu;
        activation_forward(context, {kind, true, data.in, data.out, shape});
        reference::activation_forward({kind, true, expected.in, expected.out, shape});
        const auto terms = [](const Tensor& of) {  // |x| is at most 6
          const Tensor sums = host_tensor(DType::f64, of.shape());
          test::set_values(sums, std::vector<double>(static_cast<size_t>(sums.elements()), 300));
          return sums;
        };
        test::expect_close(data.out, expected.out, 1, terms(data.out));
        activation_backward(context, {kind, true, data.d_out, data.in, data.d_in, shape});
        reference::activation_backward(
            {kind, true, expected.d_out, expected.in, expected.d_in, shape});
        test::expect_close(data.d_in, expected.d_in, 1, terms(data.d_in));
      }
    }
  }
}

/// By hand: f(7) · (3 + 1) for a gate of 9; an up of −9 counts as −7.
TEST_P(Activation, ClampedValuesHaveNoGradient) {
  OpMachine machine(GetParam(), 1, {cpu::add_activation});
  OpContext context = machine.context();
  const GateShape shape{.clamp = 7, .offset = 1, .interleaved = true};
  const auto row = [](const std::vector<double>& values) {
    const Tensor tensor = host_tensor(DType::f64, {1, static_cast<int64_t>(values.size())});
    test::set_values(tensor, values);
    return tensor;
  };
  const auto f = [](double x) { return x / (1 + std::exp(-1.702 * x)); };
  const Tensor in = row({9, 3, 2, -9}), out = row({0, 0}), d_in = row({0, 0, 0, 0});
  activation_forward(context, {ActivationKind::quick_gelu, true, in, out, shape});
  EXPECT_NEAR(element(out, 0), f(7) * 4, 1e-12);
  EXPECT_NEAR(element(out, 1), f(2) * -6, 1e-12);
  activation_backward(context, {ActivationKind::quick_gelu, true, row({1, 1}), in, d_in, shape});
  EXPECT_EQ(element(d_in, 0), 0);
  EXPECT_NEAR(element(d_in, 1), f(7), 1e-12);
  EXPECT_NE(element(d_in, 2), 0);
  EXPECT_EQ(element(d_in, 3), 0);
}

// GELU by erf keeps its relative accuracy far out in the tails, where Φ(x) is small.
TEST_P(Activation, GeluIsAccurateInTheTails) {
  OpMachine machine(GetParam(), 1, {cpu::add_activation});
  OpContext context = machine.context();
  const Tensor in = host_tensor(DType::f32, {1, 4001}), out = host_tensor(DType::f32, {1, 4001});
  for (int64_t i = 0; i < in.elements(); ++i) {
    test::set_element(in, i, -12 + 0.005 * static_cast<double>(i));
  }
  activation_forward(context, {ActivationKind::gelu, false, in, out});
  for (int64_t i = 0; i < in.elements(); ++i) {
    const double x = element(in, i), exact = x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    EXPECT_LE(std::abs(element(out, i) - exact), 8 * 0x1p-23 * std::abs(exact)) << x;
  }
}

TEST_P(Activation, ExtremeInputsStayFiniteAndNanStaysNan) {
  OpMachine machine(GetParam(), 1, {cpu::add_activation});
  OpContext context = machine.context();
  for (ActivationKind kind : kKinds) {
    const Tensor in = host_tensor(DType::f32, {1, 5}), out = host_tensor(DType::f32, {1, 5});
    const Tensor ones = host_tensor(DType::f32, {1, 5}), d_in = host_tensor(DType::f32, {1, 5});
    const double values[] = {1e18, -1e18, 95, -95, std::numeric_limits<double>::quiet_NaN()};
    for (int64_t i = 0; i < 5; ++i) {
      test::set_element(in, i, values[i]);
      test::set_element(ones, i, 1);
    }
    activation_forward(context, {kind, false, in, out});
    activation_backward(context, {kind, false, ones, in, d_in});
    const bool squared = kind == ActivationKind::squared_relu;
    for (int64_t i : {0, 2}) {
      const double x = element(in, i);
      EXPECT_FLOAT_EQ(element(out, i), squared ? x * x : x) << static_cast<int>(kind);
      EXPECT_FLOAT_EQ(element(d_in, i), squared ? 2 * x : 1) << static_cast<int>(kind);
    }
    for (int64_t i : {1, 3}) {
      EXPECT_NEAR(element(out, i), 0, 1e-30) << static_cast<int>(kind);
      EXPECT_NEAR(element(d_in, i), 0, 1e-30) << static_cast<int>(kind);
    }
    EXPECT_TRUE(std::isnan(element(out, 4))) << static_cast<int>(kind);
    EXPECT_TRUE(std::isnan(element(d_in, 4))) << static_cast<int>(kind);
  }
}

TEST_P(Activation, GradientMayReplaceTheInput) {
  OpMachine machine(GetParam(), 2, {cpu::add_activation});
  OpContext context = machine.context();
  for (bool gated : {false, true}) {
    for (DType dtype : {DType::bf16, DType::f64}) {
      const Data apart(dtype, 7, 50, gated, 0), same(dtype, 7, 50, gated, 0);
      activation_backward(context,
                          {ActivationKind::silu, gated, apart.d_out, apart.in, apart.d_in});
      activation_backward(context, {ActivationKind::silu, gated, same.d_out, same.in, same.in});
      test::expect_same_bits(same.in, apart.d_in);
    }
  }
}

TEST_P(Activation, ThreadsDoNotChangeABit) {
  const auto run = [&](int threads) {
    OpMachine machine(GetParam(), threads, {cpu::add_activation});
    OpContext context = machine.context();
    const Data data(DType::f32, 130, 700, true, 0);
    activation_forward(context, {ActivationKind::gelu, true, data.in, data.out});
    return data.out;
  };
  test::expect_same_bits(run(3), run(1));
}

INSTANTIATE_TEST_SUITE_P(Isas, Activation, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST(ActivationReference, GradientsAreFiniteDifferences) {
  for (ActivationKind kind : kKinds) {
    for (bool gated : {false, true}) {
      const Data d(DType::f64, 3, 5, gated, 1);
      reference::activation_backward({kind, gated, d.d_out, d.in, d.d_in});
      const auto loss = [&] {
        reference::activation_forward({kind, gated, d.in, d.out});
        double sum = 0;
        for (int64_t i = 0; i < d.out.elements(); ++i)
          sum += element(d.out, i) * element(d.d_out, i);
        return sum;
      };
      for (int64_t i = 0; i < d.in.elements(); ++i) {
        const double value = element(d.in, i), h = 1e-5;
        test::set_element(d.in, i, value + h);
        const double up = loss();
        test::set_element(d.in, i, value - h);
        const double down = loss();
        test::set_element(d.in, i, value);
        EXPECT_NEAR((up - down) / (2 * h), element(d.d_in, i), 1e-7) << static_cast<int>(kind);
      }
    }
  }
}

TEST(ActivationChecks, RefuseWrongShapes) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_activation});
  OpContext context = machine.context();
  const auto tensor = [](DType dtype, const Shape& shape) { return host_tensor(dtype, shape); };
  const Tensor in = tensor(DType::f32, {4, 6});
  const auto kind = ActivationKind::relu;
  EXPECT_THROW(activation_forward(context, {kind, true, in, in}), ShapeError);
  EXPECT_THROW(activation_forward(context, {kind, false, in, tensor(DType::bf16, {4, 6})}),
               ShapeError);
  EXPECT_THROW(activation_forward(context, {kind, true, tensor(DType::f32, {4, 5}), in}),
               ShapeError);
  EXPECT_THROW(activation_forward(context, {kind, false, {}, in}), ShapeError);
  EXPECT_THROW(activation_backward(context, {kind, false, in, in, tensor(DType::f32, {4, 7})}),
               ShapeError);
  EXPECT_THROW(activation_forward(
                   context, {kind, false, tensor(DType::i32, {4, 6}), tensor(DType::i32, {4, 6})}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
