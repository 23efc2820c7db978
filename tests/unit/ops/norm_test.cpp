#include "ops/norm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::OpMachine;

struct NormCase {
  Shape shape;
  NormKind kind = NormKind::rms_norm;
  bool bias = false, f32_weight = false, dx_add = false, statistics = true;
  int64_t gap = 0;
  double offset = 0;
};

const NormCase kCases[] = {
    {{3, 64}},
    {{5, 7}, NormKind::layer_norm, true},
    {{1, 1}, NormKind::layer_norm},
    {{200, 33}, NormKind::layer_norm, true, true, true, true, 5},
    {{9, 768}, NormKind::rms_norm, false, true, true, true, 3, 1.0},
    {{17, 3, 16}, NormKind::rms_norm, false, false, false, true, 0},
    {{40, 5, 20}, NormKind::layer_norm, true, false, true, true, 4, 0.5},
    {{2, 2500}, NormKind::rms_norm, false, false, true, true, 1},
    {{700, 40}, NormKind::layer_norm, true, true, false, true, 0, 1.0},
    {{0, 8}},
};

/// Formats of x, dx_add and dx, and of y and dy.
struct Formats {
  DType stream, activation;
};

/// One format for all, and an FP32 stream under 16-bit activations.
std::vector<Formats> formats() {
  std::vector<Formats> list{{DType::f32, DType::bf16}, {DType::f32, DType::f16}};
  for (const DType dtype : test::kKernelDTypes) list.push_back({dtype, dtype});
  return list;
}

std::string to_string(const Formats& f) {
  return fmt::format("{} to {}", dtype_name(f.stream), dtype_name(f.activation));
}

struct NormData {
  Tensor x, weight, bias, y, mean, rstd, dy, dx_add, dx, d_weight, d_bias;
  NormCase c;

  NormData(const NormCase& given, DType dtype) : NormData(given, Formats{dtype, dtype}) {}
  NormData(const NormCase& given, const Formats& formats) : c(given) {
    const auto [stream, dtype] = formats;
    const int64_t width = c.shape.dim(-1), rows = c.shape.elements() / width;
    const DType sums = dtype == DType::f64 ? DType::f64 : DType::f32;
    const bool layer = c.kind == NormKind::layer_norm;
    x = test::random_strided(stream, c.shape, c.gap, 1, 2);
    weight = test::random_tensor(c.f32_weight ? sums : dtype, {width}, 2);
    if (c.bias) bias = test::random_tensor(c.f32_weight ? sums : dtype, {width}, 3);
    y = test::strided_zeros(dtype, c.shape, c.gap);
    if (c.statistics && layer) mean = host_tensor(sums, {rows});
    if (c.statistics) rstd = host_tensor(sums, {rows});
    dy = test::random_strided(dtype, c.shape, c.gap, 4);
    if (c.dx_add) dx_add = test::random_strided(stream, c.shape, c.gap, 5);
    dx = test::strided_zeros(stream, c.shape, c.gap);
    d_weight = test::random_tensor(sums, {width}, 6);
    if (c.bias) d_bias = test::random_tensor(sums, {width}, 7);
  }
  NormForwardArgs forward() const {
    return {c.kind, x, weight, bias, y, mean, rstd, 1e-5, c.offset};
  }
  NormBackwardArgs backward() const {
    return {c.kind, dy, x, weight, mean, rstd, dx_add, dx, d_weight, d_bias, c.offset};
  }
  NormData in_f64() const {
    NormData copy = *this;
    for (Tensor NormData::*member :
         {&NormData::x, &NormData::weight, &NormData::bias, &NormData::y, &NormData::mean,
          &NormData::rstd, &NormData::dy, &NormData::dx_add, &NormData::dx, &NormData::d_weight,
          &NormData::d_bias}) {
      copy.*member = test::to_f64(this->*member);
    }
    return copy;
  }
  int64_t width() const { return c.shape.dim(-1); }
  double mean_of_row(int64_t r) const { return mean ? element(mean, r) : 0; }
};

