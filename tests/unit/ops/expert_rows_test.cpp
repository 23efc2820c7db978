// Orders of rows by expert, sums over a token's rows and their gradients, compared with the
// reference, which follows the contract literally.

#include "ops/expert_rows.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "ops/reference/reference.h"
#include "support/op_testing.h"

namespace viaduct {
namespace {

using test::expect_close;
using test::expect_same_bits;
using test::integers;
using test::OpMachine;
using test::random_strided;
using test::random_tensor;
using test::to_f64;
using test::values;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kTokens = 37, kTopk = 3, kExperts = 8;

Tensor some_choice(int64_t tokens = kTokens) {
  std::vector<int64_t> choice;  // three different ones a token; expert 6 is never chosen
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < kTopk; ++j) {
      const int64_t e = (t * t + j * 2) % (kExperts - 1);
      choice.push_back(e == 6 ? 7 : e);
    }
  }
  if (tokens == 0) return host_tensor(DType::i32, {0, kTopk});
  return integers(DType::i32, choice).view({tokens, kTopk});
}

SortByExpertArgs sorted(int64_t per_rank, int64_t copies, int64_t tokens = kTokens) {
  const int64_t places = kTopk * copies, destinations = kExperts * copies;
  return {some_choice(tokens),
          per_rank,
          copies,
          host_tensor(DType::i32, {tokens * places}),
          host_tensor(DType::i32, {tokens, places}),
          host_tensor(DType::i64, {destinations}),
          host_tensor(DType::i32, {destinations + 1})};
}

class ExpertRowsTest : public testing::TestWithParam<CpuIsa> {
 protected:
  OpMachine machine_{GetParam(), 3, {cpu::add_expert_rows}};
  OpContext context_ = machine_.context();
};

INSTANTIATE_TEST_SUITE_P(Isa, ExpertRowsTest, testing::ValuesIn(test::testable_isas()),
                         [](const auto& info) { return std::string(cpu_isa_name(info.param)); });

TEST_P(ExpertRowsTest, SortingMatchesTheReference) {
  for (const int64_t copies : {1, 2}) {
    for (const int64_t per_rank : {8, 4, 1}) {
      for (const int64_t tokens : {kTokens, int64_t{0}}) {
        const SortByExpertArgs args = sorted(per_rank, copies, tokens);
        const SortByExpertArgs exact = sorted(per_rank, copies, tokens);
        sort_by_expert(context_, args);
        reference::sort_by_expert(exact);
        EXPECT_EQ(values(args.token), values(exact.token));
        EXPECT_EQ(values(args.position), values(exact.position));
        EXPECT_EQ(values(args.counts), values(exact.counts));
        EXPECT_EQ(values(args.offsets), values(exact.offsets));
      }
    }
  }
}

TEST_P(ExpertRowsTest, RowsUpToAMultipleAreOfTheFirstTokenAndNobodys) {
  for (const int64_t copies : {1, 2}) {
    SortByExpertArgs args = sorted(4, copies), exact = sorted(4, copies);
    for (SortByExpertArgs* each : {&args, &exact}) {
      each->rows_multiple = 16;
      each->token = host_tensor(
          DType::i32, {kTokens * kTopk * copies + kExperts * copies * (each->rows_multiple - 1)});
      each->all_rows = integers(DType::i64, {7});
    }
    for (const WriteMode mode : {WriteMode::assign, WriteMode::accumulate}) {
      args.all_rows_mode = exact.all_rows_mode = mode;
      sort_by_expert(context_, args);
      reference::sort_by_expert(exact);
      const int64_t rows = args.offsets.data<int32_t>()[kExperts * copies];
      EXPECT_GT(rows, kTokens * kTopk * copies);
      for (const Tensor& counted : {args.all_rows, exact.all_rows})
        EXPECT_THAT(values(counted), ElementsAre(mode == WriteMode::assign ? rows : 2 * rows));
    }
    EXPECT_EQ(values(args.token), values(exact.token));
    EXPECT_EQ(values(args.position), values(exact.position));
    EXPECT_EQ(values(args.counts), values(exact.counts));
    EXPECT_EQ(values(args.offsets), values(exact.offsets));
    const SortByExpertArgs plain = sorted(4, copies);
    sort_by_expert(context_, plain);
    for (int64_t d = 0; d < kExperts * copies; ++d) {
      const int64_t chosen = plain.counts.data<int64_t>()[d];
      EXPECT_EQ(args.counts.data<int64_t>()[d], (chosen + 15) / 16 * 16);
      for (int64_t r = chosen; r < args.counts.data<int64_t>()[d]; ++r)
        EXPECT_EQ(args.token.data<int32_t>()[args.offsets.data<int32_t>()[d] + r], 0);
    }
  }
}

