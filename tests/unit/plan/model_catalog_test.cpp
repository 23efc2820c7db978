// Models that `viaduct plan` knows by name.

#include "plan/model_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "run/setup.h"

namespace viaduct {
namespace {

std::string error_of(const std::string& name) {
  try {
    catalog_model(name);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(ModelCatalog, EveryModelIsAConfiguration) {
  const auto names = catalog_models();
  EXPECT_GT(names.size(), 40u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    auto overrides = catalog_model(name);
    for (const char* field : {"model.seq_length=128", "model.max_position_embeddings=128",
                              "train.global_batch_size=1", "train.micro_batch_size=1"})
      overrides.emplace_back(field);
    const RunSetup setup = prepare_run(load_run_config({}, overrides));
    EXPECT_GT(setup.model.layers, 0);
  }
}

TEST(ModelCatalog, SizesAreThoseOfTheTable) {
  auto overrides = catalog_model("llama3-8b");
  overrides.emplace_back("model.seq_length=128");
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  EXPECT_EQ(model.layers, 32);
  EXPECT_EQ(model.hidden, 4096);
  EXPECT_EQ(model.feed_forward, 14336);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.vocabulary, 128256);
  EXPECT_FALSE(model.tied_embeddings);
}

TEST(ModelCatalog, EverySecondLayerOfGptOssHasAWindow) {
  auto overrides = catalog_model("gpt-oss-20b");
  overrides.emplace_back("model.seq_length=128");
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  ASSERT_EQ(model.windows.size(), 24u);
  EXPECT_EQ(model.windows[0], 128);
  EXPECT_EQ(model.windows[1], 0);
  EXPECT_EQ(std::count(model.windows.begin(), model.windows.end(), 128), 12);
}

TEST(ModelCatalog, ExpertsAreThoseOfTheTable) {
  auto overrides = catalog_model("mixtral-8x7b");
  overrides.emplace_back("model.seq_length=128");
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  EXPECT_EQ(model.moe.experts, 8);
  EXPECT_EQ(model.moe.routing.topk, 2);
  EXPECT_EQ(model.moe.feed_forward, 14336);
  EXPECT_EQ(model.layers, 32);
}

TEST(ModelCatalog, LatentAttentionAndSharedExpertsAreThoseOfTheTable) {
  auto overrides = catalog_model("deepseek-v3");
  overrides.emplace_back("model.seq_length=128");
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  EXPECT_EQ(model.latent.q_rank, 1536);
  EXPECT_EQ(model.latent.kv_rank, 512);
  EXPECT_EQ(model.moe.shared_feed_forward, 2048);
  EXPECT_EQ(model.moe.layers[2], 0);
  EXPECT_EQ(model.moe.layers[3], 1);
  EXPECT_GT(model.moe.routing.groups, 0);
  auto moonlight = catalog_model("moonlight-16b-a3b");
  moonlight.emplace_back("model.seq_length=128");
  const ModelConfig small = prepare_run(load_run_config({}, moonlight)).model;
  EXPECT_EQ(small.latent.q_rank, 0);
  EXPECT_EQ(small.moe.routing.groups, 1);
}

TEST(ModelCatalog, NemotronHasNoGateBesideSharedHeads) {
  auto overrides = catalog_model("nemotron4-15b");
  overrides.emplace_back("model.seq_length=128");
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  EXPECT_EQ(model.family, "nemotron");
  EXPECT_FALSE(model.gated);
  EXPECT_EQ(model.activation, ActivationKind::squared_relu);
  EXPECT_EQ(model.feed_forward, 24576);
  EXPECT_EQ(model.kv_heads, 8);
}

TEST(ModelCatalog, Llama4HasChunksAndASharedExpert) {
  auto overrides = catalog_model("llama4-scout");
  overrides.emplace_back("model.seq_length=128");
  const ModelConfig model = prepare_run(load_run_config({}, overrides)).model;
  EXPECT_EQ(model.family, "llama4_text");
  EXPECT_EQ(model.moe.shared_feed_forward, 8192);
  EXPECT_EQ(model.attention_chunk(), 8192);
  EXPECT_FALSE(model.rotates(3));
}

TEST(ModelCatalog, OthersAreRefusedWithTheReason) {
  EXPECT_THAT(error_of("llama3-8x"), testing::HasSubstr("did you mean llama3-8b?"));
  EXPECT_THAT(error_of("qwen3-next-80b-a3b"), testing::HasSubstr("attention of kind hybrid"));
  EXPECT_THAT(error_of("nemotron-3-nano-30b-a3b"), testing::HasSubstr("Mamba-2"));
}

}  // namespace
}  // namespace viaduct
