// Softmax cross entropy compared with the FP64 reference: padded columns, soft cap, rows without a
// target, extreme logits, splits of the vocabulary.

#include "ops/cross_entropy.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Targets in all parts of the columns; every third row has none.
Tensor some_targets(int64_t rows, int64_t columns) {
  std::vector<int64_t> targets;
  for (int64_t t = 0; t < rows; ++t)
    targets.push_back(t % 3 == 1 ? -1 : (t * 31 + columns - 1) % columns);
  return test::integers(DType::i32, targets);
}

/// The format of sums over logits of `dtype`, for its tolerance.
Tensor in_sums_of(DType dtype, const Tensor& tensor) {
  return test::converted(tensor, dtype == DType::f64 ? dtype : DType::f32);
}

struct Case {
  int64_t rows, width, columns;
  double softcap, scale;
};
constexpr Case kCases[] = {{1, 1, 1, 0, 1},       {5, 7, 7, 0, 3},        {4, 65, 60, 5, 10},
                           {3, 1024, 1024, 0, 8}, {7, 1030, 1027, 0, 40}, {3, 2500, 2111, 30, 50}};

class CrossEntropyTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 2, {cpu::add_cross_entropy}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, CrossEntropyTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(CrossEntropyTest, ForwardMatchesTheReference) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message()
                   << dtype_name(dtype) << ", " << c.columns << " columns, soft cap " << c.softcap);
      const CrossEntropyForwardArgs args{random_strided(dtype, {c.rows, c.width}, 3, 1, c.scale),
                                         some_targets(c.rows, c.columns),
                                         random_tensor(DType::f64, {c.rows}, 2),
                                         random_tensor(DType::f64, {c.rows}, 3),
                                         c.columns,
                                         c.softcap};
      CrossEntropyForwardArgs exact = args;
      exact.logits = to_f64(args.logits), exact.lse = host_tensor(DType::f64, {c.rows});
      exact.target_logit = host_tensor(DType::f64, {c.rows});
      cross_entropy_forward(context_, args);
      reference::cross_entropy_forward(exact);
      // lse is a logit plus the logarithm of a sum: terms of the size of the largest logit.
      const Tensor size = host_tensor(DType::f64, {c.rows});
      for (int64_t t = 0; t < c.rows; ++t) test::set_element(size, t, c.scale + 1);
      expect_close(in_sums_of(dtype, args.lse), exact.lse, static_cast<double>(c.columns), size);
      expect_close(in_sums_of(dtype, args.target_logit), exact.target_logit, 1);
    }
  }
}