TEST_P(ExpertRowsTest, RowsGoToTheRanksOfTheirExpertsInTokenOrder) {
  // Two tokens, experts {0, 3} and {3, 1}, two experts a rank, each expert on two ranks.
  SortByExpertArgs args{integers(DType::i32, {0, 3, 3, 1}).view({2, 2}),
                        2,
                        2,
                        host_tensor(DType::i32, {8}),
                        host_tensor(DType::i32, {2, 4}),
                        host_tensor(DType::i64, {8}),
                        host_tensor(DType::i32, {9})};
  sort_by_expert(context_, args);
  EXPECT_THAT(values(args.counts), ElementsAre(1, 1, 1, 1, 0, 2, 0, 2));
  EXPECT_THAT(values(args.token), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(values(args.position), ElementsAre(0, 2, 4, 6, 5, 7, 1, 3));
}

/// `sorted` with every fourth choice dropped and the same number of rows for each destination.
SortByExpertArgs dropped(int64_t copies, int64_t rows_each) {
  SortByExpertArgs args = sorted(4, copies);
  for (int64_t i = 0; i < args.choice.elements(); i += 4) args.choice.data<int32_t>()[i] = -1;
  args.rows_each = rows_each;
  if (rows_each > 0) args.token = host_tensor(DType::i32, {kExperts * copies * rows_each});
  return args;
}

TEST_P(ExpertRowsTest, DroppedChoicesHaveNoRows) {
  for (const int64_t copies : {1, 2}) {
    for (const int64_t rows_each : {0, 40}) {
      const SortByExpertArgs args = dropped(copies, rows_each), exact = dropped(copies, rows_each);
      sort_by_expert(context_, args);
      reference::sort_by_expert(exact);
      EXPECT_EQ(values(args.token), values(exact.token));
      EXPECT_EQ(values(args.position), values(exact.position));
      EXPECT_EQ(values(args.counts), values(exact.counts));
      EXPECT_EQ(values(args.offsets), values(exact.offsets));
      EXPECT_EQ(args.position.data<int32_t>()[0], -1);
      if (rows_each == 0) continue;
      EXPECT_EQ(args.counts.data<int64_t>()[0], rows_each);
    }
  }
}

/// Only the rows of experts 2 to 5, as one of their ranks sorts the tokens of all.
SortByExpertArgs of_one_rank(int64_t copies, int64_t rows_each) {
  SortByExpertArgs args = dropped(copies, 0);
  args.first_expert = 2, args.rows_each = rows_each;
  args.counts = host_tensor(DType::i64, {4 * copies});
  args.offsets = host_tensor(DType::i32, {4 * copies + 1});
  if (rows_each > 0) args.token = host_tensor(DType::i32, {4 * copies * rows_each});
  return args;
}

TEST_P(ExpertRowsTest, ARankHasRowsOfItsOwnExpertsAlone) {
  for (const int64_t copies : {1, 2}) {
    for (const int64_t rows_each : {0, 40}) {
      const SortByExpertArgs args = of_one_rank(copies, rows_each),
                             exact = of_one_rank(copies, rows_each);
      sort_by_expert(context_, args);
      reference::sort_by_expert(exact);
      EXPECT_EQ(values(args.token), values(exact.token));
      EXPECT_EQ(values(args.position), values(exact.position));
      EXPECT_EQ(values(args.counts), values(exact.counts));
      EXPECT_EQ(values(args.offsets), values(exact.offsets));
      for (int64_t i = 0; i < args.choice.elements(); ++i) {
        const int32_t expert = args.choice.data<int32_t>()[i];
        EXPECT_EQ(args.position.data<int32_t>()[i * copies] >= 0, expert >= 2 && expert < 6);
      }
    }
  }
}

TEST_P(ExpertRowsTest, RowsOfOneRankBeginWithItsFirstExpert) {
  SortByExpertArgs args{integers(DType::i32, {0, 3, 3, 2, 1, -1}).view({3, 2}),
                        2,
                        1,
                        host_tensor(DType::i32, {6}),
                        host_tensor(DType::i32, {3, 2}),
                        host_tensor(DType::i64, {2}),
                        host_tensor(DType::i32, {3})};
  args.first_expert = 2;
  sort_by_expert(context_, args);
  EXPECT_THAT(values(args.counts), ElementsAre(1, 2));
  EXPECT_THAT(values(args.token), ElementsAre(1, 0, 1, 0, 0, 0));
  EXPECT_THAT(values(args.position), ElementsAre(-1, 1, 2, 0, -1, -1));
}

/// `dropped` with runs of experts as one destination.
SortByExpertArgs by_runs(int64_t together) {
  SortByExpertArgs args = dropped(1, 0);
  args.experts_per_rank = 1, args.experts_together = together;
  args.counts = host_tensor(DType::i64, {kExperts / together});
  args.offsets = host_tensor(DType::i32, {kExperts / together + 1});
  return args;
}

TEST_P(ExpertRowsTest, RunsOfExpertsHaveATokenOnce) {
  for (const int64_t together : {1, 2, 4, 8}) {
    const SortByExpertArgs args = by_runs(together), exact = by_runs(together);
    sort_by_expert(context_, args);
    reference::sort_by_expert(exact);
    EXPECT_EQ(values(args.token), values(exact.token));
    EXPECT_EQ(values(args.position), values(exact.position));
    EXPECT_EQ(values(args.counts), values(exact.counts));
    EXPECT_EQ(values(args.offsets), values(exact.offsets));
    for (int64_t run = 0; run < kExperts / together; ++run) {
      const int32_t* offsets = args.offsets.data<int32_t>() + run;
      for (int32_t row = offsets[0] + 1; row < offsets[1]; ++row)
        EXPECT_LT(args.token.data<int32_t>()[row - 1], args.token.data<int32_t>()[row]);
    }
  }
}

TEST_P(ExpertRowsTest, OfChoicesInOneRunTheFirstHasTheRow) {
  SortByExpertArgs args{integers(DType::i32, {5, 0, 1, 3, -1, 2}).view({2, 3}),
                        1,
                        1,
                        host_tensor(DType::i32, {6}),
                        host_tensor(DType::i32, {2, 3}),
                        host_tensor(DType::i64, {3}),
                        host_tensor(DType::i32, {4})};
  args.experts_together = 2;
  sort_by_expert(context_, args);
  EXPECT_THAT(values(args.counts), ElementsAre(1, 1, 1));
  EXPECT_THAT(values(args.token), ElementsAre(0, 1, 0, 0, 0, 0));
  EXPECT_THAT(values(args.position), ElementsAre(2, 0, -1, 1, -1, -1));
}

TEST_P(ExpertRowsTest, PlacesWithoutARowCountNothing) {
  const SortByExpertArgs order = dropped(1, 0);
  reference::sort_by_expert(order);
  CombineRowsArgs args;
  args.rows = random_tensor(DType::f32, {order.token.dim(0), 19}, 1);
  args.position = order.position;
  args.weight = random_tensor(DType::f32, {kTokens, kTopk}, 2);
  args.out = host_tensor(DType::f32, {kTokens, 19});
  combine_rows(context_, args);
  for (int64_t t = 0; t < kTokens; ++t) {
    double expected = 0;
    for (int64_t j = 0; j < kTopk; ++j) {
      const int64_t row = order.position.data<int32_t>()[t * kTopk + j];
      if (row >= 0)
        expected += test::element(args.weight, t * kTopk + j) * test::element(args.rows, row * 19);
    }
    EXPECT_NEAR(test::element(args.out, t * 19), expected, 1e-5);
  }
  CombineRowsBackwardArgs back{args.out,
                               args.rows,
                               args.position,
                               args.weight,
                               host_tensor(DType::f32, args.rows.shape()),
                               host_tensor(DType::f32, args.weight.shape())};
  combine_rows_backward(context_, back);
  for (int64_t i = 0; i < order.position.elements(); ++i) {
    const double d = test::element(back.d_weight, i);
    EXPECT_EQ(order.position.data<int32_t>()[i] < 0, d == 0) << i;
  }
}

TEST_P(ExpertRowsTest, ArrivalsAreOrderedByExpertAndBack) {
  const Tensor counts = integers(DType::i64, {2, 0, 1, 0, 3, 2}).view({2, 3});
  const ArrivalOrderArgs args{counts, host_tensor(DType::i32, {8}), host_tensor(DType::i32, {8}),
                              host_tensor(DType::i32, {4})};
  const ArrivalOrderArgs exact{counts, host_tensor(DType::i32, {8}), host_tensor(DType::i32, {8}),
                               host_tensor(DType::i32, {4})};
  arrival_order(context_, args);
  reference::arrival_order(exact);
  EXPECT_THAT(values(args.from), ElementsAre(0, 1, 3, 4, 5, 2, 6, 7));
  EXPECT_THAT(values(args.offsets), ElementsAre(0, 2, 5, 8));
  EXPECT_EQ(values(args.from), values(exact.from));
  EXPECT_EQ(values(args.back), values(exact.back));
  for (int64_t r = 0; r < 8; ++r)
    EXPECT_EQ(args.back.data<int32_t>()[args.from.data<int32_t>()[r]], r);
}

TEST_P(ExpertRowsTest, CombiningMatchesTheReference) {
  for (const int64_t copies : {1, 2}) {
    const SortByExpertArgs order = sorted(4, copies);
    reference::sort_by_expert(order);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const DType sum = dtype == DType::f64 ? DType::f64 : DType::f32;
      for (const int64_t width : {1, 19, 64}) {
        for (const bool weighted : {true, false}) {
          CombineRowsArgs args;
          args.rows = random_strided(dtype, {order.token.dim(0), width}, 3, 1);
          args.position = order.position;
          if (weighted) args.weight = random_tensor(sum, {kTokens, kTopk}, 2);
          args.out = random_strided(dtype, {kTokens, width}, 5, 3);
          args.copies = copies;
          CombineRowsArgs exact = args, sums = args;
          exact.rows = to_f64(args.rows), exact.weight = to_f64(args.weight);
          exact.out = to_f64(args.out);
          sums.rows = test::magnitudes(args.rows), sums.out = to_f64(args.out);
          if (weighted) sums.weight = test::magnitudes(args.weight);
          combine_rows(context_, args);
          reference::combine_rows(exact);
          reference::combine_rows(sums);
          expect_close(args.out, exact.out, static_cast<double>(kTopk * copies), sums.out);
        }
      }
    }
  }
}

