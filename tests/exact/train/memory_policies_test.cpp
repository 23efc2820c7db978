// Recomputing, sharing or offloading (saved values, or optimizer states) changes no bit of a run:
// weights and optimizer state after three steps with dropout, in several layouts and schedules. The
// memory of each rank equals the dry run's to the byte, and so do the bytes in the second memory.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>

#include "run/launch.h"
#include "run/parallel_settings.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/tensor_layouts.h"
#include "support/training.h"
#include "train/run_checkpoint.h"

namespace viaduct {
namespace {

using namespace test;

struct Layout {
  std::string name;
  Overrides overrides;
};
void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

std::vector<Layout> layouts() {
  const auto sizes = [](int ranks, int tp, int cp, int pp) {
    return Overrides{
        fmt::format("dist.ranks={}", ranks), fmt::format("model.tensor_model_parallel_size={}", tp),
        fmt::format("model.context_parallel_size={}", cp),
        fmt::format("model.pipeline_model_parallel_size={}", pp), "model.sequence_parallel=false"};
  };
  // Chunks of two layers.
  const Overrides chunks{"model.virtual_pipeline_model_parallel_size=2", "model.num_layers=8"},
      sequence{"model.sequence_parallel=true"};
  return {
      {"one", sizes(1, 1, 1, 1)},
      {"data", sizes(2, 1, 1, 1)},
      {"tensor", sizes(2, 2, 1, 1)},
      {"sequence", sizes(2, 2, 1, 1) + sequence},
      {"context", sizes(2, 1, 2, 1)},
      {"stages", sizes(2, 1, 1, 2)},
      {"stages_gpipe", sizes(2, 1, 1, 2) + Overrides{"model.pipeline_schedule=gpipe"}},
      {"stages_zero_bubble", sizes(2, 1, 1, 2) + Overrides{"model.pipeline_schedule=zero_bubble"}},
      {"chunks", sizes(2, 1, 1, 2) + chunks},
      {"tensor_stages", sizes(4, 2, 1, 2)},
      {"data_chunks", sizes(4, 1, 1, 2) + chunks},
      {"tensor_context", sizes(4, 2, 2, 1)}};
}

struct Policy {
  std::string name;
  Overrides overrides;
  bool offloads = true;
};

/// `folder`: for offload files.
std::vector<Policy> policies(const std::string& folder) {
  const Overrides all{
      "model.fine_grained_activation_offloading=true",
      "model.offload_modules=[attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm, "
      "mlp]",
      "model.min_offloaded_tensor_size=0"},
      file{"memory.offload_path=" + folder},
      block{"model.recompute_granularity=full", "model.recompute_method=block",
            "model.recompute_num_layers=1"},
      uniform{"model.recompute_granularity=full", "model.recompute_method=uniform",
              "model.recompute_num_layers=1"},
      apart{"model.recompute_segments_apart=true"},
      share{"model.distribute_saved_activations=true"},
      selective{"model.recompute_granularity=selective"},
      partial{"model.num_microbatches_with_partial_activation_checkpoints=1"};
  const auto layers = [](int n) {
    return Overrides{"model.cpu_offloading=true",
                     fmt::format("model.cpu_offloading_num_layers={}", n)};
  };
  const auto states = [](const std::string& fraction, bool overlap) {
    return Overrides{"optimizer.optimizer_cpu_offload=true",
                     "optimizer.optimizer_offload_fraction=" + fraction,
                     fmt::format("optimizer.overlap_cpu_optimizer_d2h_h2d={}", overlap)};
  };
  return {
      {"first_layers", layers(2)},
      {"all_layers_in_a_file", layers(4) + file},
      {"all_modules_in_a_file", all + file},
      {"large_tensors", all + Overrides{"model.min_offloaded_tensor_size=1000"}},
      {"attention_and_selective",
       Overrides{"model.fine_grained_activation_offloading=true",
                 "model.offload_modules=[core_attn, attn_proj]",
                 "model.min_offloaded_tensor_size=1", "model.recompute_modules=[layernorm, mlp]"} +
           selective},
      {"layers_and_selective", layers(3) + selective},
      {"layers_and_block", layers(4) + block},
      {"shares_block", block + share, false},
      {"shares_uniform", uniform + share, false},
      {"segments_apart", uniform + apart, false},
      {"segments_apart_leave", uniform + apart + layers(4) + file},
      {"shares_and_layer_inputs_leave", uniform + share + layers(3)},
      {"partial_block_apart_and_layers", layers(4) + block + apart + partial},
      {"partial_block", block + partial, false},
      {"partial_selective", selective + partial, false},
      {"partial_and_layers", layers(4) + selective + partial + file},
      {"partial_block_and_layers", layers(4) + block + partial},
      {"states", states("1", false)},
      {"states_in_a_file_overlapped", states("1", true) + file},
      {"half_of_states_and_layers", states("0.5", true) + layers(2) + selective + file},
  };
}

const Overrides kRun =
    tiny_run() + Overrides{"model.num_layers=4",          "train.train_iters=3",
                           "train.global_batch_size=8",   "train.micro_batch_size=1",
                           "mixed_precision=bf16_mixed",  "model.hidden_dropout=0.1",
                           "model.attention_dropout=0.1", "dist.threads_per_rank=1",
                           "logger.log_throughput=false", "ddp.bucket_size=20000"};

struct Outcome {
  std::map<std::string, std::string> tensors;  // by rank and name
  int64_t offloaded = 0;
};

Outcome train(const Overrides& overrides) {
  const RunSetup setup = setup_of(kRun + overrides);
  Outcome outcome;
  std::mutex mutex;
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    Trainer trainer(setup, *rank.device, rank.ops, {.peak_effort = PeakEffort::glance}, world);
    trainer.run();
    const PlannedMemory& planned = trainer.planned_memory();
    // Between ranks the rows of experts depend on the tokens.
    if (setup.config.parallel.expert_model_parallel_size == 1) {
      EXPECT_EQ(rank.device->memory().peak_bytes, planned.peak.bytes);
      EXPECT_EQ(rank.device->memory().unplanned_allocations, 0);
    }
    const OffloadReport offload = trainer.offload();
    EXPECT_EQ(offload.done.put_bytes, 3 * planned.offload.put_bytes);
    EXPECT_EQ(offload.done.fetched_bytes, 3 * planned.offload.fetched_bytes);
    // Weights are read more often than they change.
    if (!setup.config.offload.moves_weights()) {
      EXPECT_EQ(planned.offload.put_bytes, planned.offload.fetched_bytes);
    }
    EXPECT_EQ(offload.done.most_bytes, planned.offload.most_bytes);
    const auto staged = stage_run(trainer.engine(), trainer.state());
    const std::lock_guard lock(mutex);
    outcome.offloaded += offload.done.put_bytes;
    for (const auto& entry : staged.entries) {
      std::string name = fmt::format("{} {}", world->rank(), entry.entry.tensor.name);
      while (outcome.tensors.contains(name)) name += "+";  // several shards of one tensor
      outcome.tensors[name] = bytes_of(entry.values());
    }
  });
  return outcome;
}

