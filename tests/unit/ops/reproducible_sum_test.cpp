#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ops/optimizer.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::OpMachine;

Tensor tensor_of(const std::vector<float>& values) {
  const Tensor x = host_tensor(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), x.data<float>());
  return x;
}

/// Values of very different sizes that nearly cancel.
std::vector<float> wild_values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    const int exponent = static_cast<int>(random() % 60) - 40;
    const auto mantissa = static_cast<float>(static_cast<int64_t>(random() % 20000001) - 10000000);
    values.push_back(std::ldexp(mantissa * 1e-7f, exponent));
    if (i % 3 == 2) values[i] = -values[i - 1];
  }
  return values;
}

/// The sum, with far more precision than FP64.
long double exact_sum(const std::vector<float>& values) {
  long double high = 0, low = 0;  // double-double arithmetic of long double
  for (float v : values) {
    const long double x = v, sum = high + x, part = sum - high;
    low += (high - (sum - part)) + (x - part);
    high = sum;
  }
  return high + low;
}

/// state becomes the merge of both, by their wide forms.
void merge(OpContext& context, const Tensor& state, const Tensor& other) {
  const Tensor wide = host_tensor(DType::i64, {kWideSumSize}),
               added = host_tensor(DType::i64, {kWideSumSize});
  widen_sum(context, {state, wide});
  widen_sum(context, {other, added});
  for (int64_t i = 0; i < kWideSumSize; ++i) wide.data<int64_t>()[i] += added.data<int64_t>()[i];
  narrow_sum(context, {wide, state});
}

class ReproducibleSum : public ::testing::TestWithParam<CpuIsa> {
 protected:
  Tensor empty() const { return host_tensor(DType::f64, {kReproducibleSumSize}); }
  Tensor state_of(const Tensor& x, bool squared = false, int threads = 1, Tensor weight = {}) {
    OpMachine machine(GetParam(), threads, {cpu::add_optimizer});
    OpContext context = machine.context();
    const Tensor state = empty();
    reproducible_sum(context, {x, weight, squared, state});
    return state;
  }
  double value_of(const Tensor& state) {
    OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
    OpContext context = machine.context();
    const Tensor out = host_tensor(DType::f64, {1});
    sum_value(context, {state, out});
    return out.data<double>()[0];
  }
};

TEST_P(ReproducibleSum, OrderGroupingAndThreadsDoNotChangeABit) {
  std::vector<float> values = wild_values(300001, 1);
  for (bool squared : {false, true}) {
    const Tensor whole = state_of(tensor_of(values), squared);
    test::expect_same_bits(state_of(tensor_of(values), squared, 3), whole);
    std::mt19937_64 random(7);
    for (int round = 0; round < 4; ++round) {
      std::vector<float> mixed = values;
      std::shuffle(mixed.begin(), mixed.end(), random);
      test::expect_same_bits(state_of(tensor_of(mixed), squared), whole);
      // Cut at random places; some groups are added to one state, others are merged as states.
      OpMachine machine(GetParam(), 2, {cpu::add_optimizer});
      OpContext context = machine.context();
      const Tensor all = tensor_of(mixed), state = empty();
      for (int64_t begin = 0; begin < all.elements();) {
        const int64_t size =
            std::min<int64_t>(all.elements() - begin, static_cast<int64_t>(random() % 40000));
        const Tensor part = all.slice(0, begin, size);
        if (random() % 2 == 0) {
          reproducible_sum(context, {part, {}, squared, state});
        } else {
          const Tensor other = empty();
          reproducible_sum(context, {part, {}, squared, other});
          merge(context, state, other);
        }
        begin += size;
      }
      test::expect_same_bits(state, whole);
    }
  }
}