TEST_P(ExpertRowsTest, CombiningBackwardMatchesTheReferenceAlsoInPlace) {
  for (const int64_t copies : {1, 2}) {
    const SortByExpertArgs order = sorted(4, copies);
    reference::sort_by_expert(order);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const DType sum = dtype == DType::f64 ? DType::f64 : DType::f32;
      const int64_t width = 45;
      CombineRowsBackwardArgs args;
      args.d_out = random_strided(dtype, {kTokens, width}, 3, 4);
      args.rows = args.d_rows = random_strided(dtype, {order.token.dim(0), width}, 3, 1);
      args.position = order.position;
      args.weight = random_tensor(sum, {kTokens, kTopk}, 2);
      args.d_weight = host_tensor(sum, {kTokens, kTopk});
      args.copies = copies;
      CombineRowsBackwardArgs exact = args, sums = args;
      exact.d_out = to_f64(args.d_out), exact.rows = to_f64(args.rows);
      exact.weight = to_f64(args.weight), exact.d_weight = to_f64(args.d_weight);
      exact.d_rows = to_f64(args.rows);
      sums.d_out = test::magnitudes(args.d_out), sums.rows = test::magnitudes(args.rows);
      sums.weight = test::magnitudes(args.weight), sums.d_weight = to_f64(args.d_weight);
      sums.d_rows = to_f64(args.rows);
      combine_rows_backward(context_, args);
      reference::combine_rows_backward(exact);
      reference::combine_rows_backward(sums);
      expect_close(args.d_rows, exact.d_rows, 1, sums.d_rows);
      expect_close(args.d_weight, exact.d_weight, static_cast<double>(width * copies),
                   sums.d_weight);
    }
  }
}

