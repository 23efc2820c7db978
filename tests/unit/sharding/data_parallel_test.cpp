// Sharded, overlapped and bucketed training equals plain training bit by bit, with the memory,
// messages and order of events that each setting promises.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using test::ToyRank;
using test::ToyRun;
using test::train_toy;

ToyRun sharded(int ranks) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, ranks, 1});
  return run;
}

ToyRun replicated(int ranks) {
  ToyRun run = sharded(ranks);
  run.instances = ranks;
  run.store.distributed_optimizer = false;
  return run;
}

ToyRun overlapped(int ranks, int64_t bucket_elements = 200) {
  ToyRun run = sharded(ranks);
  run.store.overlap_grad_reduce = run.store.overlap_param_gather = true;
  run.store.bucket_elements = bucket_elements;
  return run;
}

/// All ranks have the weights of rank 0 of `expected`.
void expect_same(const std::vector<ToyRank>& got, const std::vector<ToyRank>& expected) {
  for (size_t rank = 0; rank < got.size(); ++rank) {
    EXPECT_TRUE(got[rank].weights == expected[0].weights) << "weights of rank " << rank;
    EXPECT_TRUE(got[rank].gradients == expected[0].gradients) << "gradients of rank " << rank;
    EXPECT_EQ(got[rank].norms, expected[0].norms) << "rank " << rank;
  }
}

int64_t wire_bytes(const std::vector<CollectiveRecord>& collectives) {
  int64_t bytes = 0;
  for (const CollectiveRecord& c : collectives) bytes += c.wire_bytes;
  return bytes;
}

class DataParallel : public testing::TestWithParam<int> {};

TEST_P(DataParallel, ShardsTrainAsReplicasDo) {
  for (const char* recipe : {"bf16_mixed", "fp32"}) {
    ToyRun shards = sharded(GetParam()), replicas = replicated(GetParam());
    shards.recipe = replicas.recipe = recipe;
    const auto expected = train_toy(replicas);
    expect_same(train_toy(shards), expected);
    expect_same(expected, expected);
    EXPECT_GT(expected[0].norms.back(), 0);
  }
}

TEST_P(DataParallel, GradientsAreSumsInRankOrder) {
  ToyRun run = sharded(GetParam());
  run.recipe = "fp32";
  run.steps = 1;
  const auto ranks = train_toy(run);
  std::vector<float> expected;
  const auto shapes = test::toy_shapes();
  for (size_t p = 0; p < shapes.size(); ++p) {
    for (int64_t e = 0; e < shapes[p].elements(); ++e) {
      const auto of = [&](int rank, int micro_batch) {
        return test::toy_gradient(0, rank, micro_batch, static_cast<int>(p), e);
      };
      float sum = of(0, 0) + of(0, 1);
      for (int rank = 1; rank < GetParam(); ++rank) sum += of(rank, 0) + of(rank, 1);
      expected.push_back(sum);
    }
  }
  ASSERT_EQ(ranks[0].gradients.size(), expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(ranks[0].gradients.data(), expected.data(), ranks[0].gradients.size()), 0);
}

TEST_P(DataParallel, OptimizerStateIsAShareOfTwelveBytes) {
  const int d = GetParam();
  const auto ranks = train_toy(sharded(d));
  int64_t runs = 0;
  for (const ToyRank& rank : ranks) {
    EXPECT_EQ(rank.master_bytes, 4 * rank.buffer_elements / d);
    EXPECT_EQ(rank.moment_bytes, 8 * rank.run_elements);
    EXPECT_LE(rank.run_elements, rank.buffer_elements / d);
    runs += rank.run_elements;
  }
  EXPECT_EQ(runs, test::toy_elements());
}

