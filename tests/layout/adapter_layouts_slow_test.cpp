// Adapters in every layout equal PEFT's numbers, as one rank does: gradients, ten steps.

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "nn/adapter_settings.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::probe_layout;
using test::relative_error;
using test::test_data;

constexpr double kLimit = 2e-5;

const std::vector<std::string> kExperts{"lora_experts", "lora_experts_v4"};

class AdapterLayouts : public testing::TestWithParam<LayoutCase> {};

void expect_layout(const std::string& name, const std::string& base, const LayoutCase& c) {
  SCOPED_TRACE(name);
  const std::filesystem::path folder = test_data("golden") / name;
  const auto model = test_data("golden") / base / "model";
  std::vector<std::string> overrides = c.overrides;
  overrides.push_back("peft.adapter=" + (folder / "adapter").string());
  const SafetensorsFile once(folder / "golden.safetensors");
  const auto got = probe_layout(model, folder / "golden.safetensors", false, overrides);
  EXPECT_GT(test::expect_gradients_of(got, once, kLimit), 10);

  const SafetensorsFile steps(folder / "train.safetensors");
  for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
  const auto trained = probe_layout(model, folder / "train.safetensors", true, overrides);
  EXPECT_LE(relative_error(trained.at("loss"), steps.tensor("loss")), 10 * kLimit);
  EXPECT_LE(relative_error(trained.at("grad_norm"), steps.tensor("grad_norm")), 10 * kLimit);
  for (const TensorInfo& info : steps.tensors()) {
    if (!info.name.starts_with("final.")) continue;
    ASSERT_TRUE(trained.contains(info.name)) << info.name;
    test::expect_trained(info.name, trained.at(info.name), steps.tensor(info.name));
  }
}

TEST_P(AdapterLayouts, EqualPeft) {
  if (GetParam().only == kExperts) {
    expect_layout("lora_experts", "mixtral", GetParam());
    return expect_layout("lora_experts_v4", "mixtral", GetParam());
  }
  expect_layout("lora_llama", "llama", GetParam());
  expect_layout("dora_llama", "llama", GetParam());
  if (GetParam().suits("lora_gpt2")) expect_layout("lora_gpt2", "gpt2", GetParam());
}

LayoutCase experts(int ep, int etp, LayoutCase c);

/// Layouts of each axis, in which what adapters add is dropped too.
const std::set<std::string> kDropsAfter{"tp2", "tp2_whole", "cp2", "pp2", "dp2", "_recompute"};

/// Ten steps of an adapter of the reference with dropout, which its file says, at `position`.
std::map<std::string, Tensor> trained_with_dropout(const LayoutCase& c, const std::string& name,
                                                   const std::string& base,
                                                   const std::string& position) {
  const test::TemporaryFolder folder;
  const auto adapter = folder / "adapter", golden = test_data("golden") / name;
  std::filesystem::copy(golden / "adapter", adapter);
  std::string config = read_file(adapter / "adapter_config.json");
  const std::string none = "\"lora_dropout\": 0.0";
  config.replace(config.find(none), none.size(), "\"lora_dropout\": 0.2");
  std::filesystem::remove(adapter / "adapter_config.json");
  write_file_atomically(adapter / "adapter_config.json", config);
  std::vector<std::string> overrides = test::reference_optimizer();
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  overrides.push_back("peft.adapter=" + adapter.string());
  overrides.push_back("peft.dropout_position=" + position);
  return probe_layout(test_data("golden") / base / "model", golden / "train.safetensors", true,
                      overrides);
}

void expect_same_dropout(const LayoutCase& c, const std::string& name, const std::string& base,
                         const std::string& position) {
  SCOPED_TRACE(name + " " + position);
  static std::map<std::string, std::map<std::string, Tensor>> known;
  auto& alone = known[name + position];
  const LayoutCase one = layout(1, 1, 1, 1);
  if (alone.empty())
    alone =
        trained_with_dropout(base == "mixtral" ? experts(1, 1, one) : one, name, base, position);
  const auto got = trained_with_dropout(c, name, base, position);
  EXPECT_LE(relative_error(got.at("loss"), alone.at("loss")), 1e-4);
  EXPECT_LE(relative_error(got.at("grad_norm"), alone.at("grad_norm")), 1e-4);
  const SafetensorsFile without(test_data("golden") / name / "train.safetensors");
  EXPECT_GT(relative_error(got.at("grad_norm"), without.tensor("grad_norm")), 1e-3);
}

