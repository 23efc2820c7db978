// The layers of each stage: explicit maps, and numbers that do not divide.

#include "pipeline/layer_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

// "E 0-2 | 3-5 | 6 L": chunks in model order.
std::string text(const std::vector<ChunkLayers>& map) {
  std::string all;
  for (const ChunkLayers& chunk : map) {
    std::string one = chunk.embedding ? "E " : "";
    if (chunk.blocks > 0)
      one += std::to_string(chunk.first_block) + "-" +
             std::to_string(chunk.first_block + chunk.blocks - 1) + " ";
    if (chunk.head) one += "L ";
    all += (all.empty() ? "" : "| ") + one;
  }
  return all.substr(0, all.size() - 1);
}

std::string problem(const LayerMapSettings& settings) {
  try {
    layer_map(settings);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(LayerMap, EvenChunksGoRoundTheStages) {
  EXPECT_EQ(text(layer_map(LayerMapSettings{8, 2, 1})), "E 0-3 | 4-7 L");
  const auto map = layer_map(LayerMapSettings{8, 2, 2});
  EXPECT_EQ(text(map), "E 0-1 | 2-3 | 4-5 | 6-7 L");
  EXPECT_EQ(text(chunks_of_stage(map, {2}, 0)), "E 0-1 | 4-5");
  EXPECT_EQ(text(chunks_of_stage(map, {2}, 1)), "2-3 | 6-7 L");
}

TEST(LayerMap, EmbeddingAndLossCountAsLayers) {
  LayerMapSettings s{7, 4, 1};
  s.account_for_embedding = true;
  EXPECT_EQ(text(layer_map(s)), "E 0-0 | 1-2 | 3-4 | 5-6 L");
  s.account_for_embedding = false, s.account_for_loss = true;
  EXPECT_EQ(text(layer_map(s)), "E 0-1 | 2-3 | 4-5 | 6-6 L");
  s.layers = 6, s.account_for_embedding = true;
  EXPECT_EQ(text(layer_map(s)), "E 0-0 | 1-2 | 3-4 | 5-5 L");
  s.layers = 10, s.pp = 2, s.virtual_stages = 2;
  EXPECT_EQ(text(layer_map(s)), "E 0-1 | 2-4 | 5-7 | 8-9 L");
  // One layer a stage: the first and last hold no block.
  s.layers = 2;
  EXPECT_EQ(text(layer_map(s)), "E | 0-0 | 1-1 | L");
}

TEST(LayerMap, EndsMayBeGiven) {
  LayerMapSettings s{10, 4, 1};
  s.first_stage = 2;
  s.last_stage = 4;
  EXPECT_EQ(text(layer_map(s)), "E 0-1 | 2-3 | 4-5 | 6-9 L");
  s.last_stage.reset();
  s.first_stage = 1;
  EXPECT_EQ(text(layer_map(s)), "E 0-0 | 1-3 | 4-6 | 7-9 L");
  s = {9, 2, 1};
  s.last_stage = 2;
  EXPECT_EQ(text(layer_map(s)), "E 0-6 | 7-8 L");
  s = {14, 3, 2};
  s.first_stage = 4, s.last_stage = 2;
  EXPECT_EQ(text(layer_map(s)), "E 0-1 | 2-5 | 6-6 | 7-8 | 9-12 | 13-13 L");
}

TEST(LayerMap, WhatDoesNotDivideIsNamedWithTheNearest) {
  EXPECT_THAT(problem({7, 2, 2}), HasSubstr("model.num_layers: 7 is not divisible by "
                                            "pipeline_model_parallel_size · virtual stages = 2 · "
                                            "2; nearest: 4 or 8"));
  LayerMapSettings s{8, 4, 1};
  s.account_for_loss = true;
  EXPECT_THAT(problem(s), HasSubstr("8 + 1 (embedding, loss) is not divisible by"));
  EXPECT_THAT(problem(s), HasSubstr("nearest: 7 or 11"));
  s.first_stage = 2;
  EXPECT_THAT(problem(s), HasSubstr("not together with num_layers_in_first/last"));
  s = {10, 4, 1};
  s.first_stage = 3;
  EXPECT_THAT(
      problem(s),
      HasSubstr(
          "10 − 3 layers of num_layers_in_first/last_pipeline_stage = 7 for the other 3 stages "
          "of 1 chunk; nearest: 9 or 12"));
  s = {10, 2, 2};
  s.first_stage = 3, s.last_stage = 7;
  EXPECT_THAT(problem(s), HasSubstr("num_layers_in_first_pipeline_stage: 3 is not a positive "
                                    "multiple of the virtual stages 2; nearest: 2 or 4"));
  s = {10, 1, 1};
  s.first_stage = 10;
  EXPECT_THAT(problem(s), HasSubstr("needs pipeline_model_parallel_size of at least 2, found 1"));
}

TEST(LayerMap, ALayoutTextSaysEveryStage) {
  const auto map = [](const std::string& layout, int64_t layers, int pp) {
    PipelineConfig config;
    config.pipeline_model_parallel_layout = OneOrList<std::string>(layout);
    return text(layer_map(config, layers, pp));
  };
  EXPECT_EQ(map("Ettt|ttL", 5, 2), "E 0-2 | 3-4 L");
  EXPECT_EQ(map("E,t*3|(tt|)*2,tL", 8, 4), "E 0-2 | 3-4 | 5-6 | 7-7 L");
  EXPECT_EQ(map("E|(t|)*2L", 2, 2), "E | 0-0 | 1-1 | L") << "stages without a block";
  EXPECT_THROW(map("Ettt|ttL", 6, 2), ConfigError);
}

// Megatron's rule: chunk v of stage p starts at v · L / V + p · L / (P · V).
TEST(LayerMap, EvenChunksFollowTheFormula) {
  for (const int pp : {2, 4}) {
    for (const int v : {1, 2, 3}) {
      const int64_t layers = int64_t{pp} * v * 5;
      const auto map = layer_map(LayerMapSettings{layers, pp, v});
      for (int p = 0; p < pp; ++p) {
        const auto chunks = chunks_of_stage(map, {pp}, p);
        ASSERT_EQ(chunks.size(), size_t(v));
        for (int c = 0; c < v; ++c)
          EXPECT_EQ(chunks[size_t(c)].first_block, c * layers / v + p * layers / (pp * v));
      }
    }
  }
}

}  // namespace
}  // namespace viaduct