TEST_P(CrossEntropyTest, BackwardMatchesTheReference) {
  for (const Case& c : kCases) {
    for (DType out : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      for (bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message() << c.columns << " columns, soft cap " << c.softcap << ", "
                                        << dtype_name(out) << (in_place ? ", in place" : ""));
        // In place: logits in the format of their gradient, like kept logits.
        const DType statistic = out == DType::f64 ? DType::f64 : DType::f32;
        const DType dtype = in_place ? out : statistic;
        const Tensor logits = random_strided(dtype, {c.rows, c.width}, 3, 1, c.scale);
        const Tensor targets = some_targets(c.rows, c.columns);
        const Tensor lse = host_tensor(DType::f64, {c.rows});
        reference::cross_entropy_forward({to_f64(logits), targets, lse,
                                          host_tensor(DType::f64, {c.rows}), c.columns, c.softcap});
        Tensor weight = random_tensor(DType::f32, {c.rows}, 4);
        test::set_element(weight, c.rows - 1, 0);
        const Tensor factor = host_tensor(DType::f64, {1});
        test::set_element(factor, 0, 3.5);
        const CrossEntropyBackwardArgs args{
            logits,    targets,  lse,
            weight,    factor,   in_place ? logits : random_strided(out, {c.rows, c.width}, 5, 6),
            c.columns, c.softcap};
        CrossEntropyBackwardArgs exact = args;
        exact.logits = to_f64(logits), exact.lse = to_f64(args.lse);
        exact.out = host_tensor(DType::f64, {c.rows, c.width});
        reference::cross_entropy_backward(exact);
        cross_entropy_backward(context_, args);
        // A term is weight · factor · probability (or 1): its relative error is the absolute error
        // of the exponent z − lse.
        const Tensor terms = host_tensor(DType::f64, {c.rows, c.width});
        for (int64_t i = 0; i < terms.elements(); ++i) {
          const int64_t row = i / c.width;
          const double onehot = test::element(targets, row) == static_cast<double>(i % c.width);
          const double p = std::abs(test::element(exact.out, i)) / 3.5 + onehot;
          test::set_element(terms, i, 3.5 * p * std::max(1.0, 2 * c.scale));
        }
        expect_close(args.out, exact.out, 1, terms);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// The columns [begin, begin + count) of a vocabulary on one rank.
struct Columns {
  int64_t begin, count;
};

TEST_P(CrossEntropyTest, PartsOfTheVocabularyMerge) {
  const int64_t rows = 7, vocabulary = 100;
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor logits = random_tensor(dtype, {rows, vocabulary}, 1, 5);
    const Tensor targets = some_targets(rows, vocabulary);
    const auto vector = [&] { return host_tensor(DType::f64, {rows}); };
    const Tensor whole = vector(), whole_target = vector();
    cross_entropy_forward(context_, {logits, targets, whole, whole_target, vocabulary, 2.5});
    // The last rank has only padding.
    const Columns ranks[] = {{0, 37}, {37, 63}, {100, 0}};
    const Tensor largest = vector(), shares = vector(), target_logit = vector(), lse = vector();
    std::vector<Tensor> of_rank;
    for (const Columns& c : ranks) {
      const Tensor target = vector();
      of_rank.push_back(vector());
      const Tensor part = c.count > 0 ? logits.slice(1, c.begin, c.count) : logits;
      cross_entropy_forward(context_,
                            {part, targets, of_rank.back(), target, c.count, 2.5, c.begin});
      for (int64_t t = 0; t < rows; ++t) {
        const double best = of_rank.size() == 1 ? -std::numeric_limits<double>::infinity()
                                                : test::element(largest, t);
        test::set_element(largest, t, std::max(best, test::element(of_rank.back(), t)));
        test::set_element(target_logit, t,
                          test::element(target_logit, t) + test::element(target, t));
      }
    }
    EXPECT_EQ(test::element(of_rank.back(), 0), -std::numeric_limits<double>::infinity());
    for (const Tensor& part : of_rank) {
      lse_share(context_, {part, largest, part});
      for (int64_t t = 0; t < rows; ++t)
        test::set_element(shares, t, test::element(shares, t) + test::element(part, t));
    }
    lse_join(context_, {shares, largest, lse});
    expect_close(in_sums_of(dtype, lse), whole, vocabulary);
    expect_same_bits(target_logit, whole_target);

    // The gradient of a rank's columns equals those columns of the whole gradient.
    const Tensor weight = random_tensor(DType::f32, {rows}, 4),
                 factor = host_tensor(DType::f64, {1});
    test::set_element(factor, 0, 3.5);
    const Tensor gradient = host_tensor(dtype, {rows, vocabulary});
    cross_entropy_backward(context_,
                           {logits, targets, whole, weight, factor, gradient, vocabulary, 2.5});
    for (const Columns& c : {ranks[0], ranks[1]}) {
      const Tensor part = host_tensor(dtype, {rows, c.count});
      cross_entropy_backward(context_, {logits.slice(1, c.begin, c.count), targets, whole, weight,
                                        factor, part, c.count, 2.5, c.begin});
      expect_close(part, to_f64(gradient.slice(1, c.begin, c.count)), 1);
    }
  }
}

TEST_P(CrossEntropyTest, OneRankMergesToItself) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor lse = host_tensor(DType::f64, {4}), largest = host_tensor(DType::f64, {4});
  for (const Tensor& tensor : {lse, largest})
    test::set_values(tensor, {1.25, infinity, -infinity, std::nan("")});
  const Tensor before = to_f64(lse);
  lse_share(context_, {lse, largest, lse});
  EXPECT_EQ(test::element(lse, 1), 1);
  lse_join(context_, {lse, largest, lse});
  for (int64_t t = 0; t < 3; ++t) EXPECT_EQ(test::element(lse, t), test::element(before, t));
  EXPECT_TRUE(std::isnan(test::element(lse, 3)));
  EXPECT_THAT(
      [&] {
        lse_join(context_, {lse, host_tensor(DType::f64, {3}), lse});
      },
      ThrowsMessage<ShapeError>(HasSubstr("lse_join")));
}

TEST_P(CrossEntropyTest, ExtremeLogits) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto lse_of = [&](const std::vector<double>& z) {
    const Tensor logits = host_tensor(DType::f32, {1, static_cast<int64_t>(z.size())});
    test::set_values(logits, z);
    const Tensor lse = host_tensor(DType::f64, {1}), target = host_tensor(DType::f64, {1});
    cross_entropy_forward(context_,
                          {logits, test::integers(DType::i32, {0}), lse, target, logits.dim(1), 0});
    return test::element(lse, 0);
  };
  EXPECT_EQ(lse_of({1e30, -1e30, 5}), static_cast<float>(1e30));
  EXPECT_EQ(lse_of({-1e30, -1e30 * 1.5}), static_cast<float>(-1e30));
  EXPECT_EQ(lse_of({-infinity, 7, -infinity}), 7);
  EXPECT_TRUE(std::isnan(lse_of({1, std::nan(""), 2})));
  std::vector<double> growing;  // every block of columns moves the maximum
  for (int i = 0; i < 5000; ++i) growing.push_back(i * 0.1);
  EXPECT_NEAR(lse_of(growing), 499.9 - std::log(1 - std::exp(-0.1)), 1e-4);
}