void expect_same(const Outcome& outcome, const Outcome& plain) {
  ASSERT_EQ(outcome.tensors.size(), plain.tensors.size());
  for (const auto& [name, bytes] : plain.tensors)
    EXPECT_TRUE(outcome.tensors.at(name) == bytes) << name;
}

class MemoryPolicies : public testing::TestWithParam<Layout> {};

// CI tries three policies in each layout, and others in the next one.
TEST_P(MemoryPolicies, ChangeNoBitAndTakeWhatTheDryRunSays) {
  const TemporaryFolder folder;
  const Overrides& layout = GetParam().overrides;
  const Outcome plain = train(layout);
  EXPECT_EQ(plain.offloaded, 0);
  size_t number = 0;
  for (const Layout& one : layouts()) {
    if (one.name == GetParam().name) break;
    number += 3;
  }
  const std::vector<Policy> all = policies(folder.path().string());
  for (size_t i = 0; i < (all_policies() ? all.size() : 3); ++i) {
    const Policy& policy = all[(number + i) % all.size()];
    const bool shares = policy.name.starts_with("shares");
    if (shares && GetParam().name == "sequence") continue;  // refused
    SCOPED_TRACE(policy.name);
    const Outcome outcome = train(layout + policy.overrides);
    EXPECT_EQ(outcome.offloaded > 0, policy.offloads);
    expect_same(outcome, plain);
  }
}

// Full sharding, with the shards of weights and gradients in the second memory or not.
TEST_P(MemoryPolicies, ShardsOfWeightsAndGradientsChangeNoBit) {
  const Overrides sharded = GetParam().overrides +
                            Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params",
                                      "ddp.suggested_communication_unit_size=100000"},
                  weights{"model.cpu_offloading=true", "model.cpu_offloading_weights=true"},
                  states{"optimizer.optimizer_cpu_offload=true",
                         "optimizer.optimizer_offload_fraction=1",
                         "optimizer.overlap_cpu_optimizer_d2h_h2d=true"},
                  narrow{"optimizer.use_precision_aware_optimizer=true",
                         "ddp.grad_reduce_in_fp32=false", "optimizer.main_grads_dtype=bf16"};
  const TemporaryFolder folder;
  const Overrides file{"memory.offload_path=" + folder.path().string()};
  const RunSetup setup = setup_of(kRun + GetParam().overrides);
  // Without its shards one rank adds micro-batches in another order.
  if (document_ranks(setup.config) == 1) {
    EXPECT_GT(train(sharded + weights).offloaded, 0);
    return;
  }
  const Outcome plain = train(sharded);
  EXPECT_EQ(plain.offloaded, 0);
  expect_same(train(sharded + weights + states + file), plain);
  expect_same(train(sharded + weights + Overrides{"ddp.overlap_param_gather=false"}), plain);
  expect_same(train(sharded + narrow + weights + states), train(sharded + narrow));
}

