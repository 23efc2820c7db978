// The meaning of FP8 recipe names, the changes by further fields, and the rules over both.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/validated_run.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

struct Outcome {
  PrecisionRecipe recipe;
  std::vector<std::string> problems;
};

Outcome outcome_of(const std::vector<std::string>& settings) {
  std::vector<std::string> all{"model.ffn_hidden_size=128", "model.kv_channels=16"};
  all.insert(all.end(), settings.begin(), settings.end());
  test::ValidatedRun run = test::validated(all);
  return {precision_recipe(run.config.mixed_precision), std::move(run.problems)};
}

TEST(ValidatePrecision, NamesOfRecipes) {
  const auto recipe = [](const std::string& name) {
    return outcome_of({"mixed_precision=" + name}).recipe;
  };
  const PrecisionRecipe current = recipe("bf16_with_fp8_current_scaling_mixed");
  EXPECT_EQ(current.products, (Quantization{Scaling::tensor, DType::e4m3, DType::e5m2}));
  EXPECT_EQ(current.weight, DType::bf16);
  EXPECT_FALSE(current.quantizes(0, 8));
  EXPECT_TRUE(current.quantizes(1, 8));
  EXPECT_TRUE(current.quantizes(6, 8));
  EXPECT_FALSE(current.quantizes(7, 8));
  const PrecisionRecipe blocks = recipe("fp16_with_fp8_subchannel_scaling_mixed");
  EXPECT_EQ(blocks.products, (Quantization{Scaling::blocks, DType::e4m3, DType::e5m2}));
  EXPECT_EQ(blocks.weight, DType::f16);
  EXPECT_TRUE(blocks.loss_scaling);
  EXPECT_TRUE(blocks.quantizes(0, 8));
  EXPECT_EQ(recipe("bf16_with_mxfp8_mixed").products,
            (Quantization{Scaling::mx, DType::e4m3, DType::e4m3}));
  const PrecisionRecipe fp4 = recipe("bf16_with_nvfp4_mixed");
  EXPECT_EQ(fp4.products, (Quantization{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2}));
  EXPECT_EQ(fp4.weight, DType::bf16);
  EXPECT_TRUE(fp4.quantizes(0, 8));
  const PrecisionRecipe nano = recipe("nanov2_bf16_with_fp8_current_scaling_mixed");
  EXPECT_EQ(nano.products.scaling, Scaling::blocks);
  EXPECT_FALSE(nano.quantizes(1, 8));
  EXPECT_FALSE(nano.quantizes(6, 8));
  EXPECT_FALSE(recipe("bf16_mixed").quantizes(3, 8));
  EXPECT_THAT([] { precision_recipe("bf16_with_mxfp_mixed"); },
              ThrowsMessage<ConfigError>(HasSubstr("did you mean bf16_with_mxfp8_mixed?")));
}

TEST(ValidatePrecision, FieldsChangeTheRecipe) {
  const auto added = outcome_of({"mixed_precision=bf16_mixed", "mixed_precision.fp8=hybrid"});
  EXPECT_EQ(added.recipe.products, (Quantization{Scaling::tensor, DType::e4m3, DType::e5m2}));
  EXPECT_TRUE(added.recipe.quantizes(0, 8));
  const auto changed =
      outcome_of({"mixed_precision=bf16_with_fp8_current_scaling_mixed", "mixed_precision.fp8=e4m3",
                  "mixed_precision.fp8_recipe=mxfp8", "mixed_precision.fp8_wgrad=false",
                  "mixed_precision.num_layers_at_start_in_bf16=3"});
  EXPECT_EQ(changed.recipe.products, (Quantization{Scaling::mx, DType::e4m3, DType::e4m3, false}));
  EXPECT_EQ(changed.recipe.plain_blocks_at_start, 3);
  EXPECT_EQ(changed.recipe.plain_blocks_at_end, 1);
  EXPECT_THAT(changed.problems, IsEmpty());
  EXPECT_EQ(outcome_of({"mixed_precision=bf16_with_fp8_current_scaling_mixed",
                        "mixed_precision.first_last_layers_bf16=false"})
                .recipe.plain_blocks_at_end,
            0);
  const auto ends = outcome_of(
      {"mixed_precision=bf16_with_mxfp8_mixed", "mixed_precision.first_last_layers_bf16=true"});
  EXPECT_EQ(ends.recipe.plain_blocks_at_start, 1);
}

