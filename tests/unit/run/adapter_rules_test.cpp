// Rules about the adapters of a run that need its model.

#include <gmock/gmock.h>

#include "base/error.h"
#include "run/run_config.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::setup_of;
using test::tiny_run;
using test::operator+;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

const Overrides kExperts{"model.num_moe_experts=4", "model.moe_router_topk=2",
                         "model.moe_ffn_hidden_size=32", "peft.scheme=lora", "peft.dim=4"};

TEST(AdapterRules, DropoutOfExpertsIsNothingForPeft) {
  const auto said = [](const Overrides& more) {
    return setup_of(tiny_run("qwen3_moe") + kExperts + Overrides{"peft.dropout=0.1"} + more)
        .warnings;
  };
  const auto dropout = HasSubstr("peft.dropout: PEFT cannot hold these adapters");
  EXPECT_THAT(said({}), Contains(dropout));
  EXPECT_THAT(said({"peft.exclude_modules=['*.experts.*']"}), Not(Contains(dropout)));
  EXPECT_THAT(said({"peft.target_modules=[q_proj,gate]"}), Contains(dropout));
  EXPECT_THAT(said({"train.skip_train=true"}), Not(Contains(dropout)));
}

TEST(AdapterRules, WhatHasNoPlaceInPeftsFilesIsSaidAtTheStart) {
  const auto said = [](const std::string& family, const Overrides& more) {
    const Overrides experts = family == "llama" ? Overrides{"peft.scheme=lora"} : kExperts;
    return setup_of(tiny_run(family) + experts + more).warnings;
  };
  const auto about_peft = Contains(HasSubstr("PEFT"));
  EXPECT_THAT(said("llama", {}), Not(about_peft));
  EXPECT_THAT(said("llama", {"peft.dropout=0.1"}), Not(about_peft));
  EXPECT_THAT(said("llama", {"peft.dropout=0.1", "peft.dropout_position=post"}),
              Contains(AllOf(HasSubstr("peft.dropout_position: post has no place"),
                             HasSubstr("convert writes lora_dropout: 0.1"))));
  EXPECT_THAT(said("qwen3_moe", {}), Not(about_peft));
  // PEFT has gate and up of experts as one.
  EXPECT_THAT(said("qwen3_moe", {"peft.target_modules=['*.experts.*.gate_proj']"}),
              Contains(AllOf(HasSubstr("peft.target_modules: PEFT cannot hold these adapters"),
                             HasSubstr("of experts together"))));
  const Overrides dense{"model.moe_layer_freq=[0,1]"};
  EXPECT_THAT(said("qwen3_moe", dense),
              Contains(AllOf(HasSubstr("takes mlp.down_proj, mlp.gate_proj, mlp.up_proj"),
                             HasSubstr("convert refuses to write them"))));
}

TEST(AdapterRules, OfAdaptersOnRandomWeightsTheSettingIsNamed) {
  const std::string adapter = (test::test_data("golden") / "lora_llama/adapter").string();
  const std::string shape =
      "model.hf_config=" + (test::test_data("golden") / "llama/model").string();
  EXPECT_THAT(
      setup_of({shape, "peft.adapter=" + adapter, "dataset.mock=true", "model.seq_length=32",
                "train.train_iters=1", "train.global_batch_size=2", "train.micro_batch_size=2",
                "scheduler.lr_warmup_iters=0", "validation.eval_iters=0"})
          .warnings,
      Contains(HasSubstr("peft.adapter: the adapters are on random weights")));
}

TEST(AdapterRules, MuonNeedsEqualBoxesOfWhatAdaptersTrain) {
  const auto setup = [](const Overrides& more) {
    return setup_of(tiny_run("phi3") +
                    Overrides{"model.num_attention_heads=4", "model.num_query_groups=2",
                              "dist.ranks=4", "model.tensor_model_parallel_size=4",
                              "optimizer.optimizer=muon", "peft.scheme=lora", "peft.dim=4"} +
                    more);
  };
  EXPECT_THAT([&] { setup({"peft.target_modules=[qkv_proj]"}); },
              ThrowsMessage<ConfigError>(HasSubstr("muon makes whole matrices of equal boxes")));
  EXPECT_NO_THROW(setup({"peft.target_modules=[o_proj]"}));
}