TEST_P(ExpertRowsTest, BitsDoNotDependOnThreads) {
  const SortByExpertArgs order = sorted(8, 1);
  reference::sort_by_expert(order);
  std::vector<Tensor> found;
  for (const int threads : {1, 3}) {
    OpMachine machine(GetParam(), threads, {cpu::add_expert_rows});
    OpContext context = machine.context();
    CombineRowsArgs args;
    args.rows = random_tensor(DType::bf16, {order.token.dim(0), 70}, 1);
    args.position = order.position;
    args.weight = random_tensor(DType::f32, {kTokens, kTopk}, 2);
    args.out = host_tensor(DType::f32, {kTokens, 70});
    combine_rows(context, args);
    found.push_back(args.out);
  }
  expect_same_bits(found[0], found[1]);
}

TEST_P(ExpertRowsTest, ChecksRefuseWhatTheContractDoesNotAllow) {
  SortByExpertArgs args = sorted(3, 1);  // 3 experts a rank do not divide 8
  EXPECT_THAT([&] { sort_by_expert(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("8 destinations")));
  args = sorted(4, 1);
  args.token = host_tensor(DType::i32, {5});
  EXPECT_THAT([&] { sort_by_expert(context_, args); },
              ThrowsMessage<ShapeError>(HasSubstr("token")));
  CombineRowsArgs sum;
  sum.rows = random_tensor(DType::f32, {12, 4}, 1), sum.out = host_tensor(DType::f32, {4, 4});
  sum.position = host_tensor(DType::i32, {4, 3}), sum.copies = 2;
  EXPECT_THAT([&] { combine_rows(context_, sum); },
              ThrowsMessage<ShapeError>(HasSubstr("3 places of a token in 2 copies")));
}

}  // namespace
}  // namespace viaduct
