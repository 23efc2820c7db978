// xIELU compared with the FP64 reference, and the reference's gradients with differences.

#include "ops/xielu.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::random_strided;
using test::random_tensor;
using test::to_f64;

/// Bounds of the terms that an element is the sum of, for x and, of gradients, that of the result.
Tensor bounds_of(const Tensor& x, const Tensor& d_out = {}) {
  const Tensor bounds = host_tensor(DType::f64, x.shape());
  std::vector<double> values;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const double size = std::abs(test::element(x, i));
    values.push_back(d_out ? std::abs(test::element(d_out, i)) * (4 * size + 4)
                           : 2 * size * size + 4 * size);
  }
  test::set_values(bounds, values);
  return bounds;
}

class XieluTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_xielu}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, XieluTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(XieluTest, MatchesTheReference) {
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 33}, Shape{70, 500}}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const DType statistic = dtype == DType::f64 ? DType::f64 : DType::f32;
      const Tensor in = random_strided(dtype, shape, 3, 1),
                   out = random_strided(dtype, shape, 5, 2);
      const Tensor p = random_tensor(dtype, {1}, 3), n = random_tensor(dtype, {1}, 4);
      const Tensor exact_in = to_f64(in), exact_out = to_f64(out);
      xielu_forward(context_, {in, out, p, n});
      reference::xielu_forward({exact_in, exact_out, to_f64(p), to_f64(n)});
      test::expect_close(out, exact_out, 4, bounds_of(exact_in));

      XieluBackwardArgs back{
          random_strided(dtype, shape, 2, 5), in, in, p, n, random_tensor(statistic, {1}, 6),
          random_tensor(statistic, {1}, 7)};
      XieluBackwardArgs exact{
          to_f64(back.d_out),    exact_in, exact_in, to_f64(p), to_f64(n), to_f64(back.d_alpha_p),
          to_f64(back.d_alpha_n)};
      const Tensor bounds = bounds_of(exact_in, exact.d_out);
      xielu_backward(context_, back);
      reference::xielu_backward(exact);
      test::expect_close(back.d_in, exact.d_in, 4, bounds);
      // A term is at most the square of an element times the gradient of its result.
      const Tensor terms = host_tensor(DType::f64, {1});
      test::set_values(terms, {1 + 30 * static_cast<double>(shape.elements())});
      test::expect_close(back.d_alpha_p, exact.d_alpha_p, 1, terms);
      test::expect_close(back.d_alpha_n, exact.d_alpha_n, 1, terms);
    }
  }
}

/// Values of the paper's formula, computed by hand for slopes of 0.8.
TEST_P(XieluTest, IsTheFormula) {
  const Tensor in = host_tensor(DType::f64, {1, 4}), out = host_tensor(DType::f64, {1, 4});
  const Tensor p = host_tensor(DType::f64, {1}), n = host_tensor(DType::f64, {1});
  test::set_values(in, {2, 0, -1, -20});
  test::set_values(p, {std::log(std::expm1(0.8))});
  test::set_values(n, {std::log(std::expm1(0.3))});
  xielu_forward(context_, {in, out, p, n});
  EXPECT_NEAR(test::element(out, 0), 0.8 * 4 + 1, 1e-12);
  EXPECT_NEAR(test::element(out, 1), -0.8e-6, 1e-11);
  EXPECT_NEAR(test::element(out, 2), 0.8 * (std::exp(-1.0) - 1 + 1) - 0.5, 1e-12);
  EXPECT_NEAR(test::element(out, 3), 0.8 * (std::exp(-20.0) - 1 + 20) - 10, 1e-12);
}

TEST_P(XieluTest, GradientsAreThoseOfTheFormula) {
  const double step = 1e-6;
  for (const double x : {1.3, -0.7}) {
    const auto value = [&](double at, double raw_p, double raw_n) {
      const Tensor in = host_tensor(DType::f64, {1, 1}), p = host_tensor(DType::f64, {1}),
                   n = host_tensor(DType::f64, {1});
      test::set_values(in, {at});
      test::set_values(p, {raw_p});
      test::set_values(n, {raw_n});
      xielu_forward(context_, {in, in, p, n});
      return test::element(in, 0);
    };
    const Tensor one = host_tensor(DType::f64, {1, 1}), in = host_tensor(DType::f64, {1, 1}),
                 p = host_tensor(DType::f64, {1}), n = host_tensor(DType::f64, {1}),
                 d_p = host_tensor(DType::f64, {1}), d_n = host_tensor(DType::f64, {1});
    test::set_values(one, {1});
    test::set_values(in, {x});
    test::set_values(p, {0.3});
    test::set_values(n, {-0.4});
    test::set_values(d_p, {0});
    test::set_values(d_n, {0});
    xielu_backward(context_, {one, in, in, p, n, d_p, d_n});
    const auto slope = [&](double dx, double dp, double dn) {
      return (value(x + dx, 0.3 + dp, -0.4 + dn) - value(x - dx, 0.3 - dp, -0.4 - dn)) / (2 * step);
    };
    EXPECT_NEAR(test::element(in, 0), slope(step, 0, 0), 1e-8);
    EXPECT_NEAR(test::element(d_p, 0), slope(0, step, 0), 1e-8);
    EXPECT_NEAR(test::element(d_n, 0), slope(0, 0, step), 1e-8);
  }
}

TEST_P(XieluTest, SlopesOfFrozenWeightsAreNotSummed) {
  const Tensor x = random_tensor(DType::f32, {3, 5}, 1), d = random_tensor(DType::f32, {3, 5}, 2);
  const Tensor alpha = random_tensor(DType::f32, {1}, 3);
  xielu_backward(context_, {d, x, x, alpha, alpha, {}, {}});
  EXPECT_THROW(xielu_backward(context_, {d, x, x, alpha, alpha, alpha, {}}), ShapeError);
}

TEST_P(XieluTest, RefusesWhatDoesNotFit) {
  const Tensor x = host_tensor(DType::f32, {2, 3}), alpha = host_tensor(DType::f32, {1});
  EXPECT_THROW(xielu_forward(context_, {x, host_tensor(DType::f32, {3, 2}), alpha, alpha}),
               ShapeError);
  EXPECT_THROW(xielu_forward(context_, {x, x, host_tensor(DType::f32, {2}), alpha}), ShapeError);
  EXPECT_THROW(xielu_forward(context_, {x, x, alpha, host_tensor(DType::f64, {1})}), ShapeError);
}

}  // namespace
}  // namespace viaduct
