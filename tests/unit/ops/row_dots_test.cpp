// Dot products of rows, and the gradient of the router's weights from them, compared with the FP64
// reference and with the gradient that reads the results of experts.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/expert_rows.h"
#include "ops/reference/reference.h"
#include "ops/routing.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::integers;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RowDotsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_expert_rows, cpu::add_routing}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, RowDotsTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

/// Compares with the reference on FP64 copies.
void expect_reference(OpContext& context, const RowDotsArgs& args) {
  RowDotsArgs exact = args, sums = args;
  exact.x = to_f64(args.x), exact.y = to_f64(args.y), exact.out = to_f64(args.out);
  sums.x = test::magnitudes(args.x), sums.y = test::magnitudes(args.y);
  sums.out = test::magnitudes(args.out);
  row_dots(context, args);
  reference::row_dots(exact);
  reference::row_dots(sums);
  expect_close(args.out, exact.out, static_cast<double>(args.x.dim(1) + 1), sums.out);
}

TEST_P(RowDotsTest, MatchTheReference) {
  const Tensor offsets = integers(DType::i32, {0, 4, 4, 5, 19});  // the second has no rows
  for (const int64_t width : {1, 45, 64, 1100}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const DType sum = dtype == DType::f64 ? dtype : DType::f32;
      for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
        RowDotsArgs args{random_strided(dtype, {19, width}, 3, 1),
                         random_strided(dtype, {19, width}, 5, 2),
                         random_tensor(sum, {19, 1}, 3),
                         {},
                         mode};
        expect_reference(context_, args);
        args.y = random_tensor(sum, {4, width}, 4), args.offsets = offsets;
        expect_reference(context_, args);
      }
    }
  }
}

TEST_P(RowDotsTest, RowsOfNoExpertAreNotChanged) {
  const Tensor out = random_tensor(DType::f32, {6, 1}, 1);
  const std::vector<double> before = test::values(to_f64(out));
  row_dots(context_, {random_tensor(DType::bf16, {6, 9}, 2), random_tensor(DType::bf16, {2, 9}, 3),
                      out, integers(DType::i32, {1, 2, 4})});
  for (const int64_t row : {0, 4, 5})
    EXPECT_EQ(test::element(out, row), before[static_cast<size_t>(row)]) << row;
  for (const int64_t row : {1, 2, 3})
    EXPECT_NE(test::element(out, row), before[static_cast<size_t>(row)]) << row;
}

TEST_P(RowDotsTest, BitsDoNotDependOnThreadsOrOtherRows) {
  const Tensor x = random_tensor(DType::bf16, {40, 301}, 1),
               y = random_tensor(DType::bf16, {40, 301}, 2);
  std::vector<Tensor> found;
  for (const int threads : {1, 3}) {
    test::OpMachine machine(GetParam(), threads, {cpu::add_expert_rows});
    OpContext context = machine.context();
    found.push_back(host_tensor(DType::f32, {40, 1}));
    row_dots(context, {x, y, found.back()});
  }
  expect_same_bits(found[0], found[1]);
  const Tensor last = host_tensor(DType::f32, {1, 1});
  row_dots(context_, {x.slice(0, 39, 1), y.slice(0, 39, 1), last});
  expect_same_bits(last, found[0].slice(0, 39, 1));
}

/// Two tokens with three choices of two copies each. Row 4 is nobody's.
CombineWeightsBackwardArgs some_weights(DType dtype) {
  CombineWeightsBackwardArgs args;
  args.position = integers(DType::i32, {0, 6, -1, -1, 3, 2, 1, 5, 8, 7, -1, -1}).view({2, 6});
  args.dots = random_tensor(dtype, {9, 1}, 1);
  args.weight = random_tensor(dtype, {2, 3}, 2);
  args.d_weight = host_tensor(dtype, {2, 3});
  args.copies = 2;
  return args;
}

TEST_P(RowDotsTest, WeightsHaveTheGradientOfTheResults) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    CombineWeightsBackwardArgs args = some_weights(dtype);
    CombineRowsBackwardArgs results;
    results.rows = random_tensor(DType::f64, {9, 11}, 3);
    results.d_out = random_tensor(DType::f64, {2, 11}, 4);
    results.position = args.position, results.copies = args.copies;
    results.weight = to_f64(args.weight);
    results.d_rows = host_tensor(DType::f64, {9, 11});
    results.d_weight = host_tensor(DType::f64, {2, 3});
    reference::combine_rows_backward(results);
    const Tensor dots = host_tensor(DType::f64, {9, 1});
    reference::row_dots({results.d_rows, results.rows, dots});
    args.dots = test::converted(dots, dtype);
    combine_weights_backward(context_, args);
    for (int64_t i = 0; i < 6; ++i) {
      const double expected = test::element(results.d_weight, i);
      EXPECT_NEAR(test::element(args.d_weight, i), expected, dtype == DType::f64 ? 1e-12 : 1e-5);
      EXPECT_EQ(expected == 0, i == 1 || i == 5) << "choices without a row";
    }
  }
}

