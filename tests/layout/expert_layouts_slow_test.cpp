// Mixtures of experts in every layout, compared with Hugging Face's Mixtral tensor by tensor:
// experts over ranks that are data, context or tensor ranks of the dense layers, whole and cut,
// with pipelines. The gradients of all layouts are those of one rank, and ten steps give its
// weights.

#include <gtest/gtest.h>

#include "checkpoint/safetensors_reader.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;

const std::filesystem::path& model() {
  static const std::filesystem::path path = test_data("golden/mixtral/model");
  return path;
}

const std::string kTwo = "train.micro_batch_size=1";  // two micro-batches where dp is 1

/// A layout with ep ranks for experts and etp ranks for each.
LayoutCase experts(int ep, int etp, LayoutCase c) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.push_back("model.expert_tensor_parallel_size=" + std::to_string(etp));
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp);
  return c;
}

/// The same with gathered tokens instead of exchanged rows.
LayoutCase gathered(int ep, int etp, LayoutCase c) {
  c.overrides.push_back("model.moe_token_dispatcher_type=allgather");
  c.name += "_gathered";
  return experts(ep, etp, std::move(c));
}

std::vector<LayoutCase> gradient_cases() {
  const std::string virtual_stages = "model.virtual_pipeline_model_parallel_size=2";
  const std::vector<std::string> whole_layers{"model.recompute_granularity=full",
                                              "model.recompute_method=uniform",
                                              "model.recompute_num_layers=1"};
  return {
      experts(1, 1, layout(1, 1, 1, 2)),
      experts(2, 1, layout(1, 1, 1, 2)),
      experts(1, 2, layout(1, 1, 1, 2)),
      experts(2, 1, layout(1, 2, 1, 1)),
      experts(4, 1, layout(1, 4, 1, 1)),
      experts(2, 2, layout(1, 4, 1, 1)),
      experts(1, 1, layout(2, 1, 1, 1)),
      experts(2, 1, layout(2, 1, 1, 1)),
      experts(1, 2, layout(2, 1, 1, 1)),
      experts(4, 1, layout(4, 1, 1, 1)),
      experts(2, 2, layout(4, 1, 1, 1)),
      experts(1, 4, layout(4, 1, 1, 1)),
      experts(2, 1, layout(2, 2, 1, 1)),
      experts(4, 1, layout(2, 2, 1, 1)),
      experts(2, 2, layout(2, 2, 1, 1)),
      experts(2, 1, layout(2, 1, 1, 2)),
      experts(4, 1, layout(2, 1, 1, 2)),
      experts(2, 2, layout(2, 1, 1, 2)),
      experts(2, 1, layout(1, 2, 1, 2)),
      experts(4, 1, layout(1, 2, 1, 2)),
      experts(1, 1, layout(1, 1, 2, 1, {kTwo})),
      experts(2, 1, layout(1, 1, 2, 2)),
      experts(2, 1, layout(1, 2, 2, 1, {kTwo})),
      experts(2, 1, layout(1, 2, 2, 1, {kTwo, virtual_stages}, "interleaved")),
      experts(2, 1, layout(1, 2, 2, 1, {kTwo, "model.pipeline_schedule=zero_bubble"}, "zb")),
      experts(2, 1,
              layout(1, 2, 2, 1, {kTwo, "model.num_layers_in_first_pipeline_stage=1"}, "uneven")),
      experts(2, 1, layout(2, 1, 2, 1, {kTwo})),
      experts(2, 2, layout(2, 2, 2, 1, {kTwo})),
      experts(4, 1, layout(2, 1, 1, 2, whole_layers, "recompute")),
      experts(2, 1,
              layout(1, 1, 1, 2,
                     {"model.recompute_granularity=selective",
                      "model.recompute_modules=[mlp,layernorm]"},
                     "recompute_mlp")),
      experts(2, 1, layout(1, 2, 1, 2, {"ddp.num_distributed_optimizer_instances=2"}, "instances")),
      experts(2, 1, layout(1, 2, 1, 1, {"model.moe_router_dtype=fp64"}, "fp64_router")),
      gathered(2, 1, layout(1, 1, 1, 2)),
      gathered(1, 2, layout(1, 1, 1, 2)),
      gathered(4, 1, layout(1, 4, 1, 1)),
      gathered(2, 2, layout(1, 4, 1, 1)),
      gathered(1, 2, layout(2, 1, 1, 1)),
      gathered(2, 2, layout(2, 1, 1, 2)),
      gathered(4, 1, layout(2, 2, 1, 1)),
      gathered(2, 1, layout(1, 2, 2, 1, {kTwo, virtual_stages}, "interleaved")),
      gathered(2, 2, layout(2, 2, 2, 1, {kTwo})),
      gathered(2, 1, layout(1, 1, 1, 2, whole_layers, "recompute")),
      gathered(2, 1,
               layout(1, 1, 1, 2,
                      {"model.recompute_granularity=selective",
                       "model.recompute_modules=[mlp,layernorm]"},
                      "recompute_mlp")),
  };
}