/// Σ|terms| of y: x̂ is a difference times rstd, which has a relative error of a few roundings.
Tensor y_terms(const NormData& d) {
  const Tensor sums = host_tensor(DType::f64, d.x.shape());
  for (int64_t i = 0; i < d.x.elements(); ++i) {
    const int64_t r = i / d.width(), h = i % d.width();
    const double scale = std::abs(element(d.weight, h)) + std::abs(d.c.offset);
    double mean_size = 0;  // the terms of the mean
    if (d.mean) {
      for (int64_t j = 0; j < d.width(); ++j)
        mean_size += std::abs(element(d.x, r * d.width() + j)) / static_cast<double>(d.width());
    }
    // Errors of the mean enter once more through the variance.
    const double x_hat = (std::abs(element(d.x, i)) + mean_size) * element(d.rstd, r);
    sums.data<double>()[i] = 2 * x_hat * scale + (d.bias ? std::abs(element(d.bias, h)) : 0);
  }
  return sums;
}

/// Σ|terms| of dx (dw false), of d_weight, d_bias.
Tensor gradient_terms(const NormData& d, char which) {
  const int64_t width = d.width(), rows = d.x.elements() / width;
  const Tensor sums = which == 'x' ? host_tensor(DType::f64, d.x.shape())
                                   : test::magnitudes(which == 'w' ? d.d_weight : d.d_bias);
  for (int64_t r = 0; r < rows; ++r) {
    const double rstd = element(d.rstd, r), mean = std::abs(d.mean_of_row(r));
    double g_sum = 0, projection = 0;
    const auto x_hat = [&](int64_t i) {
      return (std::abs(element(d.x, r * width + i)) + mean) * rstd;
    };
    const auto g = [&](int64_t i) {
      return std::abs(element(d.dy, r * width + i)) *
             (std::abs(element(d.weight, i)) + std::abs(d.c.offset));
    };
    for (int64_t i = 0; i < width; ++i) {
      g_sum += g(i) / static_cast<double>(width);
      projection += g(i) * x_hat(i) / static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      const int64_t at = r * width + i;
      if (which == 'x') {
        sums.data<double>()[at] = (d.dx_add ? std::abs(element(d.dx_add, at)) : 0) +
                                  rstd * (g(i) + g_sum + x_hat(i) * projection);
      } else {
        sums.data<double>()[i] += std::abs(element(d.dy, at)) * (which == 'w' ? x_hat(i) : 1);
      }
    }
  }
  return sums;
}

class Norm : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(Norm, ForwardFollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_norm});
  OpContext context = machine.context();
  for (const NormCase& c : kCases) {
    for (const Formats& f : formats()) {
      SCOPED_TRACE(to_string(c.shape) + " " + to_string(f));
      const NormData data(c, f), expected = data.in_f64();
      norm_forward(context, data.forward());
      reference::norm_forward(expected.forward());
      const auto width = static_cast<double>(data.width());
      test::expect_close(data.y, expected.y, width, y_terms(expected));
      test::expect_close(data.rstd, expected.rstd, width);
      if (data.mean) {
        const Tensor terms = host_tensor(DType::f64, expected.mean.shape());
        for (int64_t i = 0; i < data.x.elements(); ++i)
          terms.data<double>()[i / data.width()] += std::abs(element(data.x, i)) / width;
        test::expect_close(data.mean, expected.mean, width, terms);
      }
    }
  }
}

