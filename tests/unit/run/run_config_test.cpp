#include "run/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "run/no_effect.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTinyModel{"model.num_layers=2", "model.hidden_size=64",
                                          "model.num_attention_heads=4", "model.vocab_size=256",
                                          "model.seq_length=32"};

std::vector<std::string> with(std::vector<std::string> base, const std::vector<std::string>& more) {
  base.insert(base.end(), more.begin(), more.end());
  return base;
}

std::vector<std::string> problems_of(const std::vector<std::string>& overrides) {
  try {
    load_run_config({}, overrides);
  } catch (const ConfigError& error) {
    return error.problems();
  }
  return {};
}

/// What a run says at its start about settings without effect.
std::vector<std::string> idle_notes(const std::vector<std::string>& overrides,
                                    const RunConfig& defaults = {}) {
  LoadedRunConfig loaded = load_run_config({}, with(kTinyModel, overrides), defaults);
  resolve(loaded.config);
  return settings_without_effect(loaded.config, loaded.outcome);
}

// Every name resolves to a field, an environment variable or a section: never to "unknown".
void expect_all_known(const std::string& file) {
  RunConfig config;
  const Schema schema = run_schema(config);
  std::ifstream lines(test::test_data("config/" + file));
  int names = 0;
  for (std::string name; std::getline(lines, name);) {
    if (name.empty() || name[0] == '#' || name[0] == '[') continue;
    ++names;
    EXPECT_TRUE(!schema.find_all(name).empty() || !schema.section_of(name).empty()) << name;
    if (name.find('.') != std::string::npos) {
      EXPECT_NE(schema.find(name), nullptr) << name << " cannot be set";
    }
  }
  EXPECT_GT(names, 100);
}

// A table with a name is complete: an entry set inside it would silently be replaced.
TEST(RunConfig, ATableByNameHasNoFieldsOfItsOwn) {
  const std::string table =
      "comm_overlap.tp_comm_overlap_cfg=userbuffers_bf16_h100_h8192_tp4_mbs1_seqlen8192";
  const std::string inside = "comm_overlap.tp_comm_overlap_cfg.proj_fprop.num_splits=2";
  EXPECT_THAT(problems_of(with(kTinyModel, {table})), testing::IsEmpty());
  EXPECT_THAT(problems_of(with(kTinyModel, {inside})), testing::IsEmpty());
  EXPECT_THAT(problems_of(with(kTinyModel, {table, inside})),
              ElementsAre(HasSubstr("has no field 'proj_fprop'")));
}

TEST(Knobs, EveryNameOfTheGuidesIsKnown) {
  expect_all_known("guide_names.txt");
}
TEST(Knobs, EveryKnobOfTheBehaviourSpecificationIsKnown) {
  expect_all_known("knob_names.txt");
}

TEST(Knobs, GuidesSpellingsMeanTheCanonicalField) {
  RunConfig config;
  const Schema schema = run_schema(config);
  const auto canonical = [&](const char* name) {
    const Field* field = schema.find(name);
    return field ? field->full_name() : "unknown";
  };
  EXPECT_EQ(canonical("TransformerConfig.recompute_granuality"), "model.recompute_granularity");
  EXPECT_EQ(canonical("recipe.trainer.strategy.ddp.bucket_size"), "ddp.bucket_size");
  EXPECT_EQ(canonical("recipe.trainer.strategy.num_distributed_optimizer_instances"),
            "ddp.num_distributed_optimizer_instances");
  EXPECT_EQ(canonical("recipe.model.config.use_precision_aware_optimizer"),
            "optimizer.use_precision_aware_optimizer");
  EXPECT_EQ(canonical("OptimizerConfig.use_distributed_optimizer"),
            "ddp.use_distributed_optimizer");
  EXPECT_EQ(canonical("megatronMixedPrecision.fp8_params"), "mixed_precision.fp8_param_gather");
  EXPECT_EQ(canonical("garbageCollectionCallback.gc_interval_train"), "train.manual_gc_interval");
  EXPECT_EQ(canonical("transformerLayerTPOverlapCfg.num_sm"), "comm_overlap.num_sm");
  EXPECT_EQ(canonical("recipe.trainer.strategy.fsdp"), "dist.fsdp");
  EXPECT_EQ(canonical("FinetuningDatasetConfig.packed_sequence_specs.packed_sequence_size"),
            "dataset.packed_sequence_size");
  EXPECT_EQ(canonical("profiling.use_pytorch_profiler"), "profiling.trace");
  EXPECT_EQ(schema.find_all("NVTE_FLASH_ATT").at(0)->name, "NVTE_FLASH_ATTN");
}

TEST(Knobs, EveryFieldIsDescribedAndEveryDefaultHasItsOwnType) {
  RunConfig config;
  const Schema schema = run_schema(config);
  for (const FieldGroup& group : schema.groups()) {
    EXPECT_FALSE(schema.section_doc(group.section()).empty()) << group.section();
    for (const Field& field : group.fields()) {
      EXPECT_FALSE(field.doc.empty()) << field.full_name();
      EXPECT_TRUE(has_type(field.default_value, field.type)) << field.full_name();
      EXPECT_TRUE(field.assign(field.default_value)) << field.full_name();
      EXPECT_EQ(field.doc.back(), '.') << field.full_name();
    }
  }
}