class ExpertGradients : public testing::TestWithParam<LayoutCase> {};

TEST_P(ExpertGradients, MatchTheReference) {
  const auto batch = test_data("golden/mixtral/golden.safetensors");
  const auto got = probe_layout(model(), batch, false, GetParam().overrides);
  EXPECT_EQ(test::expect_gradients_of(got, SafetensorsFile(batch), kLimit), 79);
  // Hugging Face's aux_loss, and the loss with its coefficient, which the folder has.
  EXPECT_NEAR(*got.at("aux_loss").data<float>(), 2.03026319, 2e-5);
  EXPECT_NEAR(*got.at("loss_with_aux").data<float>(), 6.01080990, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertGradients, testing::ValuesIn(gradient_cases()),
                         [](const auto& info) { return info.param.name; });

/// With balancing and z-losses: their gradients do not depend on how the micro-batch is cut either.
class ExpertTraining : public testing::TestWithParam<LayoutCase> {};

std::vector<std::string> training_overrides() {
  std::vector<std::string> overrides = test::reference_optimizer();
  for (const char* loss : {"model.moe_aux_loss_coeff=0.02", "model.moe_z_loss_coeff=0.001"})
    overrides.emplace_back(loss);
  return overrides;
}

const std::map<std::string, Tensor>& trained_alone(const std::string& rows) {
  static std::map<std::string, std::map<std::string, Tensor>> runs;
  auto& run = runs[rows];
  if (run.empty()) {
    std::vector<std::string> overrides = training_overrides();
    overrides.push_back(rows);
    run = probe_layout(model(), test_data("golden/mixtral/train.safetensors"), true, overrides);
  }
  return run;
}

TEST_P(ExpertTraining, LeadsToTheWeightsOfOneRank) {
  const std::string rows = "train.micro_batch_size=2";
  std::vector<std::string> overrides = training_overrides();
  overrides.insert(overrides.end(), GetParam().overrides.begin(), GetParam().overrides.end());
  overrides.push_back(rows);
  const auto got =
      probe_layout(model(), test_data("golden/mixtral/train.safetensors"), true, overrides);
  const auto& alone = trained_alone(rows);
  EXPECT_LE(relative_error(got.at("loss"), alone.at("loss")), kLimit);
  EXPECT_LE(relative_error(got.at("grad_norm"), alone.at("grad_norm")), 10 * kLimit);
  int compared = 0;
  for (const auto& [name, values] : alone) {
    if (!name.starts_with("final.")) continue;
    ASSERT_TRUE(got.contains(name)) << name;
    test::expect_trained(name, got.at(name), values);
    ++compared;
  }
  EXPECT_EQ(compared, 79);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ExpertTraining,
    testing::Values(experts(2, 1, layout(1, 1, 1, 2)), experts(2, 1, layout(1, 2, 1, 1)),
                    experts(2, 2, layout(2, 1, 1, 2)), experts(4, 1, layout(2, 2, 1, 1)),
                    experts(2, 1, layout(1, 2, 2, 1)), gathered(2, 2, layout(2, 1, 1, 2)),
                    experts(2, 1,
                            layout(1, 2, 1, 2,
                                   {"ddp.data_parallel_sharding_strategy=optim_"
                                    "grads_params"},
                                   "sharded"))),
    [](const auto& info) { return info.param.name; });

/// The losses change the weights: without them ten steps end elsewhere.
TEST(ExpertLosses, ReachTheRouter) {
  const auto with = trained_alone("train.micro_batch_size=2");
  const auto without = probe_layout(model(), test_data("golden/mixtral/train.safetensors"), true,
                                    test::reference_optimizer());
  const std::string router = "final.model.layers.0.block_sparse_moe.gate.weight";
  EXPECT_GT(relative_error(with.at(router), without.at(router)), 1e-3);
}

}  // namespace
}  // namespace viaduct