TEST_P(AdapterLayouts, DropTheSame) {
  if (GetParam().only == kExperts) {
    expect_same_dropout(GetParam(), "lora_experts", "mixtral", "pre");
    return expect_same_dropout(GetParam(), "lora_experts", "mixtral", "post");
  }
  expect_same_dropout(GetParam(), "dora_llama", "llama", "pre");
  if (kDropsAfter.contains(GetParam().name))
    expect_same_dropout(GetParam(), "lora_llama", "llama", "post");
}

TEST_P(AdapterLayouts, ModulesOfTheModelTrainBeside) {
  if (GetParam().only == kExperts) return;
  // B is 0 and magnitudes are the norms: the gradients are those of the model.
  const SafetensorsFile file(test_data("golden/llama/golden.safetensors"));
  std::vector<std::string> overrides = GetParam().overrides;
  for (const char* one : {"peft.scheme=dora", "peft.dim=4", "peft.target_modules=[down_proj]",
                          "peft.train=[norm,input_layernorm,embed_tokens,lm_head]"})
    overrides.push_back(one);
  const auto got = probe_layout(test_data("golden/llama/model"),
                                test_data("golden/llama/golden.safetensors"), false, overrides);
  EXPECT_LE(relative_error(got.at("logits"), file.tensor("logits")), kLimit);
  const std::string prefix = std::string("grad.") + kAdapterPrefix;
  int compared = 0;
  for (const auto& [name, tensor] : got) {
    if (!name.starts_with(prefix) || name.find(".lora_") != std::string::npos) continue;
    const std::string own = "grad." + name.substr(prefix.size());
    EXPECT_LE(relative_error(tensor, file.tensor(own)), kLimit) << own;
    ++compared;
  }
  EXPECT_EQ(compared, 7);  // four norms of inputs, the last norm, table and head
}

const std::string kNoSp = "model.sequence_parallel=false", kOneRow = "train.micro_batch_size=1";
const std::vector<std::string> kLlama{"lora_llama", "dora_llama"};
const std::string kShards = "ddp.data_parallel_sharding_strategy=";

LayoutCase alone(LayoutCase c) {
  c.only = kLlama;
  return c;
}

/// Adapters of experts, with ep ranks for experts and etp ranks for each.
LayoutCase experts(int ep, int etp, LayoutCase c) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.push_back("model.expert_tensor_parallel_size=" + std::to_string(etp));
  c.overrides.push_back("model.moe_aux_loss_coeff=0");
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp);
  c.only = kExperts;
  return c;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, AdapterLayouts,
    testing::Values(
        layout(2, 1, 1, 1), layout(2, 1, 1, 1, {kNoSp}, "whole"), layout(4, 1, 1, 1),
        layout(4, 1, 1, 1, {kNoSp}, "whole"), layout(1, 2, 1, 1), layout(1, 1, 2, 1, {kOneRow}),
        layout(1, 1, 1, 2), layout(1, 1, 1, 2, {"ddp.use_distributed_optimizer=false"}, "whole"),
        layout(2, 1, 2, 1, {kOneRow}), layout(2, 1, 1, 2), layout(2, 2, 1, 1),
        layout(1, 1, 2, 1, {kOneRow, "model.pipeline_schedule=zero_bubble"}, "zero_bubble"),
        layout(1, 1, 1, 1,
               {"model.recompute_granularity=full", "model.recompute_method=uniform",
                "model.recompute_num_layers=1"},
               "recompute"),
        layout(2, 1, 1, 1,
               {"model.recompute_granularity=selective",
                "model.recompute_modules=[core_attn, mlp, layernorm]"},
               "selective"),
        alone(layout(1, 1, 2, 1, {kOneRow, "model.virtual_pipeline_model_parallel_size=2"},
                     "virtual_stages")),
        alone(layout(1, 1, 1, 1,
                     {"model.fine_grained_activation_offloading=true",
                      "model.offload_modules=[mlp]", "model.min_offloaded_tensor_size=0"},
                     "offload")),
        alone(layout(2, 1, 1, 1,
                     {"model.gradient_accumulation_fusion=false",
                      "model.gemm_epilogue_fusion=false"},
                     "unfused")),
        layout(1, 1, 1, 2, {kShards + "optim_grads"}, "gradient_shards"),
        layout(1, 1, 1, 2, {kShards + "optim_grads_params"}, "weight_shards"),
        alone(layout(2, 1, 1, 2, {kShards + "optim_grads_params"}, "weight_shards")),
        alone(layout(2, 1, 1, 1, {"comm_overlap.tp_comm_overlap=true"}, "overlap")),
        experts(2, 1, layout(1, 1, 1, 2)), experts(1, 2, layout(1, 1, 1, 2)),
        experts(2, 1, layout(2, 1, 1, 1)), experts(1, 2, layout(2, 1, 1, 1)),
        experts(2, 2, layout(2, 1, 1, 2)), experts(2, 1, layout(1, 1, 2, 2, {kOneRow})),
        experts(2, 1, layout(1, 1, 1, 2, {kShards + "optim_grads_params"}, "weight_shards")),
        experts(2, 1,
                layout(1, 1, 1, 2, {"model.moe_token_dispatcher_type=allgather"}, "gathered")),
        experts(4, 1,
                layout(2, 1, 1, 2,
                       {"model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=2",
                        "model.moe_flex_dispatcher_backend=hierarchical"},
                       "domains")),
        experts(1, 1,
                layout(1, 1, 1, 1,
                       {"model.recompute_granularity=selective", "model.recompute_modules=[mlp]"},
                       "selective"))),
    [](const auto& info) { return info.param.name.empty() ? "one" : info.param.name; });