TEST(RunConfig, DefaultsAreTheDocumentedOnes) {
  RunConfig config = load_run_config({}, kTinyModel).config;
  resolve(config);
  EXPECT_EQ(config.mixed_precision.recipe, RecipeName::bf16_mixed);
  EXPECT_EQ(config.optimizer.min_lr.value(), 3e-5);
  EXPECT_EQ(config.optimizer.adam_beta2, 0.95);
  EXPECT_EQ(config.ddp.bucket_size.value(), 40'000'000);
  EXPECT_TRUE(config.ddp.overlap_param_gather.value());
  EXPECT_FALSE(config.parallel.sequence_parallel.value());
  EXPECT_TRUE(config.model.calculate_per_token_loss);
  EXPECT_EQ(config.model.normalization.value(), NormKind::rms_norm);
  EXPECT_EQ(config.model.kv_channels.value(), 16);
  EXPECT_EQ(config.model.num_query_groups.value(), 4);
  EXPECT_EQ(config.scheduler.lr_warmup_iters.value(), 500);
  EXPECT_EQ(config.dataset.sequence_length.value(), 32);
}

TEST(RunConfig, FamiliesGiveTheDefaults) {
  RunConfig config =
      load_run_config({}, with(kTinyModel, {"model.family=gpt2", "model.add_qkv_bias=false"}))
          .config;
  resolve(config);
  EXPECT_EQ(config.model.normalization.value(), NormKind::layer_norm);
  EXPECT_FALSE(config.model.add_qkv_bias.value()) << "the user's value stays";
  EXPECT_TRUE(config.model.add_mlp_bias.value());
  EXPECT_EQ(config.model.ffn_hidden_size.value(), 256);
}

TEST(RunConfig, ResolvedYamlHoldsNoAutoAndReadsBack) {
  RunConfig config =
      load_run_config(
          {}, with(kTinyModel, {"optimizer.lr=1e-3", "dataset.blend_per_split=[[a, b], [c], null]",
                                "model.rope_scaling={rope_type: linear, factor: 2.0}",
                                "checkpoint.save=/tmp/a b"}))
          .config;
  ASSERT_EQ(config.dataset.blend_per_split.value().size(), 3u);
  EXPECT_THAT(*config.dataset.blend_per_split.value()[0], ElementsAre("a", "b"));
  EXPECT_FALSE(config.dataset.blend_per_split.value()[2].has_value());
  resolve(config);
  const std::string yaml = to_yaml(config);
  EXPECT_THAT(yaml, testing::Not(HasSubstr(": auto")));
  EXPECT_THAT(yaml, HasSubstr("tensor_model_parallel_size: 1"));

  test::TemporaryFolder folder;
  write_file_atomically(folder / "config.yaml", yaml);
  const LoadedRunConfig again = load_run_config(folder / "config.yaml", {});
  EXPECT_EQ(to_yaml(again.config), yaml);
  EXPECT_EQ(again.config.checkpoint.save, "/tmp/a b");
}

TEST(RunConfig, WhatTheCudaDeviceHasNotIsRefused) {
  EXPECT_THAT(problems_of({"dist.device=cuda", "memory.offload_path=/tmp"}),
              ElementsAre(HasSubstr("memory.offload_path=/tmp is not implemented yet on cuda: the "
                                    "second memory of a GPU")));
}

TEST(RunConfig, WhatIsNotBuiltYetIsRefused) {
  EXPECT_THAT(problems_of({"dataset.dataset_root=/tmp"}),
              ElementsAre(HasSubstr("is not implemented yet: fine-tuning sets as folders")));
  EXPECT_THAT(problems_of({"peft.scheme=lora", "logger.log_energy=true"}).size(), 1u);
  EXPECT_THAT(problems_of({"mixed_precision=fp32", "model.sequence_parallel=false",
                           "ddp.overlap_grad_reduce=true"}),
              ElementsAre());
}

TEST(RunConfig, WithoutEffectIsNoted) {
  const LoadedRunConfig loaded =
      load_run_config({}, {"ddp.fsdp_manual_registration=true", "env_vars.NVTE_FLASH_ATTN=0"});
  EXPECT_THAT(loaded.outcome.notes,
              Contains(HasSubstr("ddp.fsdp_manual_registration has no effect on cpu")));
  EXPECT_THAT(loaded.outcome.notes, Contains(HasSubstr("env_vars.NVTE_FLASH_ATTN")));
}

TEST(RunConfig, AnFp32ResidualStreamIsNothingNewToWideRecipes) {
  const auto notes = [](const std::string& recipe) {
    return idle_notes({"mixed_precision=" + recipe, "model.fp32_residual_connection=true"});
  };
  for (const char* recipe : {"fp32", "fp64"})
    EXPECT_THAT(notes(recipe), Contains(AllOf(HasSubstr("model.fp32_residual_connection has no "
                                                        "effect here: with recipe"),
                                              HasSubstr(recipe))));
  for (const char* recipe : {"bf16_mixed", "fp16_mixed"})
    EXPECT_THAT(notes(recipe), Not(Contains(HasSubstr("fp32_residual_connection"))));
}

