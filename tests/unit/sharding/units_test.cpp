// Sharded gradients and weights: the training of the distributed optimizer, with the memory and
// messages that the settings promise.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "comm/world.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/elementwise.h"
#include "support/instruction_set.h"
#include "support/toy_ranks.h"

namespace viaduct {
namespace {

using test::ToyRank;
using test::ToyRun;
using test::train_toy;

constexpr int kLayers = 3;  // of the toy parameters, two each

ToyRun toy(int ranks, int micro_batches, bool gradients, bool weights) {
  ToyRun run;
  run.mesh = Mesh({1, 1, 1, ranks, 1});
  run.micro_batches = micro_batches;
  run.store.shard_gradients = gradients, run.store.shard_weights = weights;
  run.store.overlap_grad_reduce = run.store.overlap_param_gather = true;
  return run;
}

void expect_same(const std::vector<ToyRank>& got, const std::vector<ToyRank>& expected) {
  for (size_t rank = 0; rank < got.size(); ++rank) {
    EXPECT_TRUE(got[rank].weights == expected[rank].weights) << "weights of rank " << rank;
    EXPECT_TRUE(got[rank].gradients == expected[rank].gradients) << "gradients of rank " << rank;
    EXPECT_EQ(got[rank].norms, expected[rank].norms) << "rank " << rank;
  }
}

std::vector<CollectiveRecord> in_shards(const ToyRank& rank, const std::string& operation) {
  auto list = rank.collectives(operation);
  std::erase_if(list, [](const CollectiveRecord& c) { return c.group != "dp_cp.inner"; });
  return list;
}

class Units : public testing::TestWithParam<int> {};

TEST_P(Units, OneBackwardAStepIsTheDistributedOptimizer) {
  for (const char* recipe : {"bf16_mixed", "fp32"}) {
    for (const bool fp32_gradients : {true, false}) {
      const auto run = [&](bool gradients, bool weights) {
        ToyRun one = toy(GetParam(), 1, gradients, weights);
        one.recipe = recipe;
        one.store.fp32_gradients = fp32_gradients;
        return train_toy(one);
      };
      const auto expected = run(false, false);
      EXPECT_GT(expected[0].norms.back(), 0);
      expect_same(run(true, false), expected);
      expect_same(run(true, true), expected);
    }
  }
}

TEST_P(Units, BackwardsAddUpOneAfterTheOther) {
  ToyRun run = toy(GetParam(), 3, true, false);
  run.recipe = "fp32";
  run.steps = 1;
  const auto ranks = train_toy(run);
  std::vector<float> expected;
  const auto shapes = test::toy_shapes();
  for (size_t p = 0; p < shapes.size(); ++p) {
    for (int64_t e = 0; e < shapes[p].elements(); ++e) {
      float sum = 0;
      for (int micro_batch = 0; micro_batch < run.micro_batches; ++micro_batch) {
        float over_ranks = 0;
        for (int rank = 0; rank < GetParam(); ++rank)
          over_ranks += test::toy_gradient(0, rank, micro_batch, static_cast<int>(p), e);
        sum = micro_batch == 0 ? over_ranks : sum + over_ranks;
      }
      expected.push_back(sum);
    }
  }
  ASSERT_EQ(ranks[0].gradients.size(), expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(ranks[0].gradients.data(), expected.data(), ranks[0].gradients.size()), 0);
}

// Main gradients in one format, messages in the other: half the bytes of one of them, and sums that
// are rounded where they change format.
TEST_P(Units, MessagesHaveAFormatOfTheirOwn) {
  const auto shapes = test::toy_shapes();
  ToyRun run = toy(GetParam(), 2, true, false);
  run.steps = 1;
  run.store.fp32_messages = false;
  const auto narrow = train_toy(run);
  std::vector<float> expected;
  for (size_t p = 0; p < shapes.size(); ++p) {
    for (int64_t e = 0; e < shapes[p].elements(); ++e) {
      float sum = 0;
      for (int micro_batch = 0; micro_batch < run.micro_batches; ++micro_batch) {
        float over_ranks = 0;
        for (int rank = 0; rank < GetParam(); ++rank) {
          over_ranks += static_cast<float>(
              bfloat16(test::toy_gradient(0, rank, micro_batch, static_cast<int>(p), e)));
        }
        sum += static_cast<float>(bfloat16(over_ranks));
      }
      expected.push_back(sum);
    }
  }
  ASSERT_EQ(narrow[0].gradients.size(), expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(narrow[0].gradients.data(), expected.data(), narrow[0].gradients.size()),
            0);
  const auto sent = [](const ToyRank& rank) {
    int64_t bytes = 0;
    for (const CollectiveRecord& c : rank.collectives("reduce_scatter")) bytes += c.wire_bytes;
    return bytes;
  };
  run.store.fp32_messages.reset();
  const auto wide = train_toy(run);
  run.store.fp32_gradients = false, run.store.fp32_messages = true;
  const auto narrow_sums = train_toy(run);
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(2 * sent(narrow[i]), sent(wide[i]));
    EXPECT_EQ(narrow[i].gradient_bytes, wide[i].gradient_bytes);
    EXPECT_EQ(sent(narrow_sums[i]), sent(wide[i]));
    EXPECT_EQ(2 * narrow_sums[i].gradient_bytes, wide[i].gradient_bytes);
  }
}

TEST_P(Units, OverlapPrefetchAndBuffersChangeNoBit) {
  const auto expected = train_toy(toy(GetParam(), 2, true, false));
  expect_same(train_toy(toy(GetParam(), 2, true, true)), expected);
  ToyRun changed = toy(GetParam(), 2, true, true);
  changed.store.overlap_grad_reduce = changed.store.overlap_param_gather = false;
  expect_same(train_toy(changed), expected);
  changed = toy(GetParam(), 2, true, true);
  changed.plans = false;  // each acquire waits for its own gather
  expect_same(train_toy(changed), expected);
  changed = toy(GetParam(), 2, true, true);
  changed.store.gather_ahead_elements = 1500;
  changed.store.double_buffer = true;
  expect_same(train_toy(changed), expected);
}

TEST_P(Units, EveryBackwardIsScatteredAndEveryForwardGathers) {
  const int d = GetParam(), micro_batches = 3;
  const auto ranks = train_toy(toy(d, micro_batches, true, true));
  for (const ToyRank& rank : ranks) {
    const auto scatters = in_shards(rank, "reduce_scatter"),
               gathers = in_shards(rank, "all_gather");
    EXPECT_EQ(scatters.size(), static_cast<size_t>(kLayers * micro_batches));
    EXPECT_EQ(gathers.size(), static_cast<size_t>(kLayers * micro_batches));  // no backward here
    int64_t gradients = 0, weights = 0;
    for (const CollectiveRecord& c : scatters) gradients += c.wire_bytes;
    for (const CollectiveRecord& c : gathers) weights += c.wire_bytes;
    EXPECT_EQ(gradients, micro_batches * 4 * rank.buffer_elements * (d - 1) / d);
    EXPECT_EQ(weights, micro_batches * 2 * rank.buffer_elements * (d - 1) / d);
    // A reduce-scatter runs beside the next layer's backward.
    const auto& ops = rank.record.ops();
    const auto between = [&](const CollectiveRecord& c) {
      return std::count_if(ops.begin(), ops.end(), [&](const OpEntryRecord& op) {
        return c.launched_at < op.at && op.at < c.completed_at;
      });
    };
    EXPECT_GT(between(scatters.front()), 0);
  }
}

TEST_P(Units, BetweenStepsARankHasShardsAlone) {
  const int d = GetParam();
  for (const ToyRank& rank : train_toy(toy(d, 2, true, true))) {
    EXPECT_EQ(rank.weight_bytes, 2 * rank.buffer_elements / d);
    EXPECT_EQ(rank.gradient_bytes, 4 * rank.buffer_elements / d);
    EXPECT_EQ(rank.master_bytes, 4 * rank.buffer_elements / d);
  }
  for (const ToyRank& rank : train_toy(toy(d, 2, true, false))) {
    EXPECT_EQ(rank.weight_bytes, 2 * rank.buffer_elements);
    EXPECT_EQ(rank.gradient_bytes, 4 * rank.buffer_elements / d);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Units, testing::Values(2, 3, 4));

TEST(Units, InstancesSumTheirShardsOnceAStep) {
  ToyRun run = toy(4, 1, false, false);
  run.instances = 2;
  const auto expected = train_toy(run);
  run.store.shard_gradients = run.store.shard_weights = true;
  expect_same(train_toy(run), expected);
  run.micro_batches = 3;
  for (const ToyRank& rank : train_toy(run)) {
    auto sums = rank.collectives("all_reduce");
    std::erase_if(sums, [](const CollectiveRecord& c) { return c.group != "dp_cp.outer"; });
    EXPECT_EQ(sums.size(), static_cast<size_t>(kLayers));
    EXPECT_EQ(rank.weight_bytes, 2 * rank.buffer_elements / 2);
  }
}

TEST(Units, OneRankHasAllThereIs) {
  const auto expected = train_toy(toy(1, 2, false, false));
  expect_same(train_toy(toy(1, 2, true, true)), expected);
}

TEST(Units, SettingsThatExcludeEachOther) {
  const auto device = make_cpu_device(1);
  Parameter matrix;
  matrix.path = "matrix", matrix.shape = {4, 4};
  const auto make = [&](const StoreSettings& settings) {
    ParameterStore store(*device, precision_recipe("fp32"), {{&matrix}}, settings, self_groups());
  };
  EXPECT_THROW(make({.shard_weights = true}), ShapeError);
  EXPECT_THROW(make({.shard_gradients = true, .bucket_norms = true}), ShapeError);
  EXPECT_THROW(make({.share_state = true, .reduce_by_exchange = true}), ShapeError);
  EXPECT_THROW(make({.fp32_messages = false}), ShapeError);
  EXPECT_NO_THROW(make({.shard_gradients = true, .shard_weights = true}));
}

// Two layers, each with a matrix of the dense grid and one of the expert grid, in the recipe's
// format and in FP32: four buffers, each shared by the ranks of its grid.
TEST(Grids, BuffersAreOfAGridAndAFormat) {
  for (const bool shards : {false, true}) {
    const Mesh mesh = Mesh::make({.ranks = 4, .ep = 2});
    run_thread_ranks(4, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
      const auto device = make_cpu_device(1);
      const OpTable ops = cpu_ops(test::instruction_set());
      OpContext context{*device, ops};
      world->record_on(device.get());
      const ParallelGroups groups(mesh, world);
      std::vector<Parameter> parameters(8);
      std::vector<ParameterUse> uses;
      for (size_t i = 0; i < parameters.size(); ++i) {
        Parameter& p = parameters[i];
        p.path = "p" + std::to_string(i);
        p.shape = {40, 10 + static_cast<int64_t>(i)};
        p.grid = i % 4 < 2 ? Grid::attention : Grid::expert;
        if (i % 2 == 1) p.format = DType::f32;
        uses.emplace_back(&p, static_cast<int>(i / 4));
      }
      const StoreSettings settings{.overlap_grad_reduce = true,
                                   .overlap_param_gather = true,
                                   .shard_gradients = shards,
                                   .shard_weights = shards};
      ParameterStore store(*device, precision_recipe("bf16_mixed"), {uses}, settings, groups);
      ASSERT_EQ(store.buffers().size(), 4u);
      EXPECT_EQ(store.chunks(), 1u);
      for (const ParameterBuffer& buffer : store.buffers()) {
        const Parameter& first = *buffer.parameters().front();
        EXPECT_EQ(buffer.parameters().size(), 2u);
        EXPECT_EQ(buffer.layout().shards, first.grid == Grid::expert ? 2 : 4);
        EXPECT_EQ(buffer.layout().buckets.size(), shards ? 2u : 1u);
        for (const Parameter* p : buffer.parameters()) {
          EXPECT_EQ(p->grid, first.grid);
          EXPECT_EQ(p->format, first.format);
        }
      }
      // Weights: each rank writes the masters of its runs.
      for (const ShardRun& run : store.shard_runs())
        fill(context, {run.master, static_cast<double>(run.parameter->shape[1])});
      store.publish_masters(context);
      StepRecord record;
      device->set_record(&record);
      for (const Parameter& p : parameters) {
        const AcquiredWeight weight(store, p, WeightUse::forward);
        EXPECT_EQ(weight.tensor().dtype(), p.format.value_or(DType::bf16));
        const Tensor wide = context.allocate(DType::f32, p.shape, MemoryTag::other);
        copy(context, {weight.tensor(), wide});
        for (const int64_t at : {int64_t{0}, wide.elements() - 1})
          EXPECT_EQ(wide.data<float>()[at], static_cast<float>(p.shape[1])) << p.path;
      }
      // Gradients: rank r contributes r + 1 to each element.
      store.begin_step(context);
      store.expect_backwards(1);
      for (size_t i = parameters.size(); i-- > 0;) {
        const auto to = store.gradient(parameters[i]);
        EXPECT_EQ(to.tensor.dtype(), DType::f32);
        fill(context, {to.tensor, world->rank() + 1.0});
        store.done(parameters[i]);
      }
      store.finish_gradients(context);
      device->set_record(nullptr);
      const auto sum_of = [&](Grid grid) {
        return groups.of(grid, {Axis::dp_inner})->host().sum(world->rank() + 1.0);
      };
      const double dense = sum_of(Grid::attention), expert = sum_of(Grid::expert);
      EXPECT_EQ(dense, 10);
      EXPECT_LT(expert, dense);
      int64_t runs = 0;
      for (const ShardRun& run : store.shard_runs()) {
        const double expected = run.parameter->grid == Grid::expert ? expert : dense;
        EXPECT_EQ(run.gradient.data<float>()[0], static_cast<float>(expected));
        EXPECT_EQ(run.gradient.data<float>()[run.range.size() - 1], static_cast<float>(expected));
        ++runs;
      }
      EXPECT_GT(runs, 0);
      for (const CollectiveRecord& c : record.collectives()) {
        if (c.operation != Collective::reduce_scatter && c.operation != Collective::all_gather)
          continue;
        EXPECT_EQ(c.ranks, c.group == "expert_dp.inner" ? 2 : 4) << c.group;
      }
      const auto scatters = std::count_if(
          record.collectives().begin(), record.collectives().end(), [](const CollectiveRecord& c) {
            return c.operation == Collective::reduce_scatter && c.group == "expert_dp.inner";
          });
      EXPECT_EQ(scatters, shards ? 4 : 2);
    });
  }
}

// A mean over the fewer ranks of the expert grid, divided by the number of ranks of the attention
// grid.
TEST(Grids, MeansAreDividedByTheSameRanks) {
  run_thread_ranks(4, {.timeout_seconds = 60}, [&](std::shared_ptr<Communicator> world) {
    const auto device = make_cpu_device(1);
    const OpTable ops = cpu_ops(test::instruction_set());
    OpContext context{*device, ops};
    world->record_on(device.get());
    const ParallelGroups groups(Mesh::make({.ranks = 4, .ep = 2}), world);
    std::vector<Parameter> parameters(2);
    std::vector<ParameterUse> uses;
    for (Parameter& p : parameters) {
      p.path = "p" + std::to_string(uses.size());
      p.shape = {40, 10};
      p.grid = uses.empty() ? Grid::attention : Grid::expert;
      uses.emplace_back(&p);
    }
    std::map<Grid, float> sums;
    for (const bool average : {false, true}) {
      ParameterStore store(*device, precision_recipe("fp32"), {uses},
                           {.average_in_collective = average}, groups);
      store.begin_step(context);
      for (const Parameter& p : parameters) {
        const auto to = store.gradient(p);
        fill(context, {to.tensor, world->rank() + 1.0});
        store.done(p);
      }
      store.finish_gradients(context);
      for (const ShardRun& run : store.shard_runs()) {
        const float sum = run.gradient.data<float>()[0];
        if (!average) sums[run.parameter->grid] = sum;
        EXPECT_EQ(sum * static_cast<float>(store.gradient_divisor()), sums[run.parameter->grid]);
      }
    }
    EXPECT_NE(sums[Grid::attention], sums[Grid::expert]);
  });
}

}  // namespace
}  // namespace viaduct
