#include "ops/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::element;
using test::OpMachine;

constexpr int64_t kPositions = 50;

/// cos (or sin) of position × frequency, in f32 or f64.
Tensor table(DType dtype, int64_t half, bool sine) {
  const Tensor result = host_tensor(dtype, {kPositions, half});
  for (int64_t i = 0; i < result.elements(); ++i) {
    const double angle =
        static_cast<double>(i / half) *
        std::pow(100.0, -static_cast<double>(i % half) / static_cast<double>(half));
    test::set_element(result, i, sine ? std::sin(angle) : std::cos(angle));
  }
  return result;
}

Tensor positions(int64_t tokens) {
  std::vector<int64_t> values;
  for (int64_t t = 0; t < tokens; ++t) values.push_back(t * 7 % kPositions);
  return test::integers(DType::i32, values);
}

class Rotary : public ::testing::TestWithParam<CpuIsa> {};

TEST_P(Rotary, FollowsTheReference) {
  OpMachine machine(GetParam(), 2, {cpu::add_rotary});
  OpContext context = machine.context();
  struct Sizes {
    int64_t tokens, heads, width, half, gap;
  };
  for (const Sizes& s : {Sizes{9, 3, 64, 32, 0},
                         {4, 2, 10, 3, 2},
                         {300, 5, 20, 10, 0},
                         {2, 1, 2, 1, 0},
                         {5, 2, 80, 20, 7},
                         {3, 2, 8, 0, 0},
                         {0, 2, 8, 4, 0}}) {
    for (DType dtype : test::kKernelDTypes) {
      for (int way = 0; way < 4; ++way) {
        const bool inverse = way % 2 == 1, interleaved = way >= 2;
        SCOPED_TRACE(fmt::format("[{}, {}, {}] half {} {} interleaved {}", s.tokens, s.heads,
                                 s.width, s.half, dtype_name(dtype), interleaved));
        const Tensor x = test::random_strided(dtype, {s.tokens, s.heads, s.width}, s.gap, 1);
        const Tensor expected = test::to_f64(x), terms = test::magnitudes(x);
        const Tensor cos = table(DType::f32, s.half, false), sin = table(DType::f32, s.half, true);
        for (int64_t i = 0; i < x.elements(); ++i) {
          const int64_t column = i % s.width;
          if (column >= 2 * s.half) continue;
          int64_t pair = column < s.half ? i + s.half : i - s.half;
          if (interleaved) pair = column % 2 == 0 ? i + 1 : i - 1;
          terms.data<double>()[i] = std::abs(element(x, i)) + std::abs(element(x, pair));
        }
        rotary(context, {x, positions(s.tokens), cos, sin, inverse, interleaved});
        reference::rotary({expected, positions(s.tokens), test::to_f64(cos), test::to_f64(sin),
                           inverse, interleaved});
        test::expect_close(x, expected, 2, terms);
      }
    }
  }
}

// Interleaved pairs are halves in another order, bit for bit: rotating halves and then interleaving
// equals interleaving and then rotating pairs.
TEST_P(Rotary, NeighboursAreHalvesInAnotherOrder) {
  OpMachine machine(GetParam(), 2, {cpu::add_rotary});
  OpContext context = machine.context();
  constexpr int64_t kTokens = 7, kHeads = 2, kWidth = 44, kHalf = 20;
  const Tensor cos = table(DType::f32, kHalf, false), sin = table(DType::f32, kHalf, true);
  const auto reordered = [&](const Tensor& halves) {
    const Tensor result = host_tensor(halves.dtype(), halves.shape());
    for (int64_t row = 0; row < kTokens * kHeads; ++row) {
      for (int64_t i = 0; i < kWidth; ++i) {
        const int64_t from = i >= 2 * kHalf ? i : i % 2 * kHalf + i / 2;
        test::set_element(result, row * kWidth + i, element(halves, row * kWidth + from));
      }
    }
    return result;
  };
  for (DType dtype : test::kKernelDTypes) {
    for (const bool inverse : {false, true}) {
      const Tensor halves = test::random_tensor(dtype, {kTokens, kHeads, kWidth}, 5);
      const Tensor neighbours = reordered(halves);
      rotary(context, {halves, positions(kTokens), cos, sin, inverse});
      rotary(context, {neighbours, positions(kTokens), cos, sin, inverse, true});
      test::expect_same_bits(neighbours, reordered(halves));
    }
  }
}

// The scores of rotated queries and keys depend only on the difference of their positions.
TEST_P(Rotary, ScoresDependOnDistance) {
  OpMachine machine(GetParam(), 1, {cpu::add_rotary});
  OpContext context = machine.context();
  const Tensor cos = table(DType::f32, 8, false), sin = table(DType::f32, 8, true);
  const auto score = [&](int64_t query, int64_t key) {
    const Tensor q = test::random_tensor(DType::f32, {1, 1, 16}, 3);
    const Tensor k = test::random_tensor(DType::f32, {1, 1, 16}, 4);
    rotary(context, {q, test::integers(DType::i32, {query}), cos, sin});
    rotary(context, {k, test::integers(DType::i32, {key}), cos, sin});
    double sum = 0;
    for (int64_t i = 0; i < 16; ++i) sum += element(q, i) * element(k, i);
    return sum;
  };
  EXPECT_NEAR(score(5, 2), score(40, 37), 1e-5);
  EXPECT_GT(std::abs(score(5, 2) - score(5, 4)), 1e-2);
}

TEST_P(Rotary, InverseGivesTheInputBack) {
  OpMachine machine(GetParam(), 1, {cpu::add_rotary});
  OpContext context = machine.context();
  const Tensor x = test::random_tensor(DType::f64, {6, 2, 12}, 1), before = test::to_f64(x);
  const Tensor cos = table(DType::f64, 5, false), sin = table(DType::f64, 5, true);
  rotary(context, {x, positions(6), cos, sin, false});
  EXPECT_GT(std::abs(element(x, 24) - element(before, 24)), 1e-3);
  rotary(context, {x, positions(6), cos, sin, true});
  for (int64_t i = 0; i < x.elements(); ++i) EXPECT_NEAR(element(x, i), element(before, i), 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Isas, Rotary, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST(RotaryChecks, RefuseWhatDoesNotFit) {
  OpMachine machine(CpuIsa::portable, 1, {cpu::add_rotary});
  OpContext context = machine.context();
  const Tensor x = test::random_tensor(DType::f32, {2, 2, 8}, 1);
  const Tensor cos = table(DType::f32, 4, false), sin = table(DType::f32, 4, true);
  const auto at = [](const std::vector<int64_t>& p) { return test::integers(DType::i32, p); };
  EXPECT_NO_THROW(rotary(context, {x, at({0, kPositions - 1}), cos, sin}));
  EXPECT_THROW(rotary(context, {x, at({0, kPositions}), cos, sin}), ShapeError);
  EXPECT_THROW(rotary(context, {x, at({-1, 0}), cos, sin}), ShapeError);
  EXPECT_THROW(rotary(context, {x, at({0}), cos, sin}), ShapeError);
  EXPECT_THROW(
      rotary(context, {x, at({0, 1}), table(DType::f32, 5, false), table(DType::f32, 5, true)}),
      ShapeError);
  EXPECT_THROW(rotary(context, {x, at({0, 1}), cos, table(DType::f32, 3, true)}), ShapeError);
  EXPECT_THROW(
      rotary(context, {x, at({0, 1}), table(DType::f64, 4, false), table(DType::f64, 4, true)}),
      ShapeError);
}

}  // namespace
}  // namespace viaduct