TEST_P(ReproducibleSum, IsCloseToTheExactSum) {
  for (uint64_t seed = 1; seed < 6; ++seed) {
    const std::vector<float> values = wild_values(5000, seed);
    const auto exact = exact_sum(values);
    EXPECT_NEAR(value_of(state_of(tensor_of(values))), static_cast<double>(exact),
                4 * 0x1p-53 * std::abs(static_cast<double>(exact)));
  }
  // A sum that plain summation loses completely.
  EXPECT_EQ(value_of(state_of(tensor_of({1e20f, 3.0f, -1e20f, 0x1p-20f}))), 3 + 0x1p-20);
  EXPECT_EQ(value_of(state_of(tensor_of({-0.5f}))), -0.5);
  EXPECT_EQ(value_of(state_of(tensor_of({0, 0, 0}))), 0);
  EXPECT_EQ(value_of(empty()), 0);
}

TEST_P(ReproducibleSum, SquaresAndWeightsAreExactProducts) {
  const std::vector<float> values = wild_values(4001, 3);
  std::vector<float> weights;
  long double squares = 0, weighted = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    weights.push_back(static_cast<float>(i % 5) * 0.3f);
    squares += static_cast<long double>(values[i]) * values[i];
    weighted += static_cast<long double>(values[i]) * weights[i] * values[i] * weights[i];
  }
  EXPECT_NEAR(value_of(state_of(tensor_of(values), true)), static_cast<double>(squares),
              0x1p-50 * static_cast<double>(squares));
  EXPECT_NEAR(value_of(state_of(tensor_of(values), true, 1, tensor_of(weights))),
              static_cast<double>(weighted), 0x1p-50 * static_cast<double>(weighted));
  EXPECT_EQ(value_of(state_of(tensor_of({2, 3}), false, 1, tensor_of({0.5f, 4}))), 13);
}

TEST_P(ReproducibleSum, TakesFp64OfAnySize) {
  for (double size : {1e-300, 1e-30, 1.0, 1e30, 1e300}) {
    const Tensor x = host_tensor(DType::f64, {1000});
    long double sum = 0;
    for (int64_t i = 0; i < 1000; ++i) {
      x.data<double>()[i] = size * std::sin(static_cast<double>(i));
      sum += x.data<double>()[i];
    }
    EXPECT_NEAR(value_of(state_of(x)) / size, static_cast<double>(sum / size), 1e-15 * 1000);
  }
}

TEST_P(ReproducibleSum, WhatIsNotFiniteMakesNan) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = wild_values(20000, 2);
    values[12345] = bad;
    const Tensor state = state_of(tensor_of(values), true);
    EXPECT_TRUE(std::isnan(value_of(state)));
    // NaN stays NaN, with the same bits.
    OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
    OpContext context = machine.context();
    const Tensor more = state_of(tensor_of({1, 2}), true);
    merge(context, more, state);
    test::expect_same_bits(more, state);
  }
}

TEST_P(ReproducibleSum, AListIsTheSumOfAll) {
  std::vector<Tensor> list;
  std::vector<float> all;
  for (const size_t count : {size_t{300001}, size_t{1}, size_t{0}, size_t{5000}}) {
    const std::vector<float> values = wild_values(count, count + 5);
    all.insert(all.end(), values.begin(), values.end());
    list.push_back(tensor_of(values));
  }
  for (const bool squared : {false, true}) {
    OpMachine machine(GetParam(), 3, {cpu::add_optimizer});
    OpContext context = machine.context();
    const Tensor state = empty();
    reproducible_sums(context, {list, squared, state});
    test::expect_same_bits(state, state_of(tensor_of(all), squared));
    reproducible_sums(context, {{}, squared, state});
    test::expect_same_bits(state, state_of(tensor_of(all), squared));
  }
}

// Merging adds integers, whether thousands of states at once or two at a time. States of very
// different sizes drop what the largest one makes them drop, wherever it is.
TEST_P(ReproducibleSum, ManyStatesMergeAtOnce) {
  OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
  OpContext context = machine.context();
  std::mt19937_64 random(11);
  const Tensor wide = host_tensor(DType::i64, {kWideSumSize}),
               one = host_tensor(DType::i64, {kWideSumSize});
  std::fill_n(wide.data<int64_t>(), kWideSumSize, 0);
  std::vector<float> all;
  for (int rank = 0; rank < 5000; ++rank) {
    std::vector<float> values = wild_values(static_cast<size_t>(random() % 4), random());
    for (float& v : values) v = std::ldexp(v, rank % 7 == 0 ? 60 : -60);
    all.insert(all.end(), values.begin(), values.end());
    const Tensor state = values.empty() ? empty() : state_of(tensor_of(values));
    widen_sum(context, {state, one});
    for (int64_t i = 0; i < kWideSumSize; ++i) wide.data<int64_t>()[i] += one.data<int64_t>()[i];
  }
  const Tensor merged = empty();
  narrow_sum(context, {wide, merged});
  test::expect_same_bits(merged, state_of(tensor_of(all)));
  EXPECT_NE(value_of(merged), 0);
}

