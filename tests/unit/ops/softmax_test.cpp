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
      const Tensor out = random_strided(dtype, {c.rows, c.width}, 2, 3),
                   vector = random_tensor(dtype, {c.rows}, 4),
                   exact = host_tensor(DType::f64, {c.rows, c.width});

      // Each step runs in the dtype and, on the same numbers, in FP64; padding becomes 0.
      const auto map = [&](MapRowsArgs args, double terms) {
        args.x = x, args.out = out, args.columns = c.columns;
        map_rows(context_, args);
        args.x = to_f64(x), args.out = exact;
        if (args.by) args.by = to_f64(args.by);
        reference::map_rows(args);
        expect_close(out, exact, 1, constant(DType::f64, exact.shape(), terms));
        for (int64_t v = c.columns; v < c.width; ++v) EXPECT_EQ(test::element(out, v), 0);
      };
      map({.map = RowMap::soft_cap, .cap = 3}, 4);
      map({.map = RowMap::soft_cap_backward, .by = z, .cap = 3}, 4);

      const Tensor one = host_tensor(DType::f64, {c.rows});
      reduce_rows(context_, {RowValue::largest, x, vector, c.columns});
      reference::reduce_rows({RowValue::largest, to_f64(x), one, c.columns});
      expect_close(vector, one, 0);
      // A relative error of the size of the exponent's absolute error.
      map({.map = RowMap::exponential, .by = vector}, 8);
      const Tensor in_place = random_strided(dtype, {c.rows, c.width}, 3, 1, 4);  // as x
      map_rows(context_, {RowMap::exponential, in_place, in_place, c.columns, vector});
      test::expect_same_bits(in_place, out);
      reduce_rows(context_, {RowValue::sum, out, vector, c.columns});
      reference::reduce_rows({RowValue::sum, to_f64(out), one, c.columns});
      expect_close(vector, one, static_cast<double>(c.columns));
      map({.map = RowMap::divide, .by = vector}, 8);
    }
  }
}

TEST_P(SoftmaxTest, PicksTargets) {
  const Tensor x = random_strided(DType::f32, {3, 9}, 2, 1), out = host_tensor(DType::f32, {3});
  const auto pick = [&](const std::vector<int64_t>& targets) {
    reduce_rows(context_, {RowValue::pick, x, out, 8, {test::integers(DType::i32, targets), 5}});
  };
  pick({12, -1, 3});
  EXPECT_EQ(test::element(out, 0), test::element(x, 7));
  EXPECT_EQ(test::element(out, 1), 0);
  EXPECT_EQ(test::element(out, 2), 0) << "a column of another rank";
  pick({0, 13, 12});
  EXPECT_EQ(test::element(out, 1), 0) << "padding";
  EXPECT_EQ(test::element(out, 2), test::element(x, 2 * 9 + 7));
}

TEST_P(SoftmaxTest, WithoutColumns) {
  const Tensor x = random_tensor(DType::f32, {2, 4}, 1), out = host_tensor(DType::f32, {2});
  reduce_rows(context_, {RowValue::largest, x, out, 0});
  EXPECT_EQ(test::element(out, 1), -std::numeric_limits<double>::infinity());
  reduce_rows(context_, {RowValue::sum, x, out, 0});
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
      reduce_rows(context_, {RowValue::largest, logits, largest, c.columns});
      map_rows(context_, {RowMap::exponential, logits, p, c.columns, largest});
      reduce_rows(context_, {RowValue::sum, p, sums, c.columns});
      map_rows(context_, {RowMap::divide, p, p, c.columns, sums});
      reduce_rows(context_, {RowValue::pick, logits, picked, c.columns, {targets}});
      lse_join(context_, {to_f64(sums), to_f64(largest), joined});
      expect_close(test::converted(joined, dtype), lse, static_cast<double>(c.columns));
      test::expect_same_bits(to_f64(picked), target_logit);

      const Tensor weight = random_tensor(DType::f32, {c.rows}, 4);
      test::set_element(weight, c.rows - 1, 0);
      const Tensor factor = constant(DType::f64, {1}, 3.5);
      const Tensor fused = host_tensor(dtype, p.shape()), out = host_tensor(dtype, p.shape());
      cross_entropy_backward(context_, {logits, targets, lse, weight, factor, fused, c.columns});
      MapRowsArgs loss{RowMap::loss_backward, p, out, c.columns};
      loss.targets.ids = targets, loss.weight = weight, loss.factor = factor;
      map_rows(context_, loss);
      expect_close(out, to_f64(fused), static_cast<double>(c.columns),
                   constant(DType::f64, p.shape(), 3.5));
      EXPECT_EQ(test::element(out, out.elements() - 1), 0) << "a row of weight 0";
      loss.out = p;
      map_rows(context_, loss);
      test::expect_same_bits(p, out);
    }
  }
}

TEST_P(SoftmaxTest, RefusesWhatDoesNotFit) {
  const Tensor x = host_tensor(DType::f32, {2, 8}), row = host_tensor(DType::f32, {2});
  EXPECT_THAT(
      [&] {
        reduce_rows(context_, {RowValue::sum, x, row, 9});
      },
      ThrowsMessage<ShapeError>(HasSubstr("row_sum: expected columns in [0, 8], got 9")));
  EXPECT_THAT(
      [&] {
        reduce_rows(context_, {RowValue::largest, x, host_tensor(DType::f32, {3}), 8});
      },
      ThrowsMessage<ShapeError>(HasSubstr("row_largest")));
  EXPECT_THROW(map_rows(context_, {RowMap::divide, x, host_tensor(DType::bf16, {2, 8}), 8, row}),
               ShapeError);
  EXPECT_THROW(map_rows(context_, {RowMap::divide, x, x, 8}), ShapeError) << "by what";
  EXPECT_THROW(map_rows(context_, {RowMap::soft_cap, x, x, 8, {}, 0}), ShapeError);
  EXPECT_THROW(reduce_rows(context_, {RowValue::pick, x, row, 8}), ShapeError) << "no targets";
}

}  // namespace
}  // namespace viaduct
