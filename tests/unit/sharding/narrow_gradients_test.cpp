// Main gradients in the weights' format: half the memory and messages, each contribution and each
// sum over ranks rounded once, and the same bits for every way of reducing shards.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "comm/world.h"
#include "ops/cpu/cpu_ops.h"
#include "sharding/gradient_reduction.h"
#include "support/instruction_set.h"
#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using test::ToyRank;
using test::ToyRun;
using test::train_toy;

ToyRun toy(int ranks, bool narrow) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, ranks, 1});
  run.store.fp32_gradients = !narrow;
  return run;
}

ToyRun exchanged(int ranks) {
  ToyRun run = toy(ranks, true);
  run.store.reduce_by_exchange = true;
  return run;
}

int64_t wire_bytes(const ToyRank& rank, const std::string& operation) {
  int64_t bytes = 0;
  for (const CollectiveRecord& c : rank.collectives(operation)) bytes += c.wire_bytes;
  return bytes;
}

template <class T>
std::vector<double> values(const std::string& bytes) {
  std::vector<T> typed(bytes.size() / sizeof(T));
  std::memcpy(typed.data(), bytes.data(), bytes.size());
  std::vector<double> list;
  for (const T value : typed) list.push_back(static_cast<float>(value));
  return list;
}

/// ‖a − b‖ / ‖b‖.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

void expect_same(const std::vector<ToyRank>& got, const std::vector<ToyRank>& expected) {
  for (size_t rank = 0; rank < got.size(); ++rank) {
    EXPECT_TRUE(got[rank].weights == expected[rank].weights) << "weights of rank " << rank;
    EXPECT_TRUE(got[rank].gradients == expected[rank].gradients) << "gradients of rank " << rank;
    EXPECT_EQ(got[rank].norms, expected[rank].norms) << "rank " << rank;
  }
}

/// Close to FP32 gradients on each rank, but not equal.
void expect_close(ToyRun run) {
  run.steps = 1;
  const auto narrow = train_toy(run);
  run.store.fp32_gradients = true;
  const auto wide = train_toy(run);
  for (size_t rank = 0; rank < narrow.size(); ++rank) {
    const double apart =
        distance(values<bfloat16>(narrow[rank].gradients), values<float>(wide[rank].gradients));
    EXPECT_LE(apart, 1e-2) << "rank " << rank;
    EXPECT_GT(apart, 0) << "rank " << rank;
    EXPECT_NEAR(narrow[rank].norms[0], wide[rank].norms[0], 1e-2 * wide[rank].norms[0]);
  }
}

class NarrowGradients : public testing::TestWithParam<int> {};

TEST_P(NarrowGradients, TakeHalfTheMemoryAndHalfTheWire) {
  const int d = GetParam();
  const auto narrow = train_toy(toy(d, true)), wide = train_toy(toy(d, false));
  for (size_t rank = 0; rank < narrow.size(); ++rank) {
    EXPECT_EQ(narrow[rank].gradient_bytes, 2 * narrow[rank].buffer_elements);
    EXPECT_EQ(wide[rank].gradient_bytes, 4 * wide[rank].buffer_elements);
    const int64_t bytes = wire_bytes(narrow[rank], "reduce_scatter");
    EXPECT_EQ(bytes, 2 * narrow[rank].buffer_elements * (d - 1) / d);
    EXPECT_EQ(2 * bytes, wire_bytes(wide[rank], "reduce_scatter"));
  }
}

TEST_P(NarrowGradients, AreRoundedOnceAContributionAndOnceASum) {
  ToyRun run = toy(GetParam(), true);
  run.steps = 1;
  std::vector<bfloat16> expected;
  const auto shapes = test::toy_shapes();
  for (size_t p = 0; p < shapes.size(); ++p) {
    for (int64_t e = 0; e < shapes[p].elements(); ++e) {
      const auto of = [&](int rank) {
        const auto part = [&](int batch) {
          return test::toy_gradient(0, rank, batch, static_cast<int>(p), e);
        };
        return static_cast<float>(bfloat16(static_cast<float>(bfloat16(part(0))) + part(1)));
      };
      float sum = of(0);
      for (int rank = 1; rank < GetParam(); ++rank) sum += of(rank);
      expected.push_back(bfloat16(sum));
    }
  }
  for (const ToyRank& rank : train_toy(run)) {
    ASSERT_EQ(rank.gradients.size(), expected.size() * sizeof(bfloat16));
    EXPECT_EQ(std::memcmp(rank.gradients.data(), expected.data(), rank.gradients.size()), 0);
    double squares = 0;  // the norm is that of the sent values
    for (const bfloat16 value : expected)
      squares += static_cast<double>(static_cast<float>(value)) * static_cast<float>(value);
    EXPECT_NEAR(rank.norms[0], std::sqrt(squares) / 16, 1e-9);
  }
  expect_close(run);
}