TEST_P(ReproducibleSum, TheLargestNumbersHaveABin) {
  OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
  OpContext context = machine.context();
  const Tensor x = host_tensor(DType::f64, {2});
  x.data<double>()[0] = std::numeric_limits<double>::max(), x.data<double>()[1] = 5e-324;
  for (const Tensor& part : {x, x.slice(0, 0, 1), x.slice(0, 1, 1)}) {
    const Tensor state = state_of(part), again = empty();
    const Tensor wide = host_tensor(DType::i64, {kWideSumSize});
    widen_sum(context, {state, wide});
    narrow_sum(context, {wide, again});
    test::expect_same_bits(again, state);
  }
}

// More values than one bin's low part holds: sums must carry.
TEST_P(ReproducibleSum, Carries) {
  const std::vector<float> values(1 << 20, 0x1.fffffep+20f);
  EXPECT_EQ(value_of(state_of(tensor_of(values))), 0x1.fffffep+40);
}

TEST_P(ReproducibleSum, GradientNormClipsAndSkips) {
  OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
  OpContext context = machine.context();
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  const auto slot = [&](StepScalar name) -> double& {
    return scalars.data<double>()[static_cast<int>(name)];
  };
  slot(StepScalar::gradient_factor) = 0.5;
  slot(StepScalar::clip_norm) = 1;
  gradient_norm(context, {state_of(tensor_of({3, 4}), true), scalars});
  EXPECT_DOUBLE_EQ(slot(StepScalar::gradient_norm), 2.5);
  EXPECT_DOUBLE_EQ(slot(StepScalar::clip_factor), 0.5 / (2.5 + 1e-6));
  EXPECT_EQ(slot(StepScalar::skip), 0);
  slot(StepScalar::clip_norm) = 100;
  gradient_norm(context, {state_of(tensor_of({3, 4}), true), scalars});
  EXPECT_DOUBLE_EQ(slot(StepScalar::clip_factor), 0.5);
  slot(StepScalar::clip_norm) = 0;
  gradient_norm(context, {state_of(tensor_of({300, 400}), true), scalars});
  EXPECT_DOUBLE_EQ(slot(StepScalar::clip_factor), 0.5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  gradient_norm(context, {state_of(tensor_of({3, nan}), true), scalars});
  EXPECT_EQ(slot(StepScalar::skip), 1);
  gradient_norm(context, {state_of(tensor_of({3, 4}), true), scalars});
  EXPECT_EQ(slot(StepScalar::skip), 0);
}

TEST_P(ReproducibleSum, GradientNormThatIsNotTestedSkipsNothing) {
  OpMachine machine(GetParam(), 1, {cpu::add_optimizer});
  OpContext context = machine.context();
  const Tensor scalars = host_tensor(DType::f64, {kStepScalars});
  const auto slot = [&](StepScalar name) -> double& {
    return scalars.data<double>()[static_cast<int>(name)];
  };
  slot(StepScalar::gradient_factor) = 0.5;
  slot(StepScalar::clip_norm) = 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  gradient_norm(context, {state_of(tensor_of({3, nan}), true), scalars, false});
  EXPECT_TRUE(std::isnan(slot(StepScalar::gradient_norm)));
  EXPECT_EQ(slot(StepScalar::skip), 0);
  EXPECT_EQ(slot(StepScalar::clip_factor), 0.5) << "the other elements are updated as they are";
}

INSTANTIATE_TEST_SUITE_P(Isas, ReproducibleSum, ::testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

}  // namespace
}  // namespace viaduct