// For a token that the model predicts with near certainty, loss and gradient are small differences:
// they keep their digits at any offset of the logits, down to 1 − p = 1e-7, and over parts of the
// vocabulary. At 1000 FP32 has 14 bits after the point: a log-sum-exp rounded to it would make all
// probabilities of a row wrong by the same 3e-5.
TEST_P(CrossEntropyTest, LargeLogitsHaveProbabilitiesAsExactAsSmallOnes) {
  constexpr int64_t kColumns = 300;
  double lost = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    const Tensor logits = random_tensor(DType::f32, {1, kColumns}, seed, 3);
    std::vector<double> z = test::values(logits);
    for (double& value : z) value += 1000;
    test::set_values(logits, z);  // rounds; the reference gets the same values
    z = test::values(logits);
    const Tensor targets = test::integers(DType::i32, {7});
    const auto scalar = [] { return host_tensor(DType::f64, {1}); };
    const Tensor lse = scalar(), target = scalar(), factor = scalar(),
                 weight = host_tensor(DType::f32, {1}),
                 gradient = host_tensor(DType::f32, {1, kColumns}),
                 exact = host_tensor(DType::f64, {1, kColumns});
    test::set_element(factor, 0, 1), test::set_element(weight, 0, 1);
    cross_entropy_forward(context_, {logits, targets, lse, target, kColumns});
    cross_entropy_backward(context_, {logits, targets, lse, weight, factor, gradient, kColumns});
    reference::cross_entropy_forward({to_f64(logits), targets, lse, target, kColumns});
    reference::cross_entropy_backward(
        {to_f64(logits), targets, lse, weight, factor, exact, kColumns});
    const double exact_lse = test::element(lse, 0);
    lost = std::max(lost, std::abs(exact_lse - static_cast<float>(exact_lse)));
    for (int64_t i = 0; i < kColumns; ++i) {
      const double expected = test::element(exact, i);
      const double exponent = i == 7 ? 0 : z[static_cast<size_t>(i)] - exact_lse;
      const double tolerance = 2 * dtype_epsilon(DType::f32) * (2 + std::abs(exponent));
      ASSERT_NEAR(test::element(gradient, i), expected, tolerance * std::abs(expected)) << i;
    }
  }
  EXPECT_GT(lost, 1e-5) << "rounding would lose this part";
}