TEST(RunConfig, AttentionBackends) {
  const std::string steps = "model.masked_softmax_fusion=false";
  EXPECT_THAT(
      idle_notes({steps, "model.attention_backend=unfused", "model.apply_rope_fusion=false"}),
      Not(Contains(HasSubstr("model."))));
  EXPECT_THAT(idle_notes({steps}), Contains(HasSubstr("masked_softmax_fusion has no effect here")));
  const std::string fp32 = "model.attention_softmax_in_fp32=false";
  EXPECT_THAT(idle_notes({fp32}), Contains(HasSubstr("attention_backend = flash is FP32")));
  EXPECT_THAT(idle_notes({fp32, "model.attention_backend=unfused", "mixed_precision.recipe=fp32"}),
              Contains(HasSubstr("activations are no narrower than FP32")));
  EXPECT_THAT(problems_of({"model.attention_backend=local"}),
              ElementsAre(HasSubstr("the framework's own kernels; nearest: unfused")));
}

TEST(RunConfig, AttentionByALibraryNeedsAGpuAnd16Bits) {
  const std::string fused = "model.attention_backend=fused", bf16 = "mixed_precision=bf16_mixed";
  EXPECT_THAT(problems_of({fused, bf16}),
              ElementsAre(HasSubstr("fused (cuDNN) needs dist.device = cuda, or a dry run for a "
                                    "GPU; nearest on cpu: flash")));
  RunConfig for_gpu;
  for_gpu.cuda_target = CudaTarget::sm_90a;
  EXPECT_THAT(idle_notes({fused, bf16, "model.masked_softmax_fusion=false"}, for_gpu),
              Contains(HasSubstr("masked_softmax_fusion has no effect here: "
                                 "model.attention_backend = fused has no softmax")));
  EXPECT_THAT(
      [&] {
        load_run_config({}, {fused, "mixed_precision=fp32"}, for_gpu);
      },
      ThrowsMessage<ConfigError>(HasSubstr("mixed_precision.recipe = fp32 are wider")));
}

TEST(RunConfig, Fp64NeedsTheCpu) {
  RunConfig for_gpu;
  for_gpu.cuda_target = CudaTarget::sm_90a;
  const std::vector<std::string> model{"mixed_precision=fp64"},
      router{"model.num_moe_experts=4", "model.moe_router_dtype=fp64"};
  const auto refuses = [](const std::string& field) {
    return ThrowsMessage<ConfigError>(HasSubstr(field + ": fp64 is computed on the cpu alone"));
  };
  EXPECT_THAT([&] { load_run_config({}, model, for_gpu); }, refuses("mixed_precision.recipe"));
  EXPECT_THAT([&] { load_run_config({}, router, for_gpu); }, refuses("model.moe_router_dtype"));
  EXPECT_THAT(problems_of(model), testing::IsEmpty());
  EXPECT_THAT(problems_of(router), testing::IsEmpty());
}

TEST(RunConfig, RulesOverSeveralSectionsReportTogether) {
  EXPECT_THAT(
      problems_of({"model.num_attention_heads=6", "model.num_query_groups=4", "optimizer.min_lr=1",
                   "train.global_batch_size=7", "train.micro_batch_size=2",
                   "scheduler.lr_decay_style=WSD", "model.family=gpt2", "model.seq_length=64",
                   "model.max_position_embeddings=32"})
          .size(),
      5u);
  EXPECT_THAT(problems_of({"optimizer.learning_rate=1"}),
              ElementsAre(HasSubstr("unknown field 'optimizer.learning_rate'")));
}

TEST(RunConfig, UnknownNamesGetTheNearestOne) {
  EXPECT_THAT(problems_of({"train.micro_batch=3"}),
              ElementsAre(HasSubstr("did you mean 'train.micro_batch_size'?")));
  EXPECT_THAT(problems_of({"lr=3"}), ElementsAre(HasSubstr("did you mean 'optimizer.lr'?")));
  EXPECT_THAT(problems_of({"train.hiden_size=3"}),
              ElementsAre(HasSubstr("did you mean 'model.hidden_size'?")));
  EXPECT_THAT(problems_of({"model.heads=3"}),
              ElementsAre(HasSubstr("did you mean 'model.num_attention_heads'?")));
  EXPECT_THAT(problems_of({"model.bias=3"}), ElementsAre(testing::EndsWith("'model.bias'")))
      << "several have that word";
  EXPECT_THAT(problems_of({"foo.bar=3"}),
              ElementsAre(testing::EndsWith("unknown field 'foo.bar'")));
}

TEST(RunConfig, MissingSizesAreNamed) {
  RunConfig config = load_run_config({}, {"model.num_layers=2"}).config;
  try {
    resolve(config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.problems(), Contains(HasSubstr("model.hidden_size")));
    EXPECT_EQ(error.problems().size(), 4u);
  }
}

}  // namespace
}  // namespace viaduct
