// Routers in every layout: the balancing bias moves by the loads of all ranks, losses by document
// and jitter do not depend on the tokens' distribution over ranks, and dropped and padding rows
// change nothing else. Weights after three steps are those of one rank.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/file.h"
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

using test::bytes_of;
using test::layout;
using test::LayoutCase;
using test::metric;
using test::Overrides;
using test::setup_of;
using test::TemporaryFolder;
using test::tiny_run;
using test::operator+;

using Values = std::map<std::string, std::vector<float>>;

/// Weights and biases after three steps, by name; and the routers' figures of the last step.
struct Outcome {
  Values tensors;
  nlohmann::json routers;
};

/// Trains three steps, or as many as `overrides` say, and saves to `folder`.
void train_into(const TemporaryFolder& folder, const Overrides& overrides,
                const LayoutCase& layout) {
  const Overrides run = tiny_run("qwen3_moe") +
                        Overrides{"model.num_moe_experts=8",
                                  "model.moe_router_topk=2",
                                  "model.moe_ffn_hidden_size=24",
                                  "model.init_method_std=0.3",
                                  "model.num_query_groups=4",
                                  "train.train_iters=3",
                                  "train.micro_batch_size=1",
                                  "optimizer.lr=1e-3",
                                  "dist.threads_per_rank=1",
                                  "dist.distributed_timeout_minutes=1",
                                  "checkpoint.save=" + folder.path().string()} +
                        overrides + layout.overrides;
  const RunSetup setup = setup_of(run);
  run_ranks(setup.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    trainer.run();
  });
}

Outcome train(const Overrides& overrides, const LayoutCase& layout) {
  const TemporaryFolder folder;
  train_into(folder, overrides, layout);
  Outcome outcome;
  const auto reader = open_checkpoint(folder.path());
  for (const TensorInfo& info : reader->tensors()) {
    if (info.name.starts_with("optimizer.")) continue;
    const std::string bytes = bytes_of(reader->tensor(info.name));
    std::vector<float>& values = outcome.tensors[info.name];
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  outcome.routers = nlohmann::json::parse(test::last_line(folder / "metrics.jsonl")).at("routers");
  EXPECT_THAT(read_file(folder / "router_load.svg"),
              testing::HasSubstr("Load of experts in step "));
  return outcome;
}

const Outcome& alone(const Overrides& overrides) {
  static std::map<Overrides, Outcome> runs;
  const auto [at, first] = runs.try_emplace(overrides);
  if (first) at->second = train(overrides, layout(1, 1, 1, 1));
  return at->second;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a.at(i)) - static_cast<double>(b[i]), 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-5 * std::sqrt(double(b.size())));
}

const Overrides kBalanced{"model.moe_router_score_function=sigmoid",
                          "model.moe_router_pre_softmax=false",
                          "model.moe_router_enable_expert_bias=true",
                          "model.moe_router_bias_update_rate=0.01",
                          "model.moe_router_num_groups=4",
                          "model.moe_router_group_topk=2",
                          "model.moe_router_load_balancing_type=seq_aux_loss",
                          "model.moe_aux_loss_coeff=0.05",
                          "model.moe_z_loss_coeff=0.001",
                          "model.moe_input_jitter_eps=0.1"};

LayoutCase experts(int ep, int etp, LayoutCase c) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.push_back("model.expert_tensor_parallel_size=" + std::to_string(etp));
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp);
  return c;
}

class RouterLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(RouterLayouts, TrainLikeOneRank) {
  const Outcome& one = alone(kBalanced);
  const Outcome got = train(kBalanced, GetParam());
  ASSERT_EQ(got.tensors.size(), one.tensors.size());
  int biases = 0;
  for (const auto& [name, values] : one.tensors) {
    ASSERT_TRUE(got.tensors.contains(name)) << name;
    if (name.ends_with("e_score_correction_bias")) {
      EXPECT_EQ(got.tensors.at(name), values) << name;
      EXPECT_THAT(values, testing::Contains(testing::Gt(0)));
      EXPECT_THAT(values, testing::Contains(testing::Lt(0)));
      ++biases;
    } else {
      EXPECT_LE(distance(got.tensors.at(name), values), 2e-4) << name;
    }
  }
  EXPECT_EQ(biases, 2);
  for (const auto& [name, figure] : one.routers.items()) {
    for (const char* of : {"min", "mean", "max"})
      EXPECT_NEAR(got.routers.at(name).at(of).get<double>(), figure.at(of).get<double>(), 1e-4)
          << name << " " << of;
    EXPECT_EQ(got.routers.at(name).at("max_layer"), figure.at("max_layer")) << name;
  }
  for (const char* name : {"load", "entropy", "dropped", "balance_loss", "z_loss", "bias_spread"})
    EXPECT_TRUE(one.routers.contains(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, RouterLayouts,
    testing::Values(
        experts(2, 1, layout(1, 1, 1, 2)), experts(2, 1, layout(1, 2, 1, 1)),
        experts(2, 1, layout(2, 1, 1, 1)), experts(2, 2, layout(2, 2, 1, 1)),
        experts(2, 1, layout(1, 2, 2, 1)),
        experts(4, 1,
                layout(2, 1, 1, 2, {"ddp.data_parallel_sharding_strategy=optim_grads_params"},
                       "sharded")),
        experts(2, 1,
                layout(1, 1, 1, 2,
                       {"model.recompute_granularity=full", "model.recompute_method=uniform",
                        "model.recompute_num_layers=1"},
                       "recompute"))),
    [](const auto& info) { return info.param.name; });

const Overrides kOverTheStep{"model.moe_router_load_balancing_type=global_aux_loss",
                             "model.moe_aux_loss_coeff=0.05"};

/// Counts of all ranks and of the step so far: the same for all layouts whose ranks have the same
/// rows in a micro-batch together.
class BalanceOverTheStep : public testing::TestWithParam<LayoutCase> {};

TEST_P(BalanceOverTheStep, TrainsLikeOneRank) {
  const Outcome& one = alone(kOverTheStep + Overrides{"train.micro_batch_size=2"});
  const Outcome got = train(kOverTheStep, GetParam());
  ASSERT_EQ(got.tensors.size(), one.tensors.size());
  for (const auto& [name, values] : one.tensors)
    EXPECT_LE(distance(got.tensors.at(name), values), 2e-4) << name;
  for (const char* of : {"min", "mean", "max"})
    EXPECT_NEAR(got.routers.at("balance_loss").at(of).get<double>(),
                one.routers.at("balance_loss").at(of).get<double>(), 1e-4);
}

const std::string kTwoRows = "train.micro_batch_size=2";

INSTANTIATE_TEST_SUITE_P(
    Layouts, BalanceOverTheStep,
    testing::Values(experts(2, 1, layout(1, 1, 1, 2)),
                    experts(2, 1, layout(1, 2, 1, 1, {kTwoRows})),
                    experts(2, 1, layout(2, 1, 1, 2)),
                    experts(2, 1, layout(1, 2, 2, 1, {kTwoRows})),
                    layout(1, 1, 2, 1, {kTwoRows, "model.pipeline_schedule=zero_bubble"}, "zb"),
                    layout(1, 1, 2, 2,
                           {"model.recompute_granularity=full", "model.recompute_method=uniform",
                            "model.recompute_num_layers=1"},
                           "recompute")),
    [](const auto& info) { return info.param.name; });

TEST(RouterLosses, OverTheStepAreNotThoseOfTheMicroBatch) {
  const Overrides rows{"train.micro_batch_size=2"};
  const Outcome& step = alone(kOverTheStep + rows);
  const Outcome& micro = alone(rows + Overrides{"model.moe_router_load_balancing_type=aux_loss",
                                                "model.moe_aux_loss_coeff=0.05"});
  double most = 0;
  for (const auto& [name, values] : micro.tensors)
    most = std::max(most, distance(step.tensors.at(name), values));
  EXPECT_GT(most, 5e-4) << "more than layouts may differ";
}

// Two losses at once, over stages, data ranks and experts' ranks, with recompute.
TEST(RouterLosses, SeveralTrainLikeOneRank) {
  const Overrides both{"model.moe_router_load_balancing_type=[seq_aux_loss,global_aux_loss]",
                       "model.moe_aux_loss_coeff=[0.03,0.05]"};
  const Overrides rows{"train.micro_batch_size=2"};
  const Outcome& one = alone(both + rows);
  const Outcome got =
      train(both, experts(2, 1,
                          layout(1, 1, 2, 2,
                                 {"model.recompute_granularity=full",
                                  "model.recompute_method=uniform", "model.recompute_num_layers=1"},
                                 "recompute")));
  for (const auto& [name, values] : one.tensors)
    EXPECT_LE(distance(got.tensors.at(name), values), 2e-4) << name;
  for (const char* of : {"min", "mean", "max"})
    EXPECT_NEAR(got.routers.at("balance_loss").at(of).get<double>(),
                one.routers.at("balance_loss").at(of).get<double>(), 1e-4);
  double most = 0;
  for (const auto& [name, values] : alone(kOverTheStep + rows).tensors)
    most = std::max(most, distance(one.tensors.at(name), values));
  EXPECT_GT(most, 5e-4) << "the first loss has an effect";
}

/// Documents have their own losses, so rows may share micro-batches.
TEST(RouterLosses, OfDocumentsDoNotDependOnTheMicroBatch) {
  const Outcome& one = alone(kBalanced);
  const Outcome two = train(kBalanced + Overrides{"train.micro_batch_size=4"}, layout(1, 1, 1, 1));
  for (const auto& [name, values] : one.tensors)
    EXPECT_LE(distance(two.tensors.at(name), values), 2e-4) << name;
}

TEST(RouterLosses, ABiasThatWasSavedGoesOnToTheBit) {
  const TemporaryFolder two_steps;
  const LayoutCase two = experts(2, 1, layout(1, 1, 1, 2));
  train_into(two_steps, kBalanced + Overrides{"train.exit_interval=2"}, two);
  const Outcome resumed =
      train(kBalanced + Overrides{"checkpoint.load=" + two_steps.path().string()}, two);
  EXPECT_EQ(resumed.tensors, train(kBalanced, two).tensors);
}

TEST(RouterLosses, EveryOptimizerLeavesTheBiasToItsOwnRule) {
  const Overrides once = kBalanced + Overrides{"train.train_iters=1"};
  const Outcome adam = train(once, layout(1, 1, 1, 1));
  for (const char* name : {"sgd", "lion", "muon"}) {
    const Outcome other =
        train(once + Overrides{std::string("optimizer.optimizer=") + name}, layout(1, 1, 1, 1));
    for (const auto& [tensor, values] : adam.tensors) {
      if (!tensor.ends_with("e_score_correction_bias")) continue;
      EXPECT_EQ(other.tensors.at(tensor), values) << name << " " << tensor;
    }
  }
}

const Overrides kScaled{"model.moe_router_load_balancing_type=sinkhorn",
                        "model.moe_z_loss_coeff=0.001"};

/// A micro-batch is scaled together, for any distribution of its tokens over ranks.
class ScaledChoice : public testing::TestWithParam<LayoutCase> {};

TEST_P(ScaledChoice, TrainsLikeOneRank) {
  const Outcome& one = alone(kScaled);
  const Outcome got = train(kScaled, GetParam());
  ASSERT_EQ(got.tensors.size(), one.tensors.size());
  for (const auto& [name, values] : one.tensors)
    EXPECT_LE(distance(got.tensors.at(name), values), 2e-4) << name;
  for (const char* of : {"min", "mean", "max"})
    EXPECT_NEAR(got.routers.at("load").at(of).get<double>(),
                one.routers.at("load").at(of).get<double>(), 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ScaledChoice,
    testing::Values(experts(2, 1, layout(1, 1, 1, 2)), experts(2, 1, layout(1, 2, 1, 1)),
                    experts(2, 1, layout(2, 1, 1, 1)), experts(2, 2, layout(2, 2, 1, 1)),
                    experts(2, 1, layout(1, 1, 2, 2)),
                    experts(4, 1,
                            layout(2, 2, 1, 1,
                                   {"model.recompute_granularity=full",
                                    "model.recompute_method=uniform",
                                    "model.recompute_num_layers=1",
                                    "model.moe_token_dispatcher_type=allgather"},
                                   "recompute_gathered"))),
    [](const auto& info) { return info.param.name; });

TEST(ScaledChoice, BalancesTheLoadWithoutALoss) {
  const Overrides plain{"model.moe_router_load_balancing_type=none",
                        "model.moe_router_pre_softmax=true", "model.moe_z_loss_coeff=0.001"};
  const double scaled = alone(kScaled).routers.at("load").at("max").get<double>(),
               without = alone(plain).routers.at("load").at("max").get<double>();
  EXPECT_LT(scaled - 1, 0.6 * (without - 1)) << scaled << " of " << without;
}

const Overrides kFull{"model.moe_expert_capacity_factor=0.75", "model.moe_aux_loss_coeff=0.05"};

const std::vector<std::string> kGather{"model.moe_token_dispatcher_type=allgather"};

/// If every rank has the same rows, whole, the same tokens are dropped.
class FullExperts : public testing::TestWithParam<LayoutCase> {};

TEST_P(FullExperts, DropTheSameTokensWhereRanksHaveWholeRows) {
  const Outcome& one = alone(kFull);
  EXPECT_GT(one.routers.at("dropped").at("mean").get<double>(), 0.02);
  for (const char* pad : {"false", "true"}) {
    const Outcome got =
        train(kFull + Overrides{std::string("model.moe_pad_expert_input_to_capacity=") + pad},
              GetParam());
    for (const auto& [name, values] : one.tensors)
      EXPECT_LE(distance(got.tensors.at(name), values), 2e-4) << name << " " << pad;
    EXPECT_EQ(got.routers.at("dropped").at("mean"), one.routers.at("dropped").at("mean"));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, FullExperts,
                         testing::Values(layout(1, 1, 1, 1, {}, "one"),
                                         experts(2, 1, layout(1, 1, 1, 2)),
                                         experts(2, 2, layout(1, 1, 1, 4)),
                                         experts(2, 2, layout(1, 1, 1, 4, kGather, "gathered"))),
                         [](const auto& info) { return info.param.name; });

/// Every token chooses every expert, each of which keeps 5 of 16 rows, so the numbers of padding
/// rows up to a multiple of 16 are known.
struct PaddedCase {
  LayoutCase layout;
  int64_t tokens;  // of an expert, from each rank that orders its rows
};

class PaddedRows : public testing::TestWithParam<PaddedCase> {};

TEST_P(PaddedRows, AreCountedOnce) {
  const Outcome got =
      train({"model.moe_router_topk=8", "model.seq_length=64", "model.moe_ffn_hidden_size=32",
             "model.moe_expert_capacity_factor=0.3125", "model.max_position_embeddings=64",
             "mixed_precision=bf16_with_fp8_current_scaling_mixed",
             "model.moe_router_padding_for_quantization=true"},
            GetParam().layout);
  const auto tokens = static_cast<double>(GetParam().tokens);
  for (const char* of : {"min", "mean", "max"})
    EXPECT_NEAR(got.routers.at("padded").at(of).get<double>(),
                1 - tokens / (16 * std::ceil(tokens / 16)), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PaddedRows,
    testing::Values(PaddedCase{layout(1, 1, 1, 1, {}, "one"), 20},
                    PaddedCase{experts(2, 1, layout(1, 1, 1, 2)), 20},
                    PaddedCase{experts(2, 2, layout(2, 2, 1, 1)), 5},
                    PaddedCase{experts(2, 1,
                                       layout(1, 1, 1, 2,
                                              {"model.recompute_granularity=full",
                                               "model.recompute_method=uniform",
                                               "model.recompute_num_layers=1"},
                                              "recompute")),
                               20},
                    // Tokens of both domains are gathered in each domain before they go to experts.
                    PaddedCase{experts(2, 1,
                                       layout(1, 1, 1, 2,
                                              {"model.moe_token_dispatcher_type=flex",
                                               "dist.nvlink_domain_size=1"},
                                              "domains")),
                               40}),
    [](const auto& info) { return info.param.layout.name; });

TEST(RouterLosses, OfRowsThatAreNotFilledUpNoneIsReported) {
  EXPECT_FALSE(alone(kFull).routers.contains("padded"));
}

TEST(RouterLosses, ForcedBalanceIsEven) {
  const Outcome forced = train({"model.moe_router_force_load_balancing=true"}, layout(1, 1, 1, 1));
  EXPECT_LT(forced.routers.at("load").at("max").get<double>(), 1.8);
  EXPECT_GT(forced.routers.at("load").at("min").get<double>(), 0.3);
}

}  // namespace
}  // namespace viaduct