TEST_P(CrossEntropyTest, ConfidentTokensKeepTheirDigits) {
  constexpr int64_t kColumns = 3000, kTarget = 1700;
  for (const double offset : {-100.0, 0.0, 100.0}) {
    for (const double missing : {1e-2, 1e-4, 1e-7}) {
      SCOPED_TRACE(testing::Message() << "offset " << offset << ", 1 - p = " << missing);
      const Tensor logits = random_tensor(DType::f32, {1, kColumns}, 1, 3);
      std::vector<double> z = test::values(logits);
      double others = 0;
      for (size_t i = 0; i < z.size(); ++i) others += i == kTarget ? 0 : std::exp(z[i]);
      z[kTarget] = std::log(others * (1 - missing) / missing);
      for (double& value : z) value += offset;
      test::set_values(logits, z);  // rounds; the reference gets the same values
      const Tensor targets = test::integers(DType::i32, {kTarget});
      const auto scalar = [] { return host_tensor(DType::f64, {1}); };
      const Tensor exact_lse = scalar(), exact_target = scalar(), lse = scalar(), target = scalar(),
                   factor = scalar(), weight = host_tensor(DType::f32, {1});
      test::set_element(factor, 0, 1), test::set_element(weight, 0, 1);
      reference::cross_entropy_forward(
          {to_f64(logits), targets, exact_lse, exact_target, kColumns});
      const double exact_lse_value = test::element(exact_lse, 0);
      const double exact = exact_lse_value - test::element(exact_target, 0);
      constexpr double kDigits = 1e-6;
      cross_entropy_forward(context_, {logits, targets, lse, target, kColumns});
      EXPECT_NEAR(test::element(lse, 0) - test::element(target, 0), exact, kDigits * exact);

      const Tensor gradient = host_tensor(DType::f32, {1, kColumns});
      const Tensor exact_gradient = host_tensor(DType::f64, {1, kColumns});
      cross_entropy_backward(context_, {logits, targets, lse, weight, factor, gradient, kColumns});
      reference::cross_entropy_backward(
          {to_f64(logits), targets, exact_lse, weight, factor, exact_gradient, kColumns});
      for (int64_t i = 0; i < kColumns; ++i) {
        const double expected = test::element(exact_gradient, i);
        // The exponent z − lse is rounded: its error is a relative error of p.
        const double exponent = i == kTarget ? 0 : z[static_cast<size_t>(i)] - exact_lse_value;
        const double tolerance = 2 * dtype_epsilon(DType::f32) * (2 + std::abs(exponent));
        ASSERT_NEAR(test::element(gradient, i), expected, tolerance * std::abs(expected)) << i;
      }

      // Two ranks, cut before the target.
      const Tensor parts[2] = {scalar(), scalar()};
      const Tensor largest = scalar(), shares = scalar(), joined = scalar();
      for (int rank = 0; rank < 2; ++rank) {
        constexpr int64_t kHalf = kColumns / 2;
        cross_entropy_forward(context_, {logits.slice(1, rank * kHalf, kHalf), targets, parts[rank],
                                         target, kHalf, 0, rank * kHalf});
      }
      test::set_element(largest, 0,
                        std::max(test::element(parts[0], 0), test::element(parts[1], 0)));
      double sum = 0;
      for (const Tensor& part : parts) {
        lse_share(context_, {part, largest, part});
        sum += test::element(part, 0);
      }
      test::set_element(shares, 0, sum);
      lse_join(context_, {shares, largest, joined});
      EXPECT_NEAR(test::element(joined, 0) - test::element(target, 0), exact, kDigits * exact);
    }
  }
}

TEST_P(CrossEntropyTest, BitsDoNotDependOnThreads) {
  const Tensor logits = random_tensor(DType::f32, {50, 3000}, 1, 5);
  const Tensor targets = some_targets(50, 3000);
  const Tensor lse = host_tensor(DType::f64, {50}), target = host_tensor(DType::f64, {50});
  cross_entropy_forward(context_, {logits, targets, lse, target, 3000, 0});
  OpMachine other(GetParam(), 1, {cpu::add_cross_entropy});
  OpContext context = other.context();
  const Tensor again = host_tensor(DType::f64, {50});
  cross_entropy_forward(context, {logits, targets, again, target, 3000, 0});
  expect_same_bits(again, lse);
}

TEST_P(CrossEntropyTest, RefusesWhatDoesNotFit) {
  const Tensor row = host_tensor(DType::f64, {2}), targets = test::integers(DType::i32, {0, 1});
  const Tensor logits = host_tensor(DType::f32, {2, 8});
  EXPECT_THAT(
      [&] {
        cross_entropy_forward(context_, {logits, targets, row, row, 9, 0});
      },
      ThrowsMessage<ShapeError>(HasSubstr("expected columns in [0, 8], got 9")));
  EXPECT_THROW(
      cross_entropy_forward(context_, {host_tensor(DType::i32, {2, 8}), targets, row, row, 8, 0}),
      ShapeError);
  EXPECT_THROW(
      cross_entropy_forward(context_, {logits, targets, host_tensor(DType::f64, {3}), row, 8, 0}),
      ShapeError);
  EXPECT_THROW(cross_entropy_backward(context_, {logits, targets, row, row,
                                                 host_tensor(DType::f32, {1}), logits, 8, 0}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