TEST_P(NarrowGradients, ExchangedShardsHaveTheBitsAndBytesOfAReduceScatter) {
  const auto scattered = train_toy(toy(GetParam(), true)), got = train_toy(exchanged(GetParam()));
  expect_same(got, scattered);
  for (size_t rank = 0; rank < got.size(); ++rank) {
    EXPECT_TRUE(got[rank].collectives("reduce_scatter").empty());
    EXPECT_EQ(wire_bytes(got[rank], "all_to_all"), wire_bytes(scattered[rank], "reduce_scatter"));
  }
}

TEST_P(NarrowGradients, OverlapBucketsAndShardsChangeNoBit) {
  const auto expected = train_toy(toy(GetParam(), true));
  for (ToyRun run : {toy(GetParam(), true), exchanged(GetParam())}) {
    run.store.overlap_grad_reduce = run.store.overlap_param_gather = true;
    run.store.bucket_elements = 200;
    expect_same(train_toy(run), expected);
  }
  ToyRun replicas = toy(GetParam(), true);
  replicas.instances = GetParam();
  replicas.store.distributed_optimizer = false;
  expect_same(train_toy(replicas), expected);
}

TEST_P(NarrowGradients, AveragesAreSumsDivided) {
  ToyRun average = toy(GetParam(), true), exchange = exchanged(GetParam());
  average.steps = exchange.steps = 1;
  const auto sums = train_toy(average);
  average.store.average_in_collective = exchange.store.average_in_collective = true;
  const auto expected = train_toy(average), got = train_toy(exchange);
  std::vector<double> divided = values<bfloat16>(sums[0].gradients);
  for (double& value : divided) value /= GetParam();
  for (size_t rank = 0; rank < got.size(); ++rank) {
    EXPECT_LE(distance(values<bfloat16>(got[rank].gradients), divided), 1e-2);
    EXPECT_LE(distance(values<bfloat16>(expected[rank].gradients), divided), 1e-2);
  }
}

TEST_P(NarrowGradients, AreFp32WhereWeightsAre) {
  ToyRun narrow = toy(GetParam(), true), wide = toy(GetParam(), false);
  narrow.recipe = wide.recipe = "fp32";
  expect_same(train_toy(narrow), train_toy(wide));
}

