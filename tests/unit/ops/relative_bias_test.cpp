// The relative position bias of a score matrix: buckets by hand and at their borders, the kernels
// against the FP64 reference, and the reference against the formula.

#include "ops/relative_bias.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::integers;
using test::random_tensor;
using test::to_f64;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<int64_t> buckets_of(const RelativeBuckets& relative,
                                const std::vector<int64_t>& distances) {
  std::vector<int64_t> buckets;
  for (const int64_t distance : distances) buckets.push_back(relative_bucket(relative, distance));
  return buckets;
}

TEST(RelativeBucketTest, BothDirectionsHaveHalfOfTheBuckets) {
  const RelativeBuckets relative{32, 128, true};
  // As the function of Hugging Face's T5 gives them, also where the logarithm is a whole number.
  EXPECT_EQ(buckets_of(relative, {0, -1, -7, -8, -11, -12, -16, -32, -64, -90, -91, -128, -5000}),
            (std::vector<int64_t>{0, 1, 7, 8, 8, 9, 10, 12, 14, 14, 15, 15, 15}));
  EXPECT_EQ(buckets_of(relative, {1, 7, 8, 11, 12, 16, 32, 64, 90, 91, 128, 5000}),
            (std::vector<int64_t>{17, 23, 24, 24, 25, 26, 28, 30, 30, 31, 31, 31}));
}

TEST(RelativeBucketTest, KeysBehindACausalQueryShareTheFirst) {
  const RelativeBuckets relative{16, 40, false};
  EXPECT_EQ(buckets_of(relative, {3, 0, -1, -7, -8, -9, -10, -39, -40, -1000}),
            (std::vector<int64_t>{0, 0, 1, 7, 8, 8, 9, 15, 15, 15}));
}

TEST(RelativeBucketTest, SaysWhichNumbersDoNotFit) {
  EXPECT_EQ(relative_buckets_problem({32, 128, true}), "");
  EXPECT_THAT(relative_buckets_problem({7, 128, true}), HasSubstr("an even number of at least 4"));
  EXPECT_THAT(relative_buckets_problem({1, 128, false}), HasSubstr("at least 2"));
  EXPECT_THAT(relative_buckets_problem({32, 8, true}), HasSubstr("expected more than the 8"));
}

class RelativeBiasTest : public testing::TestWithParam<CpuIsa> {
 protected:
  test::OpMachine machine_{GetParam(), 3, {cpu::add_relative_bias}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, RelativeBiasTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

/// Documents with other numbers of keys than of queries, with none of either, and at a diagonal;
/// some distances are beyond the largest.
AttentionProblem several_documents() {
  AttentionProblem problem;
  problem.q_offsets = integers(DType::i32, {0, 3, 3, 12, 14});
  problem.kv_offsets = integers(DType::i32, {0, 20, 24, 33, 33});
  problem.diagonal = integers(DType::i32, {0, 2, -5, 30});
  problem.causal = false;
  problem.max_queries = 9, problem.max_keys = 20;
  return problem;
}

TEST_P(RelativeBiasTest, MatchesTheReference) {
  const AttentionProblem problem = several_documents();
  constexpr int64_t kHeads = 3, kQueries = 14, kWidth = 21;
  for (const bool both : {true, false}) {
    const RelativeBuckets relative{8, 6, both};
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const DType sums = dtype == DType::f64 ? DType::f64 : DType::f32;
      const ScoreBiasArgs args{problem, relative, random_tensor(dtype, {8, kHeads}, 1),
                               random_tensor(sums, {kHeads, kQueries, kWidth}, 2)};
      const ScoreBiasArgs exact{problem, relative, to_f64(args.table), to_f64(args.matrix)};
      score_bias(context_, args);
      reference::score_bias(exact);
      const Tensor terms = host_tensor(DType::f64, exact.matrix.shape());
      test::set_values(terms, std::vector<double>(static_cast<size_t>(terms.elements()), 2));
      test::expect_close(args.matrix, exact.matrix, 2, terms);

      const ScoreBiasBackwardArgs back{problem, relative,
                                       random_tensor(sums, {kHeads, kQueries, kWidth}, 3),
                                       random_tensor(sums, {8, kHeads}, 4)};
      const ScoreBiasBackwardArgs exact_back{problem, relative, to_f64(back.gradient),
                                             to_f64(back.d_table)};
      score_bias_backward(context_, back);
      reference::score_bias_backward(exact_back);
      const Tensor sum_terms = host_tensor(DType::f64, {8, kHeads});
      test::set_values(sum_terms, std::vector<double>(8 * kHeads, 200));
      test::expect_close(back.d_table, exact_back.d_table, 200, sum_terms);
    }
  }
}

/// One document, from the formula: every pair gets the number of its distance, its gradient goes
/// there, and elements beyond the keys stay as they are.
TEST_P(RelativeBiasTest, AddsTheNumberOfTheDistance) {
  AttentionProblem problem;
  problem.q_offsets = integers(DType::i32, {0, 2});
  problem.kv_offsets = integers(DType::i32, {0, 3});
  problem.max_queries = 2, problem.max_keys = 3;
  const RelativeBuckets relative{4, 3, true};  // 0: same place, 1: before, 3: behind
  const Tensor table = host_tensor(DType::f32, {4, 1}), matrix = host_tensor(DType::f32, {1, 2, 4});
  test::set_values(table, {10, 20, 30, 40});
  test::set_values(matrix, {1, 2, 3, 4, 5, 6, 7, 8});
  score_bias(context_, {problem, relative, table, matrix});
  EXPECT_EQ(test::values(matrix), (std::vector<double>{11, 42, 43, 4, 25, 16, 47, 8}));
  const Tensor d_table = host_tensor(DType::f32, {4, 1});
  test::set_values(d_table, {0.5, 0, 0, 0});
  score_bias_backward(context_, {problem, relative, matrix, d_table});
  EXPECT_EQ(test::values(d_table), (std::vector<double>{0.5 + 11 + 16, 25, 0, 42 + 43 + 47}));
}

TEST_P(RelativeBiasTest, RefusesWhatDoesNotFit) {
  const AttentionProblem problem = several_documents();
  const Tensor matrix = host_tensor(DType::f32, {3, 14, 20}),
               table = host_tensor(DType::f32, {8, 3});
  EXPECT_THAT(
      [&] {
        score_bias(context_, {problem, {8, 1, true}, table, matrix});
      },
      ThrowsMessage<ShapeError>(HasSubstr("a largest distance of 1")));
  EXPECT_THAT(
      [&] {
        score_bias(context_, {problem, {6, 9, true}, table, matrix});
      },
      ThrowsMessage<ShapeError>(HasSubstr("table")));
  EXPECT_THAT(
      [&] {
        score_bias(context_, {problem, {8, 6, true}, table, host_tensor(DType::f32, {3, 14, 19})});
      },
      ThrowsMessage<ShapeError>(HasSubstr("max_keys = 20")));
  EXPECT_THROW(score_bias_backward(
                   context_, {problem, {8, 6, true}, matrix, host_tensor(DType::f64, {8, 3})}),
               ShapeError);
}

}  // namespace
}  // namespace viaduct