TEST(ValidatePrecision, HistoriesOfDelayedScaling) {
  const auto amax = [](const std::vector<std::string>& settings) {
    return outcome_of(settings).recipe.amax;
  };
  for (const char* of : {"bf16", "fp16"}) {
    const std::string name = std::string(of) + "_with_fp8_delayed_scaling_mixed";
    const Outcome outcome = outcome_of({"mixed_precision=" + name});
    EXPECT_EQ(outcome.recipe.products, (Quantization{Scaling::tensor, DType::e4m3, DType::e5m2}));
    EXPECT_EQ(outcome.recipe.amax.source, AmaxSource::history);
    EXPECT_EQ(outcome.recipe.amax.steps, 1024);
    EXPECT_FALSE(outcome.recipe.amax.most_recent);
    EXPECT_THAT(outcome.problems, IsEmpty());
  }
  const AmaxSettings added = amax(
      {"mixed_precision=bf16_with_fp8_current_scaling_mixed", "mixed_precision.fp8_recipe=delayed",
       "mixed_precision.fp8_margin=2", "mixed_precision.tp_only_amax_red=true"});
  EXPECT_EQ(added.source, AmaxSource::history);
  EXPECT_EQ(added.steps, 1);
  EXPECT_TRUE(added.most_recent);
  EXPECT_EQ(added.margin, 2);
  EXPECT_TRUE(added.within_micro_batch);
  const std::string delayed = "mixed_precision=bf16_with_fp8_delayed_scaling_mixed";
  const AmaxSettings changed = amax({delayed, "mixed_precision.fp8_amax_history_len=16",
                                     "mixed_precision.fp8_amax_compute_algo=most_recent"});
  EXPECT_EQ(changed.steps, 16);
  EXPECT_TRUE(changed.most_recent);
  EXPECT_EQ(amax({delayed, "mixed_precision.fp8_recipe=tensorwise"}).source, AmaxSource::ranks);
  EXPECT_EQ(amax({"mixed_precision=bf16_with_fp8_current_scaling_mixed",
                  "mixed_precision.fp8_local_amax=true"})
                .source,
            AmaxSource::own);
}