/// Layers that every tensor rank holds whole see their rows of the stream.
TEST(AdapterDropout, OfReplicatedLayersIsThatOfOneRank) {
  const auto model = test_data("golden/deepseek_v2_lite/model");
  const Tensor ids = host_tensor(DType::i64, {2, 2, 16});
  for (int64_t i = 0; i < ids.elements(); ++i) ids.data<int64_t>()[i] = i * i % 59;
  const test::TemporaryFolder folder;
  write_safetensors(folder / "batch.safetensors", {{"batch.input_ids", ids}});
  const auto train = [&](const LayoutCase& c) {
    std::vector<std::string> overrides = c.overrides;
    for (const char* one : {"peft.scheme=lora", "peft.dim=4", "peft.dropout=0.3",
                            "peft.target_modules=[kv_a_proj_with_mqa,kv_b_proj]"})
      overrides.push_back(one);
    for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
    return probe_layout(model, folder / "batch.safetensors", true, overrides);
  };
  const auto one = train(layout(1, 1, 1, 1)), two = train(layout(2, 1, 1, 1));
  EXPECT_LE(relative_error(two.at("loss"), one.at("loss")), 1e-4);
  EXPECT_LE(relative_error(two.at("grad_norm"), one.at("grad_norm")), 1e-4);
}

/// Ten steps of an adapter on two tensor ranks, bit by bit.
TEST(AdapterOverlap, ChangesNoBit) {
  const auto folder = test_data("golden/lora_llama");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = layout(2, 1, 1, 1, more).overrides;
    overrides.push_back("peft.adapter=" + (folder / "adapter").string());
    for (const std::string& one : test::reference_optimizer()) overrides.push_back(one);
    return probe_layout(test_data("golden/llama/model"), folder / "train.safetensors", true,
                        overrides);
  };
  const auto without = train({"comm_overlap.tp_comm_overlap=false"});
  for (const std::string& method : {std::string("auto"), std::string("ring_exchange")}) {
    SCOPED_TRACE(method);
    std::vector<std::string> more{"comm_overlap.tp_comm_overlap=true"};
    if (method != "auto") more.push_back("comm_overlap.method=" + method);
    const auto with = train(more);
    ASSERT_EQ(with.size(), without.size());
    for (const auto& [name, tensor] : with)
      EXPECT_EQ(test::bytes_of(tensor), test::bytes_of(without.at(name))) << name;
  }
}

}  // namespace
}  // namespace viaduct
