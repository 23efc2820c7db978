// Attention over context ranks against one rank with whole documents: every kind of exchange, with
// grouped heads, packed documents, windows, caps and dropout; and the wire bytes of each kind.

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "unit/nn/context_parallel_ranks.h"

namespace viaduct {
namespace {

using test::attend;
using test::attend_over_ranks;
using test::AttentionTensors;
using test::ContextCase;
using test::RanksResult;

constexpr Tensor AttentionTensors::*kResults[] = {&AttentionTensors::out, &AttentionTensors::dq,
                                                  &AttentionTensors::dk, &AttentionTensors::dv};

/// ‖a − b‖ / ‖b‖.
double distance(const Tensor& a, const Tensor& b) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < b.elements(); ++i) {
    const double x = test::element(a, i), y = test::element(b, i);
    difference += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(difference / size);
}

void expect_as_one_rank(const ContextCase& c, const char* precision, double tolerance) {
  SCOPED_TRACE(testing::Message() << precision << " window " << c.window << " softcap " << c.softcap
                                  << " dropout " << c.dropout);
  const AttentionTensors one = attend(c, precision);
  const AttentionTensors many = attend_over_ranks(c, precision, {c.exchange}).layers.front();
  const char* names[] = {"out", "dq", "dk", "dv"};
  for (int i = 0; i < 4; ++i)
    EXPECT_LE(distance(many.*kResults[i], one.*kResults[i]), tolerance) << names[i];
}

struct Way {
  ContextExchange exchange;
  int cp, inner;
  int64_t heads, kv_heads;
};

class ContextParallel : public testing::TestWithParam<Way> {
 protected:
  ContextCase make_case(const std::vector<int>& lengths) const {
    ContextCase c;
    c.exchange = GetParam().exchange;
    c.cp = GetParam().cp, c.inner = GetParam().inner;
    c.heads = GetParam().heads, c.kv_heads = GetParam().kv_heads;
    c.lengths = lengths;
    return c;
  }
  bool windows() const {
    return GetParam().exchange == ContextExchange::all_gather ||
           GetParam().exchange == ContextExchange::a2a || GetParam().cp == GetParam().inner;
  }
};

TEST_P(ContextParallel, RowsAreAsOnOneRank) {
  const ContextCase c = make_case({24, 24});
  expect_as_one_rank(c, "fp64", 1e-12);
  expect_as_one_rank(c, "fp32", 1e-6);
}

TEST_P(ContextParallel, PackedDocumentsWithPaddingAreAsOnOneRank) {
  ContextCase c = make_case({5, 17, 1, 30, 8});
  expect_as_one_rank(c, "fp64", 1e-12);
  c.softcap = 1.5;
  expect_as_one_rank(c, "fp64", 1e-12);
}

TEST_P(ContextParallel, DropoutDropsTheSame) {
  ContextCase c = make_case({5, 17, 1, 30, 8});
  c.dropout = 0.4;
  c.first_head = 3;  // as on a later tensor rank
  expect_as_one_rank(c, "fp64", 1e-12);
  expect_as_one_rank(c, "fp32", 1e-6);
}

TEST_P(ContextParallel, SlidingWindows) {
  ContextCase c = make_case({5, 17, 1, 30, 8});
  c.window = 6;
  if (windows()) {
    expect_as_one_rank(c, "fp64", 1e-12);
    c.dropout = 0.4, c.softcap = 1.5;
    expect_as_one_rank(c, "fp64", 1e-12);
  } else {
    EXPECT_THROW(attend_over_ranks(c, "fp64", {c.exchange}), ConfigError);
  }
}

// Composed of ops, with the score matrix in memory: every exchange gives the same, and so does
// flash attention.
TEST_P(ContextParallel, ComposedAttention) {
  ContextCase c = make_case({24, 48});
  c.softcap = 1.5, c.dropout = 0.3;
  const AttentionTensors flash = attend(c, "fp32");
  c.flash = false;
  expect_as_one_rank(c, "fp64", 1e-12);
  const AttentionTensors composed = attend(c, "fp32");
  for (const auto result : kResults) {
    EXPECT_LE(distance(composed.*result, flash.*result), 1e-5);
    EXPECT_GT(distance(composed.*result, flash.*result), 0);
  }
}

// BF16 values, sums in FP32: not farther from FP64 than one rank.
TEST_P(ContextParallel, Bf16IsAsNearAsOnOneRank) {
  const ContextCase c = make_case({48});
  const AttentionTensors exact = attend(c, "fp64"), one = attend(c, "bf16_mixed"),
                         many = attend_over_ranks(c, "bf16_mixed", {c.exchange}).layers.front();
  for (const auto result : kResults) {
    const double least = distance(one.*result, exact.*result);
    EXPECT_GT(least, 0);
    EXPECT_LE(distance(many.*result, exact.*result), 1.5 * least);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, ContextParallel,
                         testing::Values(Way{ContextExchange::p2p, 2, 1, 4, 2},
                                         Way{ContextExchange::p2p, 3, 1, 4, 2},
                                         Way{ContextExchange::p2p, 4, 1, 4, 2},
                                         Way{ContextExchange::all_gather, 2, 1, 4, 2},
                                         Way{ContextExchange::all_gather, 3, 1, 4, 4},
                                         Way{ContextExchange::all_gather, 4, 1, 4, 1},
                                         Way{ContextExchange::a2a, 2, 1, 4, 2},
                                         Way{ContextExchange::a2a, 3, 1, 6, 3},
                                         Way{ContextExchange::a2a, 4, 1, 8, 4},
                                         Way{ContextExchange::a2a_p2p, 4, 2, 4, 2},
                                         Way{ContextExchange::a2a_p2p, 2, 2, 4, 2}),
                         [](const auto& info) {
                           std::string name(choice_name(info.param.exchange));
                           if (name == "a2a+p2p") name = "levels";
                           return name + "_cp" + std::to_string(info.param.cp) + "_inner" +
                                  std::to_string(info.param.inner);
                         });

// A list with another exchange for each layer: all use the same groups and the same batch.
TEST(ContextParallelLayers, MayDifferInTheWay) {
  ContextCase c;
  c.cp = 4, c.inner = 2, c.heads = 8, c.kv_heads = 4;
  c.lengths = {5, 30, 8};
  const AttentionTensors one = attend(c, "fp64");
  const RanksResult result =
      attend_over_ranks(c, "fp64",
                        {ContextExchange::a2a, ContextExchange::p2p, ContextExchange::all_gather,
                         ContextExchange::a2a_p2p});
  for (const AttentionTensors& many : result.layers) {
    for (const auto result : kResults) EXPECT_LE(distance(many.*result, one.*result), 1e-12);
  }
}

// Bytes that leave a rank, by operation: forward and backward of one layer in FP32.
TEST(ContextParallelBytes, AreWhatThePagesSay) {
  const int64_t cp = 4, tokens = 12, heads = 8, kv_heads = 4, width = 8;
  const int64_t q = tokens * heads * width * 4, kv = 2 * tokens * kv_heads * width * 4,
                delta = tokens * heads * 4;
  const auto bytes = [&](ContextExchange exchange, int inner) {
    ContextCase c;
    c.exchange = exchange, c.cp = cp, c.inner = inner;
    c.heads = heads, c.kv_heads = kv_heads, c.width = width;
    c.lengths = {static_cast<int>(cp * tokens)};
    std::map<std::string, int64_t> sums;
    const RanksResult result = attend_over_ranks(c, "fp32", {exchange});
    for (const CollectiveRecord& r : result.traces[0].record.collectives())
      sums[std::string(choice_name(r.operation))] += r.wire_bytes;
    std::erase_if(sums, [](const auto& entry) { return entry.second == 0; });
    return sums;
  };
  using Sums = std::map<std::string, int64_t>;
  // Keys and values go around twice except for the last step; their gradients go all the way back.
  EXPECT_EQ(bytes(ContextExchange::p2p, 1), (Sums{{"send", 2 * (cp - 1) * kv + cp * kv}}));
  EXPECT_EQ(bytes(ContextExchange::all_gather, 1),
            (Sums{{"all_gather", 2 * (cp - 1) * kv}, {"reduce_scatter", (cp - 1) * kv}}));
  EXPECT_EQ(bytes(ContextExchange::a2a, 1),
            (Sums{{"all_to_all", (2 * (2 * q + kv) + delta) * (cp - 1) / cp}}));
  // Two ranks exchange heads; then a ring of two with half of the heads and twice the tokens.
  EXPECT_EQ(bytes(ContextExchange::a2a_p2p, 2),
            (Sums{{"all_to_all", (2 * (2 * q + kv) + delta) / 2}, {"send", 2 * kv + 2 * kv}}));
}

// The transfer of the next block starts before the current one is computed, and is waited for
// afterwards.
TEST(ContextParallelOverlap, BlocksMoveUnderTheComputation) {
  ContextCase c;
  c.cp = 3, c.heads = 2, c.kv_heads = 2;
  c.lengths = {24};
  const RanksResult result = attend_over_ranks(c, "fp32", {c.exchange});
  const StepRecord& record = result.traces[0].record;
  std::vector<CollectiveRecord> receives;
  for (const CollectiveRecord& r : record.collectives())
    if (r.operation == Collective::receive) receives.push_back(r);
  std::vector<int64_t> computed;
  for (const OpEntryRecord& op : record.ops())
    if (op.op == "attention_forward") computed.push_back(op.at);
  ASSERT_EQ(computed.size(), 3u);
  ASSERT_EQ(receives.size(), 2u + 2u + 3u);  // forward; in the backward also gradients
  for (size_t step = 0; step < 2; ++step) {
    EXPECT_LT(receives[step].launched_at, computed[step]);
    EXPECT_GT(receives[step].completed_at, computed[step]);
    EXPECT_LT(receives[step].completed_at, computed[step + 1]);
  }
}

TEST(ContextParallelMemory, KeepsItsOwnTokensAlone) {
  for (const ContextExchange exchange : {ContextExchange::p2p, ContextExchange::all_gather,
                                         ContextExchange::a2a, ContextExchange::a2a_p2p}) {
    ContextCase c;
    c.exchange = exchange, c.cp = 4, c.inner = 2;
    c.heads = 8, c.kv_heads = 4, c.width = 8;
    c.lengths = {32};
    const RanksResult result = attend_over_ranks(c, "fp32", {exchange});
    EXPECT_EQ(result.traces[0].saved_entries, 5u);
    // q, out, k, v and the log-sum-exp of 8 tokens, of other heads. Slices of the given q, k and v
    // are kept with their gaps of 3; exchanged tensors have none.
    const bool given = exchange == ContextExchange::p2p || exchange == ContextExchange::all_gather;
    const int64_t width = 8 + (given ? 3 : 0);
    EXPECT_EQ(result.traces[0].saved_bytes, 8 * ((8 + 2 * 4) * width + 8 * 8 + 8) * 4)
        << choice_name(exchange);
  }
}

// Zigzag: every rank computes the same number of (query, key) pairs.
TEST(ContextParallelBalance, EveryRankComputesAsMuch) {
  for (const ContextExchange exchange : {ContextExchange::p2p, ContextExchange::all_gather}) {
    ContextCase c;
    c.exchange = exchange, c.cp = 4;
    c.lengths = {64};
    const RanksResult result = attend_over_ranks(c, "fp32", {exchange});
    std::vector<double> flops;
    for (const test::RankTrace& trace : result.traces) {
      double sum = 0;
      for (const OpEntryRecord& op : trace.record.ops())
        if (op.op == "attention_forward") sum += op.cost.total_flops();
      flops.push_back(sum);
    }
    for (const double f : flops) EXPECT_DOUBLE_EQ(f, flops.front());
    // All pairs of the causal triangle, once.
    double sum = 0;
    for (const double f : flops) sum += f;
    EXPECT_DOUBLE_EQ(sum, 64.0 * 65 / 2 * c.heads * 4 * c.width);
  }
}

TEST(ContextParallelErrors, SayWhatDoesNotFit) {
  ContextCase c;
  c.exchange = ContextExchange::a2a, c.cp = 2;
  c.heads = 6, c.kv_heads = 3;
  c.lengths = {8};
  EXPECT_THROW(attend_over_ranks(c, "fp32", {c.exchange}), ConfigError);
}

}  // namespace
}  // namespace viaduct
