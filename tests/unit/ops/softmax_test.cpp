// The steps of softmax cross entropy, each compared with the FP64 reference, and their composition
// with the fused ops.

#include "ops/softmax.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  int64_t rows, width, columns;
};
constexpr Case kCases[] = {{1, 1, 1}, {5, 7, 7}, {4, 65, 60}, {3, 1030, 1027}, {30, 2300, 2111}};

class SoftmaxTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_softmax, cpu::add_cross_entropy}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, SoftmaxTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

Tensor some_targets(int64_t rows, int64_t columns) {
  std::vector<int64_t> targets;
  for (int64_t t = 0; t < rows; ++t)
    targets.push_back(t % 3 == 1 ? -1 : (t * 31 + columns - 1) % columns);
  return test::integers(DType::i32, targets);
}

/// Every element is `value`.
Tensor constant(DType dtype, const Shape& shape, double value) {
  const Tensor tensor = host_tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) test::set_element(tensor, i, value);
  return tensor;
}

TEST_P(SoftmaxTest, StepsMatchTheReference) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.rows << " x " << c.width);
      const Tensor x = random_strided(dtype, {c.rows, c.width}, 3, 1, 4);
      const Tensor z = random_strided(dtype, {c.rows, c.width}, 1, 2, 2);
      const auto matrix = [&] { return random_strided(dtype, {c.rows, c.width}, 2, 3); };
      const auto exact_matrix = [&] { return host_tensor(DType::f64, {c.rows, c.width}); };
      const auto exact_vector = [&] { return host_tensor(DType::f64, {c.rows}); };
      const Tensor out = matrix(), vector = random_tensor(dtype, {c.rows}, 4);
      Tensor exact = exact_matrix();

      soft_cap(context_, {x, out, 3});
      reference::soft_cap({to_f64(x), exact, 3});
      expect_close(out, exact, 1, constant(DType::f64, exact.shape(), 4));
      soft_cap_backward(context_, {x, z, out, 3});
      reference::soft_cap_backward({to_f64(x), to_f64(z), exact, 3});
      expect_close(out, exact, 1, constant(DType::f64, exact.shape(), 4));

      Tensor one = exact_vector();
      row_largest(context_, {x, vector, c.columns});
      reference::row_largest({to_f64(x), one, c.columns});
      expect_close(vector, one, 0);
      row_exponential(context_, {x, vector, out, c.columns});
      reference::row_exponential({to_f64(x), to_f64(vector), exact, c.columns});
      // A relative error of the size of the exponent's absolute error.
      expect_close(out, exact, 1, constant(DType::f64, exact.shape(), 8));
      for (int64_t v = c.columns; v < c.width; ++v) EXPECT_EQ(test::element(out, v), 0);
      const Tensor in_place = random_strided(dtype, {c.rows, c.width}, 3, 1, 4);  // as x
      row_exponential(context_, {in_place, vector, in_place, c.columns});
      test::expect_same_bits(in_place, out);
      row_sum(context_, {out, vector, c.columns});
      reference::row_sum({to_f64(out), one, c.columns});
      expect_close(vector, one, static_cast<double>(c.columns));
      row_divide(context_, {out, vector, out});
      reference::row_divide({exact, to_f64(vector), exact});
      expect_close(out, exact, 1, constant(DType::f64, exact.shape(), 8));
    }
  }
}

TEST_P(SoftmaxTest, PicksTargets) {
  const Tensor x = random_strided(DType::f32, {3, 9}, 2, 1), out = host_tensor(DType::f32, {3});
  row_pick(context_, {x, test::integers(DType::i32, {12, -1, 3}), out, 8, 5});
  EXPECT_EQ(test::element(out, 0), test::element(x, 7));
  EXPECT_EQ(test::element(out, 1), 0);
  EXPECT_EQ(test::element(out, 2), 0) << "a column of another rank";
  row_pick(context_, {x, test::integers(DType::i32, {0, 13, 12}), out, 8, 5});
  EXPECT_EQ(test::element(out, 1), 0) << "padding";
  EXPECT_EQ(test::element(out, 2), test::element(x, 2 * 9 + 7));
}

TEST_P(SoftmaxTest, WithoutColumns) {
  const Tensor x = random_tensor(DType::f32, {2, 4}, 1), out = host_tensor(DType::f32, {2});
  row_largest(context_, {x, out, 0});
  EXPECT_EQ(test::element(out, 1), -std::numeric_limits<double>::infinity());
  row_sum(context_, {x, out, 0});
  EXPECT_EQ(test::element(out, 1), 0);
}

// The composition equals the fused loss and gradient.
TEST_P(SoftmaxTest, ComposesToTheFusedCrossEntropy) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Case& c : kCases) {
      const Tensor logits = random_tensor(dtype, {c.rows, c.width}, 1, 4);
      const Tensor targets = some_targets(c.rows, c.columns);
      const auto vector = [&] { return host_tensor(dtype, {c.rows}); };
      const auto wide = [&] { return host_tensor(DType::f64, {c.rows}); };
      const Tensor lse = wide(), target_logit = wide(), joined = wide(), largest = vector(),
                   sums = vector(), picked = vector();
      cross_entropy_forward(context_, {logits, targets, lse, target_logit, c.columns});
      const Tensor p = host_tensor(dtype, {c.rows, c.width});
      row_largest(context_, {logits, largest, c.columns});
      row_exponential(context_, {logits, largest, p, c.columns});
      row_sum(context_, {p, sums, c.columns});
      row_divide(context_, {p, sums, p});
      row_pick(context_, {logits, targets, picked, c.columns});
      lse_join(context_, {to_f64(sums), to_f64(largest), joined});
      expect_close(test::converted(joined, dtype), lse, static_cast<double>(c.columns));
      test::expect_same_bits(to_f64(picked), target_logit);

      const Tensor weight = random_tensor(DType::f32, {c.rows}, 4);
      test::set_element(weight, c.rows - 1, 0);
      const Tensor factor = constant(DType::f64, {1}, 3.5);
      const Tensor fused = host_tensor(dtype, p.shape()), out = host_tensor(dtype, p.shape());
      cross_entropy_backward(context_, {logits, targets, lse, weight, factor, fused, c.columns});
      softmax_loss_backward(context_, {p, targets, weight, factor, out, c.columns});
      expect_close(out, to_f64(fused), static_cast<double>(c.columns),
                   constant(DType::f64, p.shape(), 3.5));
      EXPECT_EQ(test::element(out, out.elements() - 1), 0) << "a row of weight 0";
      softmax_loss_backward(context_, {p, targets, weight, factor, p, c.columns});
      test::expect_same_bits(p, out);
    }
  }
}

TEST_P(SoftmaxTest, RefusesWhatDoesNotFit) {
  const Tensor x = host_tensor(DType::f32, {2, 8}), row = host_tensor(DType::f32, {2});
  EXPECT_THAT(
      [&] {
        row_sum(context_, {x, row, 9});
      },
      ThrowsMessage<ShapeError>(HasSubstr("row_sum: expected columns in [0, 8], got 9")));
  EXPECT_THAT(
      [&] {
        row_largest(context_, {x, host_tensor(DType::f32, {3}), 8});
      },
      ThrowsMessage<ShapeError>(HasSubstr("row_largest")));
  EXPECT_THROW(row_divide(context_, {x, row, host_tensor(DType::bf16, {2, 8})}), ShapeError);
  EXPECT_THROW(soft_cap(context_, {x, x, 0}), ShapeError);
}

}  // namespace
}  // namespace viaduct
