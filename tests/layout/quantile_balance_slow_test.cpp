// Biases that each update sets so that experts get equal shares: the margins of all tokens of the
// step, wherever they are, give every layout the bits of one rank; the load becomes equal; a
// resumed run goes on to the bit.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/json.h"
#include "checkpoint/checkpoint_reader.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/layout_run.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"
#include "train/trainer.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::metric;
using test::Overrides;
using test::TemporaryFolder;
using test::operator+;

const Overrides kQuantile{"model.moe_router_load_balancing_type=quantile_balancing",
                          "model.moe_router_score_function=sigmoid",
                          "model.moe_router_pre_softmax=false"};

/// The tensors of a run's checkpoint, as bytes by name.
using Tensors = std::map<std::string, std::string>;

void train_into(const TemporaryFolder& folder, const Overrides& overrides) {
  const RunSetup setup = test::setup_of(
      test::tiny_run("qwen3_moe") +
      Overrides{"model.num_moe_experts=8", "model.moe_router_topk=2",
                "model.moe_ffn_hidden_size=24", "model.init_method_std=0.3",
                "model.num_query_groups=4", "train.train_iters=3", "train.micro_batch_size=1",
                "optimizer.lr=1e-3", "dist.threads_per_rank=1",
                "dist.distributed_timeout_minutes=1", "checkpoint.save=" + folder.path().string()} +
      overrides);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    trainer.run();
  });
}

Tensors tensors_in(const TemporaryFolder& folder) {
  Tensors tensors;
  const auto reader = open_checkpoint(folder.path());
  for (const TensorInfo& info : reader->tensors())
    tensors[info.name] = test::bytes_of(reader->tensor(info.name));
  return tensors;
}

Tensors train(const Overrides& overrides) {
  const TemporaryFolder folder;
  train_into(folder, overrides);
  return tensors_in(folder);
}

template <class T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// The biases among tensors, which are there for both layers.
Tensors biases_of(const Tensors& tensors) {
  Tensors biases;
  for (const auto& [name, bytes] : tensors)
    if (name.ends_with("e_score_correction_bias")) biases[name] = bytes;
  EXPECT_EQ(biases.size(), 2u);
  return biases;
}

LayoutCase experts(int ep, int etp, LayoutCase c) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.push_back("model.expert_tensor_parallel_size=" + std::to_string(etp));
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp);
  return c;
}

const Overrides kRecompute{"model.recompute_granularity=full", "model.recompute_method=uniform",
                           "model.recompute_num_layers=1"};

/// In FP64 no layout's rounding moves a margin into another bin: three updates have the same bits.
class QuantileLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(QuantileLayouts, SetTheBiasesOfOneRankToTheBit) {
  const Overrides exact =
      kQuantile + Overrides{"mixed_precision=fp64", "logger.log_throughput=false"};
  static const Tensors one = biases_of(train(exact));
  EXPECT_EQ(biases_of(train(exact + GetParam().overrides)), one);
  for (const auto& [name, bytes] : one) {
    const std::vector<double> bias = values_of<double>(bytes);
    EXPECT_GT(*std::ranges::max_element(bias), 0.02) << name;
    EXPECT_NEAR(std::accumulate(bias.begin(), bias.end(), 0.0), 0, 1e-6) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, QuantileLayouts,
    testing::Values(layout(1, 1, 1, 2), experts(2, 1, layout(1, 1, 1, 2)), layout(1, 2, 1, 1),
                    layout(2, 1, 1, 1), layout(1, 1, 2, 1), experts(2, 2, layout(2, 2, 1, 1)),
                    experts(4, 1,
                            layout(2, 1, 1, 2,
                                   {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                                   "sharded")),
                    layout(1, 1, 1, 1, {"train.micro_batch_size=4"}, "one_micro_batch"),
                    experts(2, 1, layout(1, 1, 2, 2, kRecompute, "recompute"))),
    [](const auto& info) { return info.param.name; });

/// In FP32 tokens have the same bits in layouts that cut no sum, until the first update.
TEST(QuantileBalance, HasTheSameBitsInFP32AtTheFirstUpdate) {
  const Overrides first = kQuantile + Overrides{"train.train_iters=1"};
  const Tensors one = biases_of(train(first));
  for (const LayoutCase& other :
       {layout(1, 1, 1, 2), layout(1, 1, 2, 1), experts(2, 1, layout(1, 1, 1, 2)),
        layout(1, 1, 1, 1, {"train.micro_batch_size=4"}), layout(1, 1, 1, 1, kRecompute)})
    EXPECT_EQ(biases_of(train(first + other.overrides)), one) << other.name;
}

TEST(QuantileBalance, MakesTheLoadEqual) {
  // The weights stay, so that nothing but the bias changes the load.
  const Overrides still{"optimizer.lr=0", "train.train_iters=5", "train.global_batch_size=32",
                        "train.micro_batch_size=8"};
  const TemporaryFolder with, without;
  train_into(with, kQuantile + still);
  train_into(without, Overrides{kQuantile[1], kQuantile[2]} + still);
  const auto largest = [](const TemporaryFolder& folder) {
    const auto line = nlohmann::json::parse(test::last_line(folder / "metrics.jsonl"));
    return line.at("routers").at("load").at("max").get<double>();
  };
  EXPECT_GT(largest(without), 1.5);
  EXPECT_LT(largest(with) - 1, 0.4 * (largest(without) - 1))
      << largest(with) << " of " << largest(without);
}

TEST(QuantileBalance, GoesOnToTheBitAfterASave) {
  const TemporaryFolder two_steps;
  const Overrides run = kQuantile + experts(2, 1, layout(1, 1, 1, 2)).overrides;
  train_into(two_steps, run + Overrides{"train.exit_interval=2"});
  EXPECT_EQ(train(run + Overrides{"checkpoint.load=" + two_steps.path().string()}), train(run));
}

TEST(QuantileBalance, FewerBinsAreCoarser) {
  const Overrides first = kQuantile + Overrides{"train.train_iters=1"};
  const auto distance = [&](const Tensors& a, const Tensors& b) {
    double most = 0;
    for (const auto& [name, bytes] : a)
      for (size_t e = 0; e < 8; ++e)
        most = std::max(most, std::abs(double(values_of<float>(bytes)[e]) -
                                       double(values_of<float>(b.at(name))[e])));
    return most;
  };
  const Tensors fine = biases_of(train(first + Overrides{"model.moe_router_qb_num_bins=60000"}));
  const Tensors usual = biases_of(train(first)),
                few = biases_of(train(first + Overrides{"model.moe_router_qb_num_bins=20"}));
  // The bias starts at 0, so bins are 2 / B wide; the mean moves by less than a bin, too.
  EXPECT_LT(distance(usual, fine), 2 * 2.0 / 1000);
  EXPECT_LT(distance(few, fine), 2 * 2.0 / 20);
  EXPECT_GT(distance(few, fine), 2.0 / 1000);
}

TEST(QuantileBalance, EveryOptimizerLeavesTheBiasToItsOwnRule) {
  const Overrides once = kQuantile + Overrides{"train.train_iters=1"};
  const Tensors adam = biases_of(train(once));
  for (const char* name : {"sgd", "lion", "muon", "adafactor"})
    EXPECT_EQ(biases_of(train(once + Overrides{std::string("optimizer.optimizer=") + name})), adam)
        << name;
}

}  // namespace
}  // namespace viaduct
