#include "support/layout_samples.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/output_file.h"

namespace viaduct::test {
namespace {

constexpr BoundBasis kBases[] = {BoundBasis::model, BoundBasis::largest, BoundBasis::kept,
                                 BoundBasis::layer, BoundBasis::sharded};

}  // namespace

PlanRequest request_of(const Overrides& overrides, const std::string& cluster) {
  return {
      .overrides = Overrides{"model.family=llama", "model.num_layers=8", "model.hidden_size=2048",
                             "model.num_attention_heads=16", "model.ffn_hidden_size=8192",
                             "model.vocab_size=32000", "model.seq_length=2048",
                             "model.max_position_embeddings=2048", "mixed_precision=bf16_mixed",
                             "train.global_batch_size=16", "dist.ranks=8"} +
                   overrides,
      .cluster = load_cluster(cluster)};
}

std::vector<Sampled> sample(const PlanRequest& request, size_t every) {
  SearchSpace space(request);
  std::vector<Sampled> sampled;
  for (size_t i = 0; i < space.layouts().size(); i += every) {
    const Layout& layout = space.layouts()[i];
    try {
      sampled.push_back({layout, {}, predict(setup_of_layout(request, layout), request.cluster)});
    } catch (const ConfigError&) {
      continue;
    }
    for (const BoundBasis basis : kBases) {
      space.costs().of(space.needed(layout, basis));
      sampled.back().bounds.push_back(space.bound(layout, basis).value());
    }
  }
  return sampled;
}

double peak_of(const Prediction& prediction) {
  int64_t peak = 0;
  for (const StagePrediction& stage : prediction.stages)
    peak = std::max(peak, stage.run.peak.bytes);
  return static_cast<double>(peak);
}

void expect_bounds_below(const std::vector<Sampled>& sampled) {
  ASSERT_GT(sampled.size(), 10u);
  for (const Sampled& s : sampled) {
    SCOPED_TRACE(describe(s.layout));
    for (size_t basis = 0; basis < s.bounds.size(); ++basis) {
      EXPECT_LE(s.bounds[basis].bytes, peak_of(s.prediction)) << basis;
      EXPECT_LE(s.bounds[basis].seconds, s.prediction.step_seconds) << basis;
    }
  }
}

std::string folder_with_tower(const std::filesystem::path& folder, const TowerModel& model) {
  const std::string text = R"("num_hidden_layers": 8, "hidden_size": 2048, "head_dim": 128,
                              "intermediate_size": 8192, "num_attention_heads": 16,
                              "num_key_value_heads": 4)";
  const std::string vision =
      fmt::format(R"({{"model_type": "siglip_vision_model", "hidden_size": 1024,
                       "intermediate_size": 4096, "num_hidden_layers": {},
                       "num_attention_heads": 16, "image_size": 448, "patch_size": 14}})",
                  model.blocks);
  std::filesystem::create_directories(folder);
  write_file_atomically(
      folder / "config.json",
      fmt::format(R"({{"model_type": "{}", "image_token_index": 9, "mm_tokens_per_image": 256,
                       "text_config": {{"model_type": "{}", {}}}, "vision_config": {}}})",
                  model.gemma ? "gemma3" : "llava", model.gemma ? "gemma3_text" : "llama", text,
                  vision));
  return "model.hf_config=" + folder.string();
}

}  // namespace viaduct::test