TEST_P(DataParallel, GradientsAreScatteredAndWeightsGatheredOnce) {
  const int d = GetParam();
  const auto ranks = train_toy(sharded(d));
  for (const ToyRank& rank : ranks) {
    // Only the sum of the norm.
    for (const CollectiveRecord& c : rank.collectives("all_reduce"))
      EXPECT_EQ(c.group, "statistics");
    EXPECT_EQ(wire_bytes(rank.collectives("reduce_scatter")),
              4 * rank.buffer_elements * (d - 1) / d);
    int64_t weights = 0;
    for (const CollectiveRecord& c : rank.collectives("all_gather")) weights += c.wire_bytes;
    EXPECT_EQ(weights, 2 * rank.buffer_elements * (d - 1) / d);
  }
}

TEST_P(DataParallel, OverlapAndBucketsChangeNoBit) {
  const auto expected = train_toy(sharded(GetParam()));
  for (const int64_t bucket : {1, 200, 1'000'000})
    expect_same(train_toy(overlapped(GetParam(), bucket)), expected);
  ToyRun other_order = overlapped(GetParam());
  other_order.last_first = true;  // not the order in which gathers are started
  expect_same(train_toy(other_order), expected);
  ToyRun numbered = overlapped(GetParam());
  numbered.store.num_buckets = 3;
  numbered.store.pad_for_bus_bandwidth = true;
  const auto buckets = train_toy(numbered);
  expect_same(buckets, expected);
  EXPECT_EQ(buckets[0].buffer_elements % 65536, 0);
}

TEST_P(DataParallel, OverlappedMessagesRunBesideTheCompute) {
  const auto overlap = train_toy(overlapped(GetParam()));
  for (const ToyRank& rank : overlap) {
    const auto copies = [](const OpEntryRecord& op) { return op.op == "copy"; };
    const auto& ops = rank.record.ops();  // forwards and backwards copy once a parameter
    const auto first_forward = std::find_if(ops.begin(), ops.end(), copies);
    const int64_t last_backward = std::find_if(ops.rbegin(), ops.rend(), copies)->at;
    const auto scatters = rank.collectives("reduce_scatter");
    ASSERT_GE(scatters.size(), 3u);
    EXPECT_LT(scatters[scatters.size() - 2].launched_at, last_backward);
    EXPECT_GT(scatters.back().completed_at, last_backward);
    auto gathers = rank.collectives("all_gather");
    std::erase_if(gathers, [](const CollectiveRecord& c) { return c.group != "dp_cp.inner"; });
    ASSERT_EQ(gathers.size(), scatters.size());
    EXPECT_LT(gathers[1].launched_at, first_forward->at);  // one ahead of its use
    EXPECT_GT(gathers[2].launched_at, first_forward->at);  // and no more
    EXPECT_LT(gathers.back().launched_at, scatters[0].launched_at);
  }
  const auto without = train_toy(sharded(GetParam()));
  const auto scatters = without[0].collectives("reduce_scatter");
  EXPECT_EQ(scatters.size(), 1u);  // no buckets without overlap
  for (const OpEntryRecord& op : without[0].record.ops()) {
    if (op.op == "copy") {
      EXPECT_LT(op.at, scatters[0].launched_at);
    }
  }
}

