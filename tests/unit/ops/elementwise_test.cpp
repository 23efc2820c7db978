// Elementwise ops compared with the FP64 reference or their definition: dtypes, strides, aliasing,
// and random numbers that do not depend on how a tensor is cut.

#include "ops/elementwise.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::converted;
using test::expect_close;
using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using test::values;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Shape kShapes[] = {{1}, {33}, {5, 7}, {3, 4, 70}, {2, 20000}, {0, 5}, {200, 1}};

class ElementwiseTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_elementwise}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(ElementwiseTest, AddMatchesTheReference) {
  for (const Shape& shape : kShapes) {
    for (int64_t gap : {0, 3}) {
      for (DType a : test::kKernelDTypes) {
        for (DType b : test::kKernelDTypes) {
          for (DType out : test::kKernelDTypes) {
            const AddArgs args{random_strided(a, shape, gap, 1), random_strided(b, shape, 0, 2),
                               random_strided(out, shape, gap, 3)};
            const AddArgs exact{to_f64(args.a), to_f64(args.b), to_f64(args.out)};
            add(context_, args);
            reference::add(exact);
            expect_close(args.out, exact.out, 1);
          }
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, ResultsMayAliasOperands) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor a = random_strided(dtype, {30, 50}, 3, 1), b = random_tensor(dtype, {30, 50}, 2);
    const Tensor sum = host_tensor(dtype, {30, 50}), twice = host_tensor(dtype, {30, 50});
    add(context_, {a, b, sum});
    scale(context_, {sum, twice, 2});
    add(context_, {a, b, a});
    expect_same_bits(a, sum);
    scale(context_, {a, a, 2});
    expect_same_bits(a, twice);
  }
}

TEST_P(ElementwiseTest, ScaleMatchesTheReference) {
  for (const Shape& shape : kShapes) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const ScaleArgs args{random_strided(dtype, shape, 3, 1), random_strided(dtype, shape, 5, 2),
                           -1.3};
      const ScaleArgs exact{to_f64(args.x), to_f64(args.out), -1.3};
      scale(context_, args);
      reference::scale(exact);
      expect_close(args.out, exact.out, 1);
    }
  }
}

TEST_P(ElementwiseTest, FillSetsEveryElement) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const Tensor out = random_tensor(dtype, {7, 33}, 1);
    fill(context_, {out, 2.5});
    EXPECT_THAT(values(out), testing::Each(2.5));
  }
  EXPECT_THROW(fill(context_, {random_strided(DType::f32, {4, 4}, 1, 1), 0}), ShapeError);
}

TEST_P(ElementwiseTest, CopyConvertsBetweenAllFloatingDtypes) {
  const DType all[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  for (const Shape& shape : kShapes) {
    for (DType from : all) {
      for (DType to : all) {
        for (WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
          const CopyArgs args{random_strided(from, shape, 3, 1), random_strided(to, shape, 2, 2),
                              mode};
          std::vector<double> expected = values(args.from);
          const std::vector<double> before = values(args.to);
          for (size_t i = 0; i < expected.size(); ++i) {
            if (mode == WriteMode::accumulate) expected[i] += before[i];
          }
          const Tensor reference = host_tensor(DType::f64, shape);
          test::set_values(reference, expected);
          const Tensor sums = test::magnitudes(reference);
          copy(context_, args);
          // With an f64 input or output, arithmetic has the precision of the narrower side.
          expect_close(converted(args.to, to == DType::f64 ? DType::f32 : to), reference, 1, sums);
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, RowsAreAddedOneAfterTheOther) {
  for (const Shape& shape : {Shape{1, 5}, Shape{3, 1}, Shape{7, 40000}, Shape{130, 33}}) {
    for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const Tensor x = random_tensor(dtype, shape, 3, 50);
      const DType format = dtype == DType::f64 ? dtype : DType::f32;
      const Tensor out = random_tensor(format, {shape[1]}, 4),
                   expected = host_tensor(format, {shape[1]});
      for (int64_t row = 0; row < shape[0]; ++row) {
        copy(context_,
             {x.select(row), expected, row == 0 ? WriteMode::assign : WriteMode::accumulate});
      }
      sum_rows(context_, {x, out});
      expect_same_bits(out, expected);
    }
  }
  const Tensor x = random_tensor(DType::bf16, {2, 4}, 5);
  EXPECT_THROW(sum_rows(context_, {x, host_tensor(DType::bf16, {4})}), ShapeError);
  EXPECT_THROW(sum_rows(context_, {x, host_tensor(DType::f32, {5})}), ShapeError);
}

TEST_P(ElementwiseTest, CopyOfEqualDtypesKeepsEveryBit) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32,
                      DType::i16, DType::i8, DType::u8, DType::u16}) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < 35 * 41; ++i) numbers.push_back(i % 100);
    const Tensor from = test::integers(dtype, numbers).view({35, 41});
    const Tensor to = test::strided_zeros(dtype, {35, 41}, 4);
    copy(context_, {from, to});
    expect_same_bits(to, from);
    const Tensor turned = host_tensor(dtype, {41, 35});
    copy(context_, {from, turned.transposed(0, 1)});
    expect_same_bits(turned.transposed(0, 1), from);
    EXPECT_EQ(test::element(turned, 1), test::element(from, 41));
  }
}