// Matching parameters sum their micro-batches in FP32 and are rounded once for messages; only these
// parameters take additional FP32 memory, and messages are the same.
TEST_P(NarrowGradients, AddUpInFp32WhereANameFits) {
  const auto shapes = test::toy_shapes();
  for (const auto& [pattern, fits] :
       {std::pair<std::string, std::vector<size_t>>{"toy[23]", {2, 3}},
        {"all", {0, 1, 2, 3, 4, 5}}}) {
    ToyRun run = toy(GetParam(), true);
    run.steps = 1, run.micro_batches = 3;
    const auto without = train_toy(run);
    run.store.fp32_accumulation = {"no such name", pattern};
    std::vector<bfloat16> expected;
    int64_t matching = 0;
    for (size_t p = 0; p < shapes.size(); ++p) {
      const bool wide = std::find(fits.begin(), fits.end(), p) != fits.end();
      if (wide) matching += shapes[p].elements();
      for (int64_t e = 0; e < shapes[p].elements(); ++e) {
        float sum = 0;
        for (int rank = 0; rank < GetParam(); ++rank) {
          float mine = 0;
          for (int batch = 0; batch < 3; ++batch) {
            mine += test::toy_gradient(0, rank, batch, static_cast<int>(p), e);
            if (!wide) mine = static_cast<float>(bfloat16(mine));
          }
          sum += static_cast<float>(bfloat16(mine));
        }
        expected.push_back(bfloat16(sum));
      }
    }
    for (const bool overlap : {false, true}) {
      run.store.overlap_grad_reduce = overlap;
      run.store.bucket_elements = overlap ? 200 : 40'000'000;
      const auto ranks = train_toy(run);
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        ASSERT_EQ(ranks[rank].gradients.size(), expected.size() * sizeof(bfloat16));
        EXPECT_EQ(std::memcmp(ranks[rank].gradients.data(), expected.data(),
                              ranks[rank].gradients.size()),
                  0)
            << pattern << " overlap " << overlap;
        EXPECT_EQ(ranks[rank].gradient_bytes, 2 * ranks[rank].buffer_elements + 4 * matching);
        if (overlap) continue;  // more buckets, so more padding
        EXPECT_EQ(wire_bytes(ranks[rank], "reduce_scatter"),
                  wire_bytes(without[rank], "reduce_scatter"));
      }
      EXPECT_FALSE(ranks[0].gradients == without[0].gradients);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, NarrowGradients, testing::Values(1, 2, 3));

TEST(NarrowReplicaGradients, AreSummedOverTensorRanksAndStages) {
  ToyRun tensor = toy(2, true);
  tensor.mesh = Mesh({2, 1, 1, 2, 1});
  tensor.change = [](std::vector<Parameter>& parameters, const ParallelGroups& groups) {
    for (const size_t i : {1, 3}) {
      Part& part = parameters[i].parts[0];
      part.replicas = Replicas::tp;
      part.replica_gradient = ReplicaGradient::partial;
      part.owned = groups.tp().rank() == 0;
    }
  };
  expect_close(tensor);
  ToyRun stages = toy(2, true);
  stages.mesh = Mesh({1, 1, 1, 2, 2});
  stages.change = [](std::vector<Parameter>& parameters, const ParallelGroups& groups) {
    parameters[2].holders = {0, 1};
    parameters[2].parts[0].owned = groups.pp().rank() == 0;
  };
  expect_close(stages);
}

/// Shards of four ranks that hold one BF16 value each in every element of a bucket of eight.
std::vector<float> exchanged_sum(const std::vector<float>& by_rank) {
  std::vector<float> sums(8);
  std::mutex mutex;
  run_thread_ranks(4, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const auto device = make_cpu_device(1);
    const OpTable ops = cpu_ops(test::instruction_set());
    OpContext context{*device, ops};
    const ParallelGroups groups(Mesh({1, 1, 1, 4, 1}), world);
    const Tensor whole = device->allocate(DType::bf16, {8}, MemoryTag::main_gradients);
    const auto rank = static_cast<size_t>(world->rank());
    for (int i = 0; i < 8; ++i) whole.data<bfloat16>()[i] = bfloat16(by_rank[rank]);
    const Tensor own = whole.slice(0, 2 * world->rank(), 2);
    GradientReduction reduction({{whole, own, own, sharding_groups(groups, Grid::attention)}},
                                ReduceOp::sum, GradientReduction::Way::exchange);
    reduction.begin_step(context);
    reduction.finish();
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < 2; ++i) sums[2 * rank + i] = static_cast<float>(own.data<bfloat16>()[i]);
  });
  return sums;
}

// Sums in BF16 would lose the ones beside 256 (spacing 2); in FP32 they survive until the end.
TEST(ExchangedShards, AreSummedInFp32) {
  EXPECT_EQ(exchanged_sum({256, 1, 1, -256}), std::vector<float>(8, 2));
  EXPECT_EQ(exchanged_sum({1, 256, -256, 0.00390625f}), std::vector<float>(8, 1.0f));
}

// Beside 2^24 (spacing 2 in FP32) a one that is added alone is rounded away, to the even neighbour:
// other orders than that of the ranks, pairs, and FP64 give 2 or 1.
TEST(ExchangedShards, AreSummedInTheOrderOfRanks) {
  EXPECT_EQ(exchanged_sum({0x1p24f, 1, 1, -0x1p24f}), std::vector<float>(8, 0));
  EXPECT_EQ(exchanged_sum({1, 1, 0x1p24f, -0x1p24f}), std::vector<float>(8, 2));
  EXPECT_EQ(exchanged_sum({1, 0x1p24f, 1, -0x1p24f}), std::vector<float>(8, 0));
}

TEST(ExchangedShards, NeedOneInstance) {
  ToyRun run = exchanged(4);
  run.instances = 2;
  EXPECT_THROW(train_toy(run), Error);
}

}  // namespace
}  // namespace viaduct