// For a wide row whose mean is large compared with its deviation, only the rounding of the mean
// itself is left: a plain sum of 65,536 elements of 4,096 would be off by several units.
TEST_P(Norm, ALargeMeanCostsHalfAUnitOfIt) {
  constexpr int64_t kWidth = 65536;
  constexpr double kMean = 5000;
  OpMachine machine(GetParam(), 2, {cpu::add_norm});
  OpContext context = machine.context();
  NormForwardArgs args{NormKind::layer_norm, test::random_tensor(DType::f32, {2, kWidth}, 1),
                       test::random_tensor(DType::f32, {kWidth}, 2)};
  std::vector<double> x = test::values(args.x);
  for (double& value : x) value += kMean;
  test::set_values(args.x, x);
  test::set_values(args.weight, std::vector<double>(kWidth, 1));
  NormForwardArgs exact = args;
  exact.x = test::to_f64(args.x), exact.weight = test::to_f64(args.weight);
  args.y = host_tensor(DType::f32, {2, kWidth}), exact.y = host_tensor(DType::f64, {2, kWidth});
  args.mean = host_tensor(DType::f32, {2}), exact.mean = host_tensor(DType::f64, {2});
  args.rstd = host_tensor(DType::f32, {2}), exact.rstd = host_tensor(DType::f64, {2});
  norm_forward(context, args);
  reference::norm_forward(exact);
  const double unit = std::ldexp(1.0, -11);  // in the last place of FP32 numbers from 4,096 on
  for (int64_t row = 0; row < 2; ++row) {
    EXPECT_NEAR(element(args.mean, row), element(exact.mean, row), 0.51 * unit);
    // A sum of 8,192 squares in each lane.
    EXPECT_NEAR(element(args.rstd, row), element(exact.rstd, row),
                std::ldexp(1.0, -24) * std::sqrt(8192.0) * element(exact.rstd, row));
  }
  for (int64_t i = 0; i < 2 * kWidth; i += 997)
    ASSERT_NEAR(element(args.y, i), element(exact.y, i), 0.55 * unit * element(exact.rstd, 0)) << i;
}

TEST_P(Norm, BackwardFollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_norm});
  OpContext context = machine.context();
  for (const NormCase& c : kCases) {
    for (const Formats& f : formats()) {
      SCOPED_TRACE(to_string(c.shape) + " " + to_string(f));
      const NormData data(c, f);
      norm_forward(context, data.forward());
      const NormData expected = data.in_f64();
      const Tensor x_terms = gradient_terms(expected, 'x'), w_terms = gradient_terms(expected, 'w');
      const Tensor b_terms = data.d_bias ? gradient_terms(expected, 'b') : Tensor{};
      norm_backward(context, data.backward());
      reference::norm_backward(expected.backward());
      const auto width = static_cast<double>(data.width());
      const auto rows = static_cast<double>(data.x.elements()) / width;
      test::expect_close(data.dx, expected.dx, width, x_terms);
      test::expect_close(data.d_weight, expected.d_weight, rows, w_terms);
      if (data.d_bias) test::expect_close(data.d_bias, expected.d_bias, rows, b_terms);
    }
  }
}

TEST_P(Norm, ThreadsDoNotChangeABit) {
  const NormCase c{{1000, 96}, NormKind::layer_norm, true, true, true};
  const auto run = [&](int threads) {
    OpMachine machine(GetParam(), threads, {cpu::add_norm});
    OpContext context = machine.context();
    NormData data(c, DType::bf16);
    norm_forward(context, data.forward());
    norm_backward(context, data.backward());
    return data;
  };
  const NormData one = run(1);
  for (int threads : {2, 5}) {
    const NormData many = run(threads);
    for (Tensor NormData::*member : {&NormData::y, &NormData::mean, &NormData::rstd, &NormData::dx,
                                     &NormData::d_weight, &NormData::d_bias}) {
      test::expect_same_bits(many.*member, one.*member);
    }
  }
}

TEST_P(Norm, WorksInPlace) {
  OpMachine machine(GetParam(), 2, {cpu::add_norm});
  OpContext context = machine.context();
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const NormCase c{{30, 40}, NormKind::layer_norm, true, false, true};
    const NormData apart(c, dtype), over_dy(c, dtype), over_add(c, dtype);
    norm_forward(context, apart.forward());
    norm_backward(context, apart.backward());
    NormBackwardArgs args = over_dy.backward();
    args.mean = apart.mean, args.rstd = apart.rstd, args.dx = args.dy;
    norm_backward(context, args);
    test::expect_same_bits(args.dx, apart.dx);
    test::expect_same_bits(args.d_weight, apart.d_weight);
    args = over_add.backward();
    args.mean = apart.mean, args.rstd = apart.rstd, args.dx = args.dx_add;
    norm_backward(context, args);
    test::expect_same_bits(args.dx, apart.dx);
    NormForwardArgs forward = over_add.forward();
    forward.y = forward.x;
    norm_forward(context, forward);
    test::expect_same_bits(forward.y, apart.y);
  }
}