TEST_P(ElementwiseTest, CopyTransposesPlanesAndConverts) {
  const Tensor from = random_tensor(DType::bf16, {3, 40, 70}, 1);
  const Tensor to = random_tensor(DType::f32, {3, 70, 40}, 2);
  const std::vector<double> x = values(from), before = values(to);
  copy(context_, {from.transposed(1, 2), to, WriteMode::accumulate});
  for (int64_t p = 0; p < 3; ++p) {
    for (int64_t r = 0; r < 70; ++r) {
      for (int64_t c = 0; c < 40; ++c) {
        const int64_t i = (p * 70 + r) * 40 + c, j = (p * 40 + c) * 70 + r;
        ASSERT_EQ(test::element(to, i),
                  static_cast<float>(before[static_cast<size_t>(i)] + x[static_cast<size_t>(j)]));
      }
    }
  }
  // Moves heads to the front: dims 0 and 1 exchanged, rows contiguous.
  const Tensor heads = host_tensor(DType::bf16, {40, 3, 70});
  copy(context_, {from.transposed(0, 1), heads});
  expect_same_bits(heads, from.transposed(0, 1));
}

TEST_P(ElementwiseTest, DropoutMatchesTheReference) {
  const Tensor tokens = test::integers(DType::i64, {5, 0, (int64_t{1} << 40) + 3, 17});
  for (int64_t width : {1, 6, 64, 331, 20000}) {
    for (int64_t first_feature : {int64_t{0}, int64_t{3}, int64_t{1024}, (int64_t{1} << 35) + 2}) {
      for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
        for (double probability : {0.0, 0.1, 0.7}) {
          for (bool residual : {false, true}) {
            if (width > 1000 && dtype != DType::bf16) continue;
            DropoutArgs args{random_strided(dtype, {4, width}, 3, 1, 2),
                             residual ? random_tensor(dtype, {4, width}, 2) : Tensor{},
                             random_strided(dtype, {4, width}, 1, 3),
                             probability,
                             RandomKey{11, 12},
                             tokens,
                             first_feature};
            DropoutArgs exact = args;
            exact.x = to_f64(args.x), exact.residual = to_f64(args.residual);
            exact.out = host_tensor(DType::f64, {4, width});
            DropoutArgs sums = exact;
            sums.x = test::magnitudes(exact.x), sums.out = host_tensor(DType::f64, {4, width});
            if (residual) sums.residual = test::magnitudes(exact.residual);
            dropout(context_, args);
            reference::dropout(exact);
            reference::dropout(sums);
            expect_close(args.out, exact.out, 2, sums.out);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, DropoutKeepsTheRightShareAndAllowsAliases) {
  const Tensor x = host_tensor(DType::f32, {40, 1000});
  fill(context_, {x, 1});
  std::vector<int64_t> tokens(40);
  for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = static_cast<int64_t>(t);
  const Tensor index = test::integers(DType::i64, tokens);
  const Tensor out = host_tensor(DType::f32, {40, 1000});
  dropout(context_, {x, {}, out, 0.25, RandomKey{1, 2}, index, 0});
  double sum = 0;
  for (double value : values(out)) sum += value;
  EXPECT_NEAR(sum / 40000, 1, 5 * std::sqrt(0.25 / 0.75 / 40000));
  dropout(context_, {x, {}, x, 0.25, RandomKey{1, 2}, index, 0});
  expect_same_bits(x, out);
  const Tensor residual = random_tensor(DType::f32, {40, 1000}, 3),
               sum_out = host_tensor(DType::f32, {40, 1000});
  dropout(context_, {out, residual, sum_out, 0.5, RandomKey{1, 2}, index, 0});
  dropout(context_, {out, residual, residual, 0.5, RandomKey{1, 2}, index, 0});
  expect_same_bits(residual, sum_out);
}

TEST_P(ElementwiseTest, RandomNormalDoesNotDependOnTheCut) {
  constexpr int64_t kRows = 31, kColumns = 45;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    const auto args = [&](const Tensor& out, int64_t row, int64_t column, bool transposed) {
      return RandomNormalArgs{out, 0.5, 2, RandomKey{7, 8}, row, column, kColumns, transposed};
    };
    const Tensor whole = host_tensor(dtype, {kRows, kColumns});
    random_normal(context_, args(whole, 0, 0, false));
    for (int64_t row : {0, 7}) {
      for (int64_t column : {0, 1, 18}) {
        const Tensor part = test::strided_zeros(dtype, {kRows - row - 2, 20}, 3);
        random_normal(context_, args(part, row, column, false));
        const Tensor same = whole.slice(0, row, kRows - row - 2).slice(1, column, 20);
        expect_same_bits(part, same);
        const Tensor turned = host_tensor(dtype, {20, kRows - row - 2});
        random_normal(context_, args(turned, row, column, true));
        expect_same_bits(turned.transposed(0, 1), same);
      }
    }
    const Tensor flat = host_tensor(dtype, {kRows * kColumns});  // rank 1: one row
    random_normal(context_, args(flat, 0, 0, false));
    expect_same_bits(flat, whole.view({kRows * kColumns}));
  }
}

TEST_P(ElementwiseTest, RandomNormalFollowsItsDefinition) {
  const Tensor out = host_tensor(DType::f64, {1, 6});
  random_normal(context_, {out, 0, 1, RandomKey{3, 4}, 0, 10, 100});
  for (uint64_t i = 0; i < 6; ++i) {
    const auto w = philox4x32(philox_key({3, 4}), (10 + i) / 2, 0);
    const auto uniform = [](uint32_t high, uint32_t low) {
      return (static_cast<double>((uint64_t{high} << 32 | low) >> 12) + 0.5) / 0x1p52;
    };
    const double radius = std::sqrt(-2 * std::log(uniform(w[0], w[1])));
    const double angle = 2 * std::numbers::pi * uniform(w[2], w[3]);
    EXPECT_NEAR(test::element(out, static_cast<int64_t>(i)),
                radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle)), 1e-14);
  }
}

TEST_P(ElementwiseTest, RandomNormalHasTheRightMoments) {
  constexpr int64_t kCount = 200000;
  const Tensor out = host_tensor(DType::f32, {kCount});
  random_normal(context_, {out, 0, 1, RandomKey{1, 1}, 0, 0, kCount});
  double moments[5] = {};
  for (double x : values(out)) {
    for (int m = 1; m <= 4; ++m) moments[m] += std::pow(x, m) / kCount;
  }
  const double sigma = 1 / std::sqrt(static_cast<double>(kCount));
  EXPECT_NEAR(moments[1], 0, 5 * sigma);
  EXPECT_NEAR(moments[2], 1, 5 * sigma * std::sqrt(2));
  EXPECT_NEAR(moments[3], 0, 5 * sigma * std::sqrt(15));
  EXPECT_NEAR(moments[4], 3, 5 * sigma * std::sqrt(96));
}

TEST_P(ElementwiseTest, RefusesWhatDoesNotFit) {
  const auto f32 = [](const Shape& shape) { return host_tensor(DType::f32, shape); };
  EXPECT_THAT(
      [&] {
        add(context_, {f32({3}), f32({4}), f32({4})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("add: expected a of shape [4], got f32 [3]")));
  EXPECT_THROW(add(context_, {host_tensor(DType::f64, {4}), f32({4}), f32({4})}), ShapeError);
  EXPECT_THROW(copy(context_, {f32({4}), host_tensor(DType::i32, {4})}), ShapeError);
  EXPECT_THROW(copy(context_, {f32({4}), Tensor{}}), ShapeError);
  const Tensor whole = host_tensor(DType::i32, {4});
  EXPECT_THROW(copy(context_, {whole, whole, WriteMode::accumulate}), ShapeError);
  EXPECT_THROW(scale(context_, {f32({4, 4}).transposed(0, 1), f32({4, 4}), 1}), ShapeError);
  EXPECT_THAT(
      [&] {
        dropout(context_, {f32({2, 4}), {}, f32({2, 4}), 1.0, {}, {}, 0});
      },
      ThrowsMessage<ShapeError>(HasSubstr("expected a probability in [0, 1), got 1")));
  EXPECT_THROW(dropout(context_, {f32({2, 4}), {}, f32({2, 4}), 0.5, {}, {}, 0}), ShapeError);
  EXPECT_THROW(random_normal(context_, {f32({2, 2, 2}), 0, 1, {}, 0, 0, 2}), ShapeError);
  OpTable empty;
  OpContext nothing{machine_.device(), empty};
  EXPECT_THAT([&] { fill(nothing, {f32({4}), 0}); }, ThrowsMessage<DeviceError>(HasSubstr("fill")));
}

TEST_P(ElementwiseTest, BitsDoNotDependOnThreads) {
  OpMachine other(GetParam(), 1, {cpu::add_elementwise});
  OpContext context = other.context();
  const Tensor one = host_tensor(DType::f32, {90000}), two = host_tensor(DType::f32, {90000});
  random_normal(context_, {one, 0, 1, RandomKey{1, 1}, 0, 0, 1});
  random_normal(context, {two, 0, 1, RandomKey{1, 1}, 0, 0, 1});
  expect_same_bits(two, one);
}

}  // namespace
}  // namespace viaduct
