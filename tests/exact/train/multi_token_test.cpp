// Runs with multi-token prediction: settings that must not change any bit, the metrics, the content
// of Hugging Face folders, and commands that leave out the additional layers.

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "generate/generate.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Overrides kRun = tiny_run() + Overrides{"model.mtp_num_layers=2", "train.train_iters=4",
                                              "model.hidden_dropout=0.1", "model.num_layers=3",
                                              "scheduler.lr_decay_style=constant"};
const Overrides kDeepSeek =
    tiny_run("deepseek_v3") +
    Overrides{"model.mtp_num_layers=1",       "model.num_moe_experts=4",
              "model.moe_router_topk=2",      "model.moe_router_num_groups=2",
              "model.moe_ffn_hidden_size=16", "model.moe_router_group_topk=1",
              "model.moe_layer_freq=[0,1]",   "model.moe_shared_expert_intermediate_size=16",
              "model.q_lora_rank=24",         "model.kv_lora_rank=16",
              "model.qk_head_dim=12",         "model.qk_pos_emb_head_dim=8",
              "model.v_head_dim=10",          "train.train_iters=2"};

std::string path_of(const TemporaryFolder& folder) {
  return folder.path().string();
}

/// With factor 0 the model learns as if it predicted one token, and its evaluation does not use the
/// others.
TEST(MultiTokenRun, WithoutWeightInTheTotalLeavesTheModelAlone) {
  const Overrides evaluated{"validation.eval_iters=2", "validation.eval_interval=2"};
  const RunOutcome with =
      train_run(kRun + evaluated + Overrides{"model.mtp_loss_scaling_factor=0"});
  const RunOutcome without = train_run(kRun + evaluated + Overrides{"model.mtp_num_layers=null"});
  const RunOutcome weighed = train_run(kRun + evaluated);
  ASSERT_FALSE(without.validations.empty());
  EXPECT_EQ(with.validations, without.validations);
  EXPECT_NE(weighed.validations, without.validations);
  EXPECT_GT(with.tensors.size(), without.tensors.size());
  for (const auto& [name, bytes] : without.tensors) {
    if (name.starts_with("optimizer.")) continue;  // moments of 0 differ in sign
    EXPECT_TRUE(with.tensors.at(name) == bytes) << name;
    EXPECT_FALSE(weighed.tensors.at(name) == bytes) << name;
  }
}

TEST(MultiTokenRun, GoesOnFromACheckpoint) {
  const RunOutcome whole = train_run(kRun);
  TemporaryFolder folder;
  const Overrides saved = kRun + Overrides{"checkpoint.save=" + path_of(folder)};
  const RunOutcome half = train_run(saved + Overrides{"train.exit_interval=2"});
  EXPECT_EQ(half.state.step, 2);
  EXPECT_TRUE(train_run(saved) == whole);
  EXPECT_TRUE(whole.tensors.contains("model.layers.4.eh_proj.weight"));
  EXPECT_FALSE(half.tensors.at("model.layers.4.eh_proj.weight") ==
               whole.tensors.at("model.layers.4.eh_proj.weight"));
  EXPECT_THROW(train_run(saved + Overrides{"model.mtp_num_layers=1"}), ConfigError);
}

TEST(MultiTokenRun, AnotherNumberOfLayersMayBeAllowed) {
  TemporaryFolder folder;
  const Overrides saved = kRun + Overrides{"checkpoint.save=" + path_of(folder)};
  train_run(saved + Overrides{"train.exit_interval=2"});
  const Overrides more = saved + Overrides{"model.mtp_num_layers=3", "train.exit_interval=3"},
                  allowed{"checkpoint.allow_changes=[model.mtp_num_layers]"},
                  anew{"checkpoint.dist_ckpt_strictness=log_unexpected"};
  EXPECT_THAT([&] { train_run(more); },
              ThrowsMessage<ConfigError>(AllOf(
                  HasSubstr("model.mtp_num_layers: was 2, is 3: the checkpoint has no weights of "
                            "the new layers; checkpoint.dist_ckpt_strictness=log_unexpected"),
                  HasSubstr("; checkpoint.allow_changes=[model.mtp_num_layers] continues"))));
  EXPECT_THAT([&] { train_run(more + allowed); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("dist_ckpt_strictness=log_unexpected"),
                                               testing::Not(HasSubstr("allow_changes")))));
  EXPECT_EQ(train_run(more + allowed + anew).state.step, 3);
  // Fewer layers leave the others out.
  EXPECT_EQ(train_run(saved + allowed + Overrides{"model.mtp_num_layers=1"}).state.step, 4);
}

TEST(MultiTokenRun, RecomputedOrOffloadedHasTheSameBits) {
  const Overrides run = kRun + Overrides{"mixed_precision=bf16_mixed"};
  const RunOutcome kept = train_run(run);
  for (const Overrides& policy :
       {Overrides{"model.recompute_granularity=full", "model.recompute_method=uniform",
                  "model.recompute_num_layers=2"},
        Overrides{"model.recompute_granularity=full", "model.recompute_method=block",
                  "model.recompute_num_layers=1"},
        Overrides{"model.recompute_granularity=full", "model.recompute_method=uniform",
                  "model.recompute_num_layers=1", "model.recompute_segments_apart=true"},
        Overrides{"model.recompute_granularity=selective",
                  "model.recompute_modules=[core_attn,layernorm,mlp]"},
        Overrides{"model.fine_grained_activation_offloading=true",
                  "model.offload_modules=[attn_norm,core_attn,mlp]",
                  "model.min_offloaded_tensor_size=0"}}) {
    EXPECT_TRUE(train_run(run + policy) == kept) << policy.front();
  }
}