TEST(AdapterRules, FilesOfAnAdapterTakeThePlaceOfSettings) {
  const std::filesystem::path golden = test::test_data("golden");
  const auto setup = [&](const Overrides& more) {
    return setup_of(
        Overrides{"checkpoint.pretrained_checkpoint=" + (golden / "llama/model").string(),
                  "peft.adapter=" + (golden / "lora_llama/adapter").string(), "dataset.mock=true",
                  "model.seq_length=32", "train.train_iters=1", "train.global_batch_size=2",
                  "train.micro_batch_size=2", "optimizer.lr=1e-2", "scheduler.lr_warmup_iters=0",
                  "validation.eval_iters=0"} +
        more);
  };
  // All of them are the section's defaults, and not the adapter's (rank 8, alpha 16).
  const RunSetup given = setup({"peft.dim=16", "peft.alpha=32", "peft.target_modules=[all-linear]",
                                "peft.dropout=0", "peft.rslora=false"});
  EXPECT_THAT(given.notes,
              Contains("peft.alpha, peft.dim, peft.target_modules have no effect here: "
                       "the files of peft.adapter say it"));
  const PeftConfig& peft = given.config.peft;
  EXPECT_EQ(peft.scheme, AdapterScheme::lora);
  EXPECT_EQ(peft.dim, 8);
  EXPECT_EQ(peft.alpha, 16);
  EXPECT_EQ(peft.target_modules.size(), 7u);
  EXPECT_THAT(setup({"peft.dim=8", "peft.alpha=16"}).notes,
              Not(Contains(HasSubstr("the files of peft.adapter"))));
  EXPECT_THAT(setup({"peft.dropout=0.2"}).notes,
              Contains(HasSubstr("peft.dropout has no effect here")));
}

TEST(AdapterRules, WhereDropoutIs) {
  const auto setup = [](const Overrides& more) {
    return setup_of(tiny_run() + Overrides{"peft.dim=4", "peft.dropout_position=post"} + more);
  };
  EXPECT_TRUE(setup({"peft.scheme=lora", "peft.dropout=0.1"}).config.peft.resolved.dropout_after);
  EXPECT_THAT(setup({"peft.scheme=lora"}).notes,
              Contains(HasSubstr("peft.dropout_position has no effect here: nothing is dropped")));
  EXPECT_THAT(
      [&] {
        setup({"peft.scheme=dora", "peft.dropout=0.1"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("peft.dropout_position: post with dora")));
}

TEST(AdapterRules, WhatQuantizedProductsExclude) {
  const auto problem = [](const Overrides& more, const std::string& said) {
    const Overrides run =
        tiny_run() + Overrides{"peft.scheme=lora", "peft.dim=4", "model.hidden_size=128",
                               "model.ffn_hidden_size=128"};
    EXPECT_THAT([&] { setup_of(run + more); }, ThrowsMessage<ConfigError>(HasSubstr(said)));
  };
  const std::string fp8 = "mixed_precision=bf16_with_fp8_current_scaling_mixed";
  problem({fp8, "mixed_precision.fp8_param_gather=true"}, "frozen weights are quantized once");
  problem({fp8, "mixed_precision.fp8_dot_product_attention=true",
           "mixed_precision.fp8_multi_head_attention=true"},
          "reads attention's output in 16 bits");
  problem({fp8, "peft.base_format=nf4"}, "peft.base_format: nf4, beside FP8 products");
  const auto notes =
      setup_of(tiny_run() + Overrides{"peft.scheme=lora", "peft.dim=4", "model.hidden_size=128",
                                      "model.ffn_hidden_size=128", fp8,
                                      "mixed_precision.fp8_wgrad=false"})
          .notes;
  EXPECT_THAT(notes, Contains(HasSubstr("mixed_precision.fp8_wgrad has no effect here")));
}

TEST(AdapterRules, LayersOfMultiTokenPredictionHaveThemWhereTheyAreNamed) {
  const auto setup = [](const Overrides& more) {
    return setup_of(tiny_run() +
                    Overrides{"peft.scheme=lora", "peft.dim=4", "model.mtp_num_layers=1"} + more);
  };
  EXPECT_THAT(setup({}).notes, Contains(HasSubstr("are frozen and have no adapters")));
  const RunSetup both = setup({"peft.target_modules=[all-linear,mtp]"});
  EXPECT_THAT(both.notes, Contains(HasSubstr("have adapters on 8 matrices")));
  EXPECT_NE(both.config.peft.resolved.of("model.layers.2.eh_proj"), nullptr);
}

TEST(AdapterRules, SchemesKeepTheirNames) {
  const auto scheme = [](const std::string& name) {
    return setup_of(tiny_run() + Overrides{"peft.dim=4", "peft.scheme=" + name}).config.peft.scheme;
  };
  EXPECT_EQ(scheme("dora"), AdapterScheme::dora);
  EXPECT_EQ(scheme("canonical_lora"), AdapterScheme::lora);
}

}  // namespace
}  // namespace viaduct