TEST_P(DataParallel, ChunksAreGatheredWhileTheNextAreUpdated) {
  ToyRun run = overlapped(GetParam(), 1);
  run.chunks = 3;
  const auto expected = train_toy(run);
  run.store.gather_with_optimizer_step = true;
  const auto ranks = train_toy(run);
  expect_same(ranks, expected);
  // Rank 0 updates a part of every chunk. Each chunk has one bucket.
  std::map<int64_t, char> events;
  for (const OpEntryRecord& op : ranks[0].record.ops()) {
    if (op.op == "adamw") events[op.at] = 'u';
  }
  for (const CollectiveRecord& c : ranks[0].collectives("all_gather")) {
    if (c.group == "dp_cp.inner") events[c.launched_at] = 'g';
  }
  std::string order;
  for (const auto& [at, event] : events) {
    if (order.empty() || order.back() != event) order += event;
  }
  EXPECT_EQ(order, "ugugug");
  EXPECT_EQ(ranks[0].collectives("reduce_scatter").size(), 3u);
  EXPECT_EQ(expected[0].collectives("reduce_scatter").size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DataParallel, testing::Values(2, 3, 4, 5));

TEST(OptimizerInstances, ReduceShardsOverTheInstances) {
  const int d = 4, k = 2;
  ToyRun run = overlapped(d);
  run.instances = k;
  const auto ranks = train_toy(run);
  for (const ToyRank& rank : ranks) {
    auto reductions = rank.collectives("all_reduce");
    std::erase_if(reductions, [](const CollectiveRecord& c) { return c.group == "statistics"; });
    for (const CollectiveRecord& c : reductions) EXPECT_EQ(c.group, "dp_cp.outer");
    const int64_t gradients = 4 * rank.buffer_elements;
    EXPECT_EQ(wire_bytes(reductions), 2 * (k - 1) * gradients / k / (d / k));
    EXPECT_EQ(rank.master_bytes, 4 * rank.buffer_elements / (d / k));
    EXPECT_TRUE(rank.weights == ranks[0].weights);
    EXPECT_EQ(rank.norms, ranks[0].norms);
  }
  // ((0 + 1) + (2 + 3)) is not (((0 + 1) + 2) + 3): equal within rounding.
  const auto one = train_toy(sharded(d));
  for (size_t step = 0; step < one[0].norms.size(); ++step)
    EXPECT_NEAR(ranks[0].norms[step], one[0].norms[step], 1e-6 * one[0].norms[step]);
}

TEST(OptimizerInstances, ShareTheirState) {
  const int d = 4, k = 2;
  ToyRun run = overlapped(d);
  run.instances = k;
  const auto copies = train_toy(run);
  run.store.share_state = true;
  const auto ranks = train_toy(run);
  int64_t updated = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const ToyRank& rank = ranks[i];
    EXPECT_TRUE(rank.weights == copies[i].weights);
    EXPECT_TRUE(rank.gradients == copies[i].gradients);
    EXPECT_EQ(rank.norms, copies[i].norms);
    EXPECT_EQ(rank.master_bytes, 4 * rank.buffer_elements / d);
    EXPECT_EQ(rank.moment_bytes, 8 * rank.run_elements);
    updated += rank.run_elements;
    const auto over_instances = [&](const char* operation) {
      auto list = rank.collectives(operation);
      std::erase_if(list, [](const CollectiveRecord& c) { return c.group != "dp_cp.outer"; });
      return wire_bytes(list);
    };
    const int64_t shard = rank.buffer_elements / (d / k);
    EXPECT_EQ(over_instances("all_reduce"), 0);
    EXPECT_EQ(over_instances("reduce_scatter"), 4 * shard * (k - 1) / k);
    EXPECT_EQ(over_instances("all_gather"), 2 * shard * (k - 1) / k) << "weights in BF16";
  }
  EXPECT_EQ(updated, test::toy_elements()) << "each element by one rank";
}

// Muon's matrices are exchanged over all ranks that share the update.
TEST(OptimizerInstances, ShareTheMatricesOfMuon) {
  for (const int instances : {2, 4}) {
    ToyRun run = sharded(4);
    run.optimizer.kind = OptimizerKind::muon;
    run.change = [](std::vector<Parameter>& parameters, const ParallelGroups&) {
      for (Parameter& p : parameters) p.multiplied = p.shape.rank() == 2;
    };
    run.instances = instances;
    const auto copies = train_toy(run);
    run.store.share_state = true;
    const auto ranks = train_toy(run);
    for (size_t i = 0; i < ranks.size(); ++i) {
      EXPECT_TRUE(ranks[i].weights == copies[i].weights) << instances;
      EXPECT_LT(ranks[i].moment_bytes, copies[i].moment_bytes);
    }
  }
}