TEST(MultiTokenRun, SaysItsLosses) {
  TemporaryFolder folder;
  (void)train_run(kRun + Overrides{"checkpoint.save=" + path_of(folder), "model.hidden_dropout=0"});
  std::ifstream lines(folder / "metrics.jsonl");
  std::vector<std::vector<double>> losses;
  for (std::string line; std::getline(lines, line);)
    losses.push_back(json::parse(line).at("mtp_losses").get<std::vector<double>>());
  ASSERT_EQ(losses.size(), 4u);
  ASSERT_EQ(losses.front().size(), 2u);
  for (const double loss : losses.front()) EXPECT_NEAR(loss, std::log(64), 0.3) << "new weights";
  EXPECT_NE(losses.front()[0], losses.front()[1]);
  EXPECT_NE(losses.back()[0], losses.front()[0]);
}

/// The folder that transformers would save, without the additional layers.
void leave_out_further_layers(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::copy(from, to);
  const SafetensorsFolder folder(from);
  std::vector<TensorInfo> kept;
  for (const TensorInfo& info : folder.tensors())
    if (!info.name.starts_with("model.layers.2.")) kept.push_back(info);
  ASSERT_LT(kept.size(), folder.tensors().size());
  write_safetensors_folder(to, kept, [&](const std::string& name) { return folder.tensor(name); });
}

std::vector<int32_t> generated(const std::filesystem::path& path) {
  const ModelFolder folder = resolve_model_folder(path);
  const ModelConfig config = read_model_config(folder);
  const auto device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  const ResolvedRun run;
  Generator generator(*device, ops, config, {run.layers, run.parallelism, run.memory, 16});
  OpContext context = generator.context();
  load_parameters(context, generator.store(), *open_weights(folder), config);
  GenerateOptions options;
  options.sampling.temperature = 0;
  const std::vector<Prompt> prompts{{0, {5, 17, 30, 2}, 12}};
  return generate(generator, prompts, options, [](size_t, int32_t) { return true; }).front().tokens;
}

TEST(MultiTokenFolders, HoldTheLayersAsDeepSeekDoes) {
  TemporaryFolder saved, other;
  const RunOutcome run = train_run(kDeepSeek + Overrides{"checkpoint.save=" + path_of(saved)});
  convert_model({.from = saved.path(), .to = other / "hf"});
  const json config = json::parse(read_file(other / "hf" / "config.json"));
  EXPECT_EQ(config.at("num_nextn_predict_layers"), 1);
  EXPECT_FALSE(config.contains("viaduct_fields")) << "DeepSeek's configuration can express it";
  const SafetensorsFolder folder(other / "hf");
  const auto same = [&](const std::string& name, const std::string& as) {
    EXPECT_TRUE(bytes_of(folder.tensor(name)) == run.tensors.at(as)) << name;
  };
  for (const char* name : {"enorm", "hnorm", "eh_proj", "shared_head.norm", "self_attn.o_proj",
                           "mlp.experts.3.down_proj", "mlp.gate", "input_layernorm"}) {
    const std::string whole = std::string("model.layers.2.") + name + ".weight";
    same(whole, whole);
  }
  EXPECT_EQ(folder.find("model.layers.2.eh_proj.weight")->shape, (Shape{32, 64}));
  same("model.layers.2.embed_tokens.weight", "model.embed_tokens.weight");
  same("model.layers.2.shared_head.head.weight", "lm_head.weight");

  // Converted back and again: the same tensors.
  convert_model({.from = other / "hf", .to = other / "checkpoint"});
  convert_model({.from = other / "checkpoint", .to = other / "again"});
  const SafetensorsFolder again(other / "again");
  EXPECT_EQ(again.tensors().size(), folder.tensors().size());
  for (const TensorInfo& info : folder.tensors())
    EXPECT_TRUE(bytes_of(again.tensor(info.name)) == bytes_of(folder.tensor(info.name)))
        << info.name;

  // Training continues with the layer, or without it if the user says so.
  const Overrides pretrained =
      kDeepSeek + Overrides{"checkpoint.pretrained_checkpoint=" + (other / "hf").string()};
  EXPECT_TRUE(train_run(pretrained).tensors.contains("model.layers.2.eh_proj.weight"));
  EXPECT_FALSE(train_run(pretrained + Overrides{"model.mtp_num_layers=null"})
                   .tensors.contains("model.layers.2.eh_proj.weight"));
}

TEST(MultiTokenFolders, OfTransformersHaveNoneAndGenerateTheSame) {
  TemporaryFolder saved, other;
  (void)train_run(kDeepSeek +
                  Overrides{"checkpoint.save=" + path_of(saved), "model.init_method_std=0.3"});
  convert_model({.from = saved.path(), .to = other / "hf"});
  leave_out_further_layers(other / "hf", other / "plain");
  const ModelConfig plain = read_model_config(resolve_model_folder(other / "plain"));
  EXPECT_EQ(plain.mtp_layers, 0);
  EXPECT_THAT(plain.notes, testing::Contains(testing::HasSubstr("num_nextn_predict_layers 1")));
  EXPECT_EQ(read_model_config(resolve_model_folder(other / "hf")).mtp_layers, 1);
  const auto tokens = generated(other / "hf");
  EXPECT_EQ(tokens.size(), 12u);
  EXPECT_EQ(generated(other / "plain"), tokens);
}

}  // namespace
}  // namespace viaduct