// The stream may be wider than activations, never narrower; other combinations of formats are
// refused.
TEST_P(Norm, RefusesOtherPairsOfFormats) {
  OpMachine machine(GetParam(), 1, {cpu::add_norm});
  OpContext context = machine.context();
  for (const auto& [stream, activation] :
       {Formats{DType::bf16, DType::f32}, Formats{DType::bf16, DType::f16},
        Formats{DType::f64, DType::f32}, Formats{DType::f32, DType::f64}}) {
    SCOPED_TRACE(to_string(Formats{stream, activation}));
    const NormData data({{4, 16}}, Formats{stream, activation});
    EXPECT_THROW(norm_forward(context, data.forward()), ShapeError);
    EXPECT_THROW(norm_backward(context, data.backward()), ShapeError);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Norm, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

// The reference itself: its gradients are those of Σ y · dy.
TEST(NormReference, GradientsAreFiniteDifferences) {
  for (NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
    NormCase c{{4, 3, 6}, kind, kind == NormKind::layer_norm, false, true, true, 2, 0.5};
    NormData d(c, DType::f64);
    for (Tensor* t : {&d.d_weight, &d.d_bias}) {
      if (t->defined()) *t = host_tensor(DType::f64, t->shape());
    }
    const auto loss = [&] {
      reference::norm_forward(d.forward());
      double sum = 0;
      for (int64_t i = 0; i < d.y.elements(); ++i) {
        sum += element(d.y, i) * element(d.dy, i) + element(d.x, i) * element(d.dx_add, i);
      }
      return sum;
    };
    loss();
    reference::norm_backward(d.backward());
    const auto check = [&](const Tensor& variable, const Tensor& gradient) {
      for (int64_t i = 0; i < variable.elements(); ++i) {
        const double value = element(variable, i), h = 1e-5;
        test::set_element(variable, i, value + h);
        const double up = loss();
        test::set_element(variable, i, value - h);
        const double down = loss();
        test::set_element(variable, i, value);
        EXPECT_NEAR((up - down) / (2 * h), element(gradient, i), 1e-8) << i;
      }
    };
    check(d.x, d.dx);
    check(d.weight, d.d_weight);
    if (d.bias) check(d.bias, d.d_bias);
  }
}

TEST(NormChecks, NameTheArgument) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_norm});
  OpContext context = machine.context();
  const auto message = [&](auto&& change) -> std::string {
    NormData d({{4, 6}}, DType::bf16);
    NormForwardArgs forward = d.forward();
    change(forward);
    try {
      norm_forward(context, forward);
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  using Args = NormForwardArgs;
  const auto tensor = [](DType dtype, const Shape& shape) { return host_tensor(dtype, shape); };
  const auto expect = [&](const std::string& argument, auto&& change) {
    const std::string found = message(change);
    EXPECT_EQ(found.find("norm_forward: "), 0u) << found;
    EXPECT_NE(found.find(' ' + argument), std::string::npos) << found;
  };
  expect("x", [&](Args& a) { a.x = {}; });
  expect("x", [&](Args& a) { a.x = tensor(DType::i32, {4, 6}); });
  expect("x", [&](Args& a) { a.x = tensor(DType::bf16, {24}); });
  expect("y", [&](Args& a) { a.y = tensor(DType::bf16, {4, 5}); });
  expect("y", [&](Args& a) { a.y = tensor(DType::f32, {4, 6}); });
  expect("weight", [&](Args& a) { a.weight = tensor(DType::f16, {6}); });
  expect("weight", [&](Args& a) { a.weight = tensor(DType::f32, {7}); });
  expect("bias", [&](Args& a) { a.bias = tensor(DType::f32, {6}); });
  expect("mean", [&](Args& a) { a.mean = tensor(DType::f32, {4}); });
  expect("rstd", [&](Args& a) { a.rstd = tensor(DType::f32, {6}); });
}

}  // namespace
}  // namespace viaduct