TEST(ValidatePrecision, WeightsThatAreStoredAsFp8) {
  const std::string codes = "mixed_precision.fp8_param_gather=true";
  const auto of = [&](const std::string& recipe, const std::vector<std::string>& more = {}) {
    std::vector<std::string> settings{"mixed_precision=" + recipe, codes};
    settings.insert(settings.end(), more.begin(), more.end());
    return outcome_of(settings);
  };
  const Outcome delayed = of("bf16_with_fp8_delayed_scaling_mixed");
  EXPECT_THAT(delayed.problems, IsEmpty());
  EXPECT_TRUE(delayed.recipe.stores_codes);
  EXPECT_TRUE(of("bf16_with_fp8_current_scaling_mixed").recipe.stores_codes);
  EXPECT_THAT(of("bf16_with_fp8_subchannel_scaling_mixed").problems,
              ElementsAre(HasSubstr("needs one scale for each weight")));
  EXPECT_THAT(
      of("bf16_with_mxfp8_mixed").problems,
      ElementsAre(HasSubstr("mxfp8 needs mixed_precision.reuse_grad_buf_for_mxfp8_param_ag")));
  const std::string through = "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag=true";
  const Outcome mx = of("bf16_with_mxfp8_mixed", {through});
  EXPECT_THAT(mx.problems, IsEmpty());
  EXPECT_TRUE(mx.recipe.stores_codes);
  for (const char* strategy : {"optim_grads", "optim_grads_params"})
    EXPECT_THAT(of("bf16_with_mxfp8_mixed",
                   {through, std::string("ddp.data_parallel_sharding_strategy=") + strategy})
                    .problems,
                ElementsAre(AllOf(HasSubstr("needs whole gradients"), HasSubstr(strategy))));
  EXPECT_THAT(
      of("bf16_with_mxfp8_mixed", {through, test::pp(2), test::vpp(2),
                                   "optimizer.overlap_param_gather_with_optimizer_step=true"})
          .problems,
      ElementsAre(HasSubstr("excludes optimizer.overlap_param_gather_with_optimizer_step = true")));
  EXPECT_THAT(
      of("bf16_with_fp8_delayed_scaling_mixed", {"ddp.use_distributed_optimizer=false"}).problems,
      ElementsAre(HasSubstr("needs ddp.use_distributed_optimizer, which is false")));
  EXPECT_THAT(of("bf16_with_fp8_delayed_scaling_mixed",
                 {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"})
                  .problems,
              ElementsAre(HasSubstr("second memory")));
}

TEST(ValidatePrecision, AttentionInFp8) {
  const std::string products = "mixed_precision.fp8_dot_product_attention=true",
                    output = "mixed_precision.fp8_multi_head_attention=true";
  const auto of = [&](const std::string& recipe, std::vector<std::string> more) {
    more.insert(more.begin(), "mixed_precision=" + recipe);
    return outcome_of(more);
  };
  for (const char* recipe :
       {"bf16_with_fp8_delayed_scaling_mixed", "fp16_with_fp8_current_scaling_mixed"}) {
    const Outcome heads = of(recipe, {products}), whole = of(recipe, {products, output});
    EXPECT_THAT(heads.problems, IsEmpty());
    EXPECT_TRUE(heads.recipe.products.attention);
    EXPECT_FALSE(heads.recipe.products.attended);
    EXPECT_THAT(whole.problems, IsEmpty());
    EXPECT_TRUE(whole.recipe.products.attended);
  }
  for (const char* recipe : {"bf16_with_fp8_subchannel_scaling_mixed", "bf16_with_mxfp8_mixed",
                             "bf16_with_nvfp4_mixed"}) {
    const Outcome groups = of(recipe, {products});
    EXPECT_THAT(groups.problems, ElementsAre(HasSubstr("needs one scale for each tensor")));
    EXPECT_FALSE(groups.recipe.products.attention);
  }
  const std::string current = "bf16_with_fp8_current_scaling_mixed";
  EXPECT_THAT(of(current, {output}).problems,
              ElementsAre(HasSubstr("needs fp8_dot_product_attention, which is false")));
  EXPECT_THAT(of(current, {products, output, "mixed_precision.fp8_wgrad=false"}).problems,
              ElementsAre(HasSubstr("excludes fp8_wgrad = false")));
  EXPECT_THAT(of(current, {products, "model.attention_backend=unfused"}).problems,
              ElementsAre(HasSubstr("needs model.attention_backend = flash, found unfused")));
  EXPECT_FALSE(of("bf16_mixed", {products}).recipe.products.attention);
}

TEST(ValidatePrecision, Fp4) {
  const auto added = outcome_of({"mixed_precision=fp16_mixed", "mixed_precision.fp4=e2m1",
                                 "mixed_precision.first_last_layers_bf16=true",
                                 "mixed_precision.fp8_wgrad=false"});
  EXPECT_EQ(added.recipe.products,
            (Quantization{Scaling::nvfp4, DType::e2m1x2, DType::e2m1x2, false}));
  EXPECT_FALSE(added.recipe.quantizes(0, 8));
  EXPECT_THAT(added.problems, IsEmpty());
  EXPECT_THAT(
      outcome_of({"mixed_precision=bf16_with_nvfp4_mixed", "mixed_precision.fp8=hybrid"}).problems,
      ElementsAre(HasSubstr("mixed_precision.fp8=hybrid excludes recipe=bf16_with_nvfp4_"
                            "mixed, which has FP4 products; nearest: recipe=bf16_mixed")));
  EXPECT_THAT(
      outcome_of({"mixed_precision=fp16_with_mxfp8_mixed", "mixed_precision.fp4=e2m1"}).problems,
      ElementsAre(HasSubstr("which has FP8 products; nearest: recipe=fp16_mixed")));
  EXPECT_THAT(outcome_of({"mixed_precision.fp4=e2m1", "mixed_precision.fp8=hybrid"}).problems,
              ElementsAre(HasSubstr("mixed_precision.fp4=e2m1 excludes fp8=hybrid")));
  EXPECT_THAT(outcome_of({"mixed_precision=fp32", "mixed_precision.fp4=e2m1"}).problems,
              ElementsAre(HasSubstr("mixed_precision.fp4: e2m1 needs a recipe with BF16")));
  EXPECT_THAT(
      outcome_of({"mixed_precision=bf16_with_nvfp4_mixed", "model.hidden_size=72"}).problems,
      ElementsAre(AllOf(HasSubstr("mixed_precision.fp4_recipe: model.hidden_size on a rank = 72"),
                        HasSubstr("as products of NVFP4 need"))));
  EXPECT_THAT(outcome_of({"mixed_precision=bf16_with_nvfp4_mixed", "model.seq_length=80",
                          "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"})
                  .problems,
              ElementsAre(HasSubstr("tokens of a micro-batch / tensor_model_parallel_size")));
}

TEST(ValidatePrecision, WeightsThatAreStoredAsFp4) {
  const std::string codes = "mixed_precision.fp4_param_gather=true";
  const auto of = [&](const std::string& recipe, const std::vector<std::string>& more = {}) {
    std::vector<std::string> settings{"mixed_precision=" + recipe, codes};
    settings.insert(settings.end(), more.begin(), more.end());
    return outcome_of(settings);
  };
  const Outcome nvfp4 = of("bf16_with_nvfp4_mixed");
  EXPECT_THAT(nvfp4.problems, IsEmpty());
  EXPECT_TRUE(nvfp4.recipe.stores_codes);
  EXPECT_TRUE(of("fp16_mixed", {"mixed_precision.fp4=e2m1"}).recipe.stores_codes);
  // Each knob is for its own recipes.
  EXPECT_FALSE(of("bf16_with_fp8_delayed_scaling_mixed").recipe.stores_codes);
  EXPECT_FALSE(
      outcome_of({"mixed_precision=bf16_with_nvfp4_mixed", "mixed_precision.fp8_param_gather=true"})
          .recipe.stores_codes);
  EXPECT_THAT(of("bf16_with_nvfp4_mixed", {"ddp.use_distributed_optimizer=false"}).problems,
              ElementsAre(HasSubstr("mixed_precision.fp4_param_gather: true needs "
                                    "ddp.use_distributed_optimizer, which is false")));
  EXPECT_THAT(of("bf16_with_nvfp4_mixed",
                 {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"})
                  .problems,
              ElementsAre(AllOf(HasSubstr("mixed_precision.fp4_param_gather: true with masters"),
                                HasSubstr("second memory"))));
}

TEST(ValidatePrecision, LayersInBf16) {
  const std::string nvfp4 = "mixed_precision=bf16_with_nvfp4_mixed";
  const auto named = outcome_of({nvfp4, "mixed_precision.layers_in_bf16=[blocks.0, mlp.down]"});
  EXPECT_THAT(named.problems, IsEmpty());
  EXPECT_TRUE(named.recipe.is_plain_layer("blocks.0.attention.qkv"));
  EXPECT_TRUE(named.recipe.is_plain_layer("blocks.7.mlp.down"));
  EXPECT_FALSE(named.recipe.is_plain_layer("blocks.7.mlp.up"));
  EXPECT_FALSE(named.recipe.is_plain_layer("blocks.01.mlp.up")) << "whole names";
  EXPECT_THAT(outcome_of({nvfp4, "mixed_precision.layers_in_bf16=[blocks.0.mlp.fc2]"}).problems,
              ElementsAre(HasSubstr("has \"blocks.0.mlp.fc2\" in its path")));
}

// Layers in BF16 may have any size, those with quantized products not.
TEST(ValidatePrecision, LayersInBf16HaveAnySize) {
  const auto problems = [](const std::vector<std::string>& more) {
    std::vector<std::string> settings{"mixed_precision=bf16_with_nvfp4_mixed",
                                      "model.ffn_hidden_size=100"};
    settings.insert(settings.end(), more.begin(), more.end());
    return outcome_of(settings).problems;
  };
  const auto refused = ElementsAre(HasSubstr("model.ffn_hidden_size / tensor_model_parallel_size"));
  EXPECT_THAT(problems({}), refused);
  EXPECT_THAT(problems({"mixed_precision.layers_in_bf16=[mlp.down]"}), refused);
  EXPECT_THAT(problems({"mixed_precision.layers_in_bf16=[mlp.up, mlp.down]"}), IsEmpty());
  EXPECT_THAT(problems({"mixed_precision.layers_in_bf16=[mlp]"}), IsEmpty());
  EXPECT_THAT(problems({"mixed_precision.first_last_layers_bf16=true"}), refused);
  EXPECT_THAT(problems({"mixed_precision.first_last_layers_bf16=true", "model.num_layers=2"}),
              IsEmpty());
}

TEST(ValidatePrecision, LossScalesAreNumbersOfFp32) {
  EXPECT_THAT(
      outcome_of({"mixed_precision=fp16_mixed", "mixed_precision.loss_scale=2e38"}).problems,
      ElementsAre(HasSubstr("mixed_precision.loss_scale: expected above 0 and at most "
                            "2^127, found 2e+38")));
  EXPECT_THAT(outcome_of({"mixed_precision.initial_loss_scale=2e38"}).problems,
              ElementsAre(HasSubstr("mixed_precision.initial_loss_scale: expected above 0")));
  EXPECT_THAT(
      outcome_of({"mixed_precision.initial_loss_scale=2", "mixed_precision.min_loss_scale=4"})
          .problems,
      ElementsAre(HasSubstr("initial_loss_scale: 2 is below min_loss_scale = 4")));
}

TEST(ValidatePrecision, LayersInBf16OfLatentAttention) {
  const auto problems = [](const std::string& latent, const std::string& layer) {
    return outcome_of({"mixed_precision=bf16_with_nvfp4_mixed",
                       "model.multi_latent_attention=" + latent,
                       "mixed_precision.layers_in_bf16=[" + layer + "]"})
        .problems;
  };
  for (const char* layer : {"attention.query", "blocks.2.attention.key_value"}) {
    EXPECT_THAT(problems("true", layer), IsEmpty()) << layer;
    EXPECT_THAT(problems("false", layer),
                ElementsAre(HasSubstr("one of attention.qkv, attention.p")))
        << layer;
  }
  EXPECT_THAT(problems("true", "attention.qkv"),
              ElementsAre(HasSubstr("one of attention.query, attention.key_value")));
}

TEST(ValidatePrecision, SizesOfProductsOfLatentAttention) {
  const auto problems = [](const std::vector<std::string>& sizes) {
    std::vector<std::string> settings{"mixed_precision=bf16_with_mxfp8_mixed",
                                      "model.multi_latent_attention=true",
                                      "model.q_lora_rank=32",
                                      "model.kv_lora_rank=32",
                                      "model.qk_head_dim=16",
                                      "model.qk_pos_emb_head_dim=16",
                                      "model.v_head_dim=16",
                                      "model.tensor_model_parallel_size=2"};
    settings.insert(settings.end(), sizes.begin(), sizes.end());
    return outcome_of(settings).problems;
  };
  EXPECT_THAT(problems({}), IsEmpty());
  EXPECT_THAT(problems({"model.q_lora_rank=24"}),
              ElementsAre(HasSubstr("model.q_lora_rank on a rank = 24 is not a multiple of 32")));
  EXPECT_THAT(problems({"model.kv_lora_rank=48"}),
              ElementsAre(HasSubstr("model.kv_lora_rank on a rank = 48")));
  EXPECT_THAT(
      problems({"model.qk_pos_emb_head_dim=4"}),
      ElementsAre(HasSubstr("qk_pos_emb_head_dim) / tensor_model_parallel_size on a rank = 80")));
}

TEST(ValidatePrecision, SizesOfProductsOfLayersWithoutAWindow) {
  const auto problems = [](const std::string& last, const std::string& channels) {
    return outcome_of({"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
                       "model.window_size=8",
                       "model.window_layers=[1, 1, 1, 1, 1, 1, 1, " + last + "]",
                       "model.full_attention_kv_channels=" + channels,
                       "model.full_attention_num_query_groups=1",
                       "model.full_attention_values_from_keys=true"})
        .problems;
  };
  EXPECT_THAT(problems("0", "16"), IsEmpty());
  EXPECT_THAT(problems("0", "12"),
              ElementsAre(HasSubstr("features of layers without a window on a rank = 108")));
  EXPECT_THAT(problems("1", "12"), IsEmpty());
}

TEST(ValidatePrecision, SizesOfProducts) {
  const std::string tp2 = "model.tensor_model_parallel_size=2";
  EXPECT_THAT(outcome_of({"mixed_precision=bf16_with_mxfp8_mixed"}).problems, IsEmpty());
  EXPECT_THAT(
      outcome_of({"mixed_precision=bf16_with_mxfp8_mixed", "model.hidden_size=72"}).problems,
      ElementsAre(AllOf(HasSubstr("model.hidden_size on a rank = 72 is not a multiple of 32"),
                        HasSubstr("nearest: 64"))));
  EXPECT_THAT(outcome_of({"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed",
                          "model.ffn_hidden_size=176", tp2})
                  .problems,
              ElementsAre(HasSubstr("= 88 is not a multiple of 16")));
  EXPECT_THAT(outcome_of({"mixed_precision=bf16_with_mxfp8_mixed", "model.seq_length=80"}).problems,
              ElementsAre(HasSubstr("tokens of a micro-batch on a rank = 80")));
  EXPECT_THAT(outcome_of({"mixed_precision=bf16_mixed", "model.hidden_size=72"}).problems,
              IsEmpty());
}

TEST(ValidatePrecision, OtherRules) {
  EXPECT_THAT(outcome_of({"mixed_precision=fp32", "mixed_precision.fp8=e4m3"}).problems,
              ElementsAre(HasSubstr("mixed_precision.fp8: e4m3 needs a recipe with BF16 or FP16 "
                                    "weights (bf16_mixed, fp16_mixed), found fp32")));
  EXPECT_THAT(outcome_of({"mixed_precision=nemotron_h_bf16_with_fp8_current_scaling_mixed",
                          "model.pipeline_model_parallel_size=8"})
                  .problems,
              ElementsAre(HasSubstr("num_layers_at_start_in_bf16: 2 is above"),
                          HasSubstr("num_layers_at_end_in_bf16: 2 is above")));
  // Rules about BF16 weights include these recipes.
  EXPECT_THAT(outcome_of({"mixed_precision=bf16_with_mxfp8_mixed", "ddp.grad_reduce_in_fp32=false",
                          "ddp.grad_reduce_in_bf16=true"})
                  .problems,
              IsEmpty());
}

}  // namespace
}  // namespace viaduct