TEST_P(RowDotsTest, RowsWithoutAPlaceAreNotRead) {
  const CombineWeightsBackwardArgs args = some_weights(DType::f32);
  args.dots.data<float>()[4] = kNan;
  combine_weights_backward(context_, args);
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(test::element(args.d_weight, i), test::element(args.d_weight, i)) << i;
}

TEST_P(RowDotsTest, SpreadingNeedsNoResults) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const DType sum = dtype == DType::f64 ? dtype : DType::f32;
    CombineRowsBackwardArgs args;
    args.d_out = random_strided(dtype, {2, 45}, 3, 4);
    args.position = some_weights(sum).position, args.copies = 2;
    args.weight = random_tensor(sum, {2, 3}, 2);
    args.d_rows = random_strided(dtype, {9, 45}, 3, 1);
    CombineRowsBackwardArgs with = args;
    with.rows = random_tensor(dtype, {9, 45}, 7);
    with.d_rows = random_strided(dtype, {9, 45}, 3, 1);
    with.d_weight = host_tensor(sum, {2, 3});
    combine_rows_backward(context_, args);
    combine_rows_backward(context_, with);
    expect_same_bits(args.d_rows, with.d_rows);
  }
}

// A weight of 0 gets no gradient, though its derivative by the score may be large: where a weight
// has become 0, so has the derivative of the score by the logit, of each score function. Weights
// that are only small have theirs.
TEST_P(RowDotsTest, GradientsOfLogitsLackNothingWhereWeightsBecomeZero) {
  for (const ScoreFunction score :
       {ScoreFunction::softmax, ScoreFunction::sigmoid, ScoreFunction::sqrt_softplus}) {
    for (const bool other : {false, true}) {  // pre_softmax, or not normalized
      RoutingRule rule;
      rule.score = score, rule.topk = 3;
      rule.pre_softmax = other && score == ScoreFunction::softmax;
      rule.normalize = !other;
      RouteArgs args{rule, host_tensor(DType::f32, {1, 4}), Tensor(),
                     host_tensor(DType::f32, {1, 3}), host_tensor(DType::i32, {1, 3})};
      test::set_values(args.logits, {2, -60, -300, -400});
      route(context_, args);
      ASSERT_GT(test::element(args.probabilities, 1), 0);
      ASSERT_EQ(test::element(args.probabilities, 2), 0);
      const Tensor exact = random_tensor(DType::f32, {1, 3}, 5, 1e3);  // by the results
      const Tensor dots = host_tensor(DType::f32, {3, 1});
      for (int64_t j = 0; j < 3; ++j)
        dots.data<float>()[j] = args.probabilities.data<float>()[j] * exact.data<float>()[j];
      const Tensor by_dots = host_tensor(DType::f32, {1, 3});
      combine_weights_backward(context_, {dots, integers(DType::i32, {0, 1, 2}).view({1, 3}),
                                          args.probabilities, by_dots});
      EXPECT_EQ(test::element(by_dots, 2), 0);
      const Tensor d_exact = host_tensor(DType::f32, {1, 4}), d = host_tensor(DType::f32, {1, 4});
      route_backward(context_, {rule, exact, args.logits, args.choice, d_exact, {}});
      route_backward(context_, {rule, by_dots, args.logits, args.choice, d, {}});
      for (int64_t e = 0; e < 4; ++e) {
        const double expected = test::element(d_exact, e);
        EXPECT_NEAR(test::element(d, e), expected, 1e-5 * std::abs(expected)) << e;
      }
      EXPECT_NE(test::element(d, 1), 0);
    }
  }
}

TEST_P(RowDotsTest, ChecksRefuseWhatDoesNotFit) {
  const Tensor x = host_tensor(DType::f32, {5, 8}), out = host_tensor(DType::f32, {5, 1});
  EXPECT_THROW(row_dots(context_, {x, host_tensor(DType::f32, {5, 7}), out}), ShapeError);
  EXPECT_THROW(row_dots(context_, {x, host_tensor(DType::f32, {4, 8}), out}), ShapeError);
  EXPECT_THROW(row_dots(context_, {x, x, host_tensor(DType::bf16, {5, 1})}), ShapeError);
  EXPECT_THROW(row_dots(context_, {x, host_tensor(DType::f64, {5, 8}), out}), ShapeError);
  EXPECT_THROW(
      row_dots(context_, {x, host_tensor(DType::f32, {2, 8}), out, integers(DType::i32, {0, 5})}),
      ShapeError);
  CombineWeightsBackwardArgs weights = some_weights(DType::f32);
  weights.copies = 4;
  EXPECT_THAT([&] { combine_weights_backward(context_, weights); },
              ThrowsMessage<ShapeError>(HasSubstr("6 places of a token in 4 copies")));
  CombineRowsBackwardArgs half;
  half.d_out = half.d_rows = x, half.rows = x;
  half.position = host_tensor(DType::i32, {5, 1}), half.weight = out;
  EXPECT_THAT([&] { combine_rows_backward(context_, half); },
              ThrowsMessage<ShapeError>(HasSubstr("both or neither of rows and d_weight")));
}

}  // namespace
}  // namespace viaduct