TEST(ReplicaGradients, PartialOnesAreSummedOverTensorRanksInOneMessage) {
  ToyRun run;
  run.mesh = Mesh({2, 1, 1, 2, 1});  // tp 2, dp 2
  run.recipe = "fp32";
  run.steps = 1, run.micro_batches = 1;
  run.change = [](std::vector<Parameter>& parameters, const ParallelGroups& groups) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      Part& part = parameters[i].parts[0];
      if (i % 2 == 0) continue;  // sharded over tp: the gradients of both ranks are summed
      part.replicas = Replicas::tp;
      part.replica_gradient = i < 5 ? ReplicaGradient::partial : ReplicaGradient::equal;
      part.owned = groups.tp().rank() == 0;
    }
  };
  const auto ranks = train_toy(run);
  const auto shapes = test::toy_shapes();
  double squares = 0;
  for (int tp = 0; tp < 2; ++tp) {
    const auto* got =
        reinterpret_cast<const float*>(ranks[static_cast<size_t>(tp)].gradients.data());
    for (size_t p = 0; p < shapes.size(); ++p) {
      for (int64_t e = 0; e < shapes[p].elements(); ++e) {
        const auto of = [&](int tensor_rank) {  // over dp: ranks tp and tp + 2
          return test::toy_gradient(0, tensor_rank, 0, static_cast<int>(p), e) +
                 test::toy_gradient(0, tensor_rank + 2, 0, static_cast<int>(p), e);
        };
        const bool partial = p == 1 || p == 3;
        const float expected = partial ? of(0) + of(1) : of(tp);
        ASSERT_EQ(*got++, expected) << "parameter " << p << " element " << e;
        if (p % 2 == 0 || tp == 0) squares += static_cast<double>(expected) * expected;
      }
    }
  }
  for (const ToyRank& rank : ranks) {
    EXPECT_NEAR(rank.norms[0], std::sqrt(squares) / 16, 1e-9);
    auto reductions = rank.collectives("all_reduce");
    std::erase_if(reductions, [](const CollectiveRecord& c) { return c.group == "statistics"; });
    ASSERT_LE(reductions.size(), 1u);  // none if the own shard has none of them
    for (const CollectiveRecord& c : reductions) EXPECT_EQ(c.group, "tp");
  }
}

TEST(TiedEmbeddings, AreSummedOverTheStagesThatHoldThem) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, 2, 2});  // dp 2, pp 2
  run.recipe = "fp32";
  run.steps = 1, run.micro_batches = 1;
  run.store.overlap_grad_reduce = true;
  run.store.bucket_elements = 100;
  run.change = [](std::vector<Parameter>& parameters, const ParallelGroups& groups) {
    parameters[2].holders = {0, 1};
    parameters[2].parts[0].owned = groups.pp().rank() == 0;
  };
  const auto ranks = train_toy(run);
  const auto shapes = test::toy_shapes();
  const auto begin = static_cast<size_t>(shapes[0].elements() + shapes[1].elements());
  double squares = 0;
  for (int rank = 0; rank < 4; rank += 2) {
    const auto* got =
        reinterpret_cast<const float*>(ranks[static_cast<size_t>(rank)].gradients.data());
    for (int64_t e = 0; e < shapes[2].elements(); ++e) {
      const auto of = [&](int r) { return test::toy_gradient(0, r, 0, 2, e); };
      ASSERT_EQ(got[begin + static_cast<size_t>(e)], (of(0) + of(1)) + (of(2) + of(3)));
    }
    for (int64_t e = 0; e < test::toy_elements(); ++e) {
      const auto at = static_cast<size_t>(e);
      const bool tied = at >= begin && e < static_cast<int64_t>(begin) + shapes[2].elements();
      if (!tied || rank == 0) squares += static_cast<double>(got[at]) * got[at];
    }
  }
  for (const ToyRank& rank : ranks) EXPECT_NEAR(rank.norms[0], std::sqrt(squares) / 16, 1e-9);
}

}  // namespace
}  // namespace viaduct