// Instances share the update of a shard: each writes its part and gathers the others' parts.
TEST(InstanceMemoryPolicies, SharedShardsThatLeaveChangeNoBit) {
  const Overrides instances{"dist.ranks=4", "ddp.num_distributed_optimizer_instances=2",
                            "ddp.outer_dp_sharding_strategy=optim",
                            "ddp.data_parallel_sharding_strategy=optim_grads_params",
                            "ddp.suggested_communication_unit_size=100000"},
      weights{"model.cpu_offloading=true", "model.cpu_offloading_weights=true"},
      states{"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1",
             "optimizer.overlap_cpu_optimizer_d2h_h2d=true"},
      wide{"mixed_precision=fp32"};
  const Outcome plain = train(instances);
  expect_same(train(instances + weights), plain);
  expect_same(train(instances + weights + states), plain);
  expect_same(train(instances + wide + weights + states), train(instances + wide));
}

/// Layers with experts.
std::vector<Layout> expert_layouts() {
  const Overrides experts{"model.num_moe_experts=4", "model.moe_router_topk=2",
                          "model.moe_aux_loss_coeff=0.02", "model.attention_dropout=0"},
      shared{"model.family=qwen2_moe", "model.moe_shared_expert_intermediate_size=32"},
      ranks{"dist.ranks=2", "model.expert_model_parallel_size=2"};
  return {{"one_rank", experts + shared},
          {"exchanged", experts + shared + ranks},
          {"beside", experts + shared + ranks + Overrides{"model.moe_shared_expert_overlap=true"}},
          {"gathered",
           experts + shared + ranks + Overrides{"model.moe_token_dispatcher_type=allgather"}},
          {"stages", experts + shared +
                         Overrides{"dist.ranks=2", "model.pipeline_model_parallel_size=2",
                                   "model.pipeline_schedule=zero_bubble"}},
          {"latent", experts + Overrides{"model.family=deepseek_v2", "model.moe_ffn_hidden_size=16",
                                         "model.moe_layer_freq=[0, 1, 1, 1]",
                                         "model.moe_shared_expert_intermediate_size=32",
                                         "model.q_lora_rank=24", "model.kv_lora_rank=16",
                                         "model.qk_head_dim=12", "model.qk_pos_emb_head_dim=8",
                                         "model.v_head_dim=10"}}};
}

std::vector<Policy> expert_policies() {
  const auto again = [](const std::string& modules) {
    return Overrides{"model.recompute_granularity=selective",
                     "model.recompute_modules=[" + modules + "]"};
  };
  const Overrides layers{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=4"},
      modules{"model.fine_grained_activation_offloading=true",
              "model.offload_modules=[expert_fc1, moe_act]", "model.min_offloaded_tensor_size=0"},
      uniform{"model.recompute_granularity=full", "model.recompute_method=uniform",
              "model.recompute_num_layers=1"};
  return {{"activations", again("moe_act"), false},
          {"shared", again("shared_experts, layernorm"), false},
          {"whole", again("moe, core_attn"), false},
          {"rows_and_activations_leave", modules + again("shared_experts")},
          {"layers_leave", layers},
          {"whole_and_layers_leave", layers + again("moe")},
          {"activations_and_layers_leave", layers + again("moe_act, shared_experts")},
          {"layers", uniform, false},
          {"segments_apart", uniform + Overrides{"model.recompute_segments_apart=true"}, false}};
}

class ExpertMemoryPolicies : public testing::TestWithParam<Layout> {};

TEST_P(ExpertMemoryPolicies, ChangeNoBit) {
  const Overrides& layout = GetParam().overrides;
  const auto layouts = expert_layouts();
  std::vector<Policy> all = expert_policies();
  // Modules of experts are not offloaded where their rows are exchanged.
  if (setup_of(kRun + layout).config.parallel.expert_model_parallel_size > 1)
    std::erase_if(all, [](const Policy& policy) { return policy.name.starts_with("rows"); });
  const Outcome plain = train(layout);
  const auto number = static_cast<size_t>(
      std::find_if(layouts.begin(), layouts.end(),
                   [&](const Layout& one) { return one.name == GetParam().name; }) -
      layouts.begin());
  for (size_t i = 0; i < (all_policies() ? all.size() : 3); ++i) {
    const Policy& policy = all[(3 * number + i) % all.size()];
    SCOPED_TRACE(policy.name);
    const Outcome outcome = train(layout + policy.overrides);
    EXPECT_EQ(outcome.offloaded > 0, policy.offloads);
    expect_same(outcome, plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertMemoryPolicies, testing::ValuesIn(expert_layouts()),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(Layouts, MemoryPolicies, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
