// Vision towers with stages of their own in front of the decoder's: the reference's logits, loss
// and gradients, over tensor ranks, data ranks of which one has no image, context ranks that share
// the images, fewer and more tensor ranks of the tower, stages of the tower among which its blocks
// are cut, and micro-batches without an image; frozen parts have the same gradients as on one rank.

#include <gtest/gtest.h>

#include "base/output_file.h"
#include "support/golden.h"
#include "support/layout_run.h"
#include "support/moving_run.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::layout;
using test::LayoutCase;
using test::ModelLayout;
using test::operator+;

const std::string kRows = "train.micro_batch_size=1",
                  kFirst = "model.num_layers_in_first_pipeline_stage=1",
                  kStrategy = "ddp.data_parallel_sharding_strategy=";

/// `tower` stages of the tower in front of `pp` of the decoder.
LayoutCase stages(int tower, int tp, int cp, int pp, int dp, std::vector<std::string> more = {},
                  const std::string& suffix = "") {
  more.insert(more.begin(),
              {"dist.ranks=" + std::to_string(tp * cp * dp * (tower + pp)),
               "model.encoder_pipeline_model_parallel_size=" + std::to_string(tower)});
  if (pp > 1) more.push_back(kFirst);
  const std::string own = "tower" + std::to_string(tower);
  return layout(tp, cp, pp, dp, more, suffix.empty() ? own : own + "_" + suffix);
}

/// One stage of the tower, of `etp` tensor ranks, in front of `pp` of the decoder.
LayoutCase split(int etp, int tp, int cp, int pp, int dp, std::vector<std::string> more = {},
                 const std::string& suffix = "") {
  LayoutCase c = stages(1, tp, cp, pp, dp, std::move(more), suffix);
  c.name += "_etp" + std::to_string(etp);
  for (const std::string& own : {"model.encoder_tensor_model_parallel_size=" + std::to_string(etp),
                                 "dist.ranks=" + std::to_string(cp * dp * (etp + tp * pp))})
    c.overrides.push_back(own);
  return c;
}

std::vector<LayoutCase> layouts() {
  const std::vector<std::string> again{kRows, "model.recompute_granularity=full",
                                       "model.recompute_method=uniform",
                                       "model.recompute_num_layers=1"};
  LayoutCase thirds = stages(3, 1, 1, 1, 1, {kRows}, "rows");
  thirds.only = {"llava_siglip"};
  std::vector<LayoutCase> all{
      stages(1, 1, 1, 1, 1),
      stages(1, 1, 1, 1, 1, {kRows}, "rows"),
      stages(1, 1, 1, 1, 3, {kStrategy + "optim_grads"}, "gradients"),
      stages(1, 1, 1, 2, 3, {kStrategy + "optim_grads_params"}, "full"),
      stages(1, 2, 1, 1, 1, {kRows, "model.sequence_parallel=true"}, "sequence"),
      stages(1, 2, 1, 2, 1, {kRows, "model.sequence_parallel=false"}, "whole_stream"),
      stages(1, 1, 1, 2, 1, {kRows, "model.pipeline_schedule=zero_bubble"}, "zero_bubble"),
      stages(1, 1, 1, 2, 1, {kRows, "model.variable_seq_lengths=true"}, "shapes"),
      stages(1, 1, 1, 1, 1, again, "recompute"),
      thirds};
  LayoutCase halves = stages(2, 1, 1, 1, 1, {kRows}, "rows"),
             wide = stages(2, 2, 1, 1, 1, again, "recompute");
  halves.only = wide.only = {"gemma3_images", "llava_clip"};  // of two blocks that are read
  LayoutCase context = stages(1, 1, 2, 1, 1, {kRows}, "rows");
  context.only = {"llava_clip", "llava_siglip"};
  LayoutCase ahead = stages(1, 1, 2, 2, 1, {kRows, "model.cp_comm_type=a2a"}, "ahead");
  ahead.only = {"gemma3_images"};
  for (const LayoutCase& one : {halves, wide, context, ahead}) all.push_back(one);
  // Chunks of the decoder behind them; the first one has no blocks.
  const auto chunks = [](int tower, int tp, const std::string& blocks,
                         std::vector<std::string> more, const std::string& suffix) {
    more.insert(more.begin(), {kRows, "model.pipeline_model_parallel_layout=E" + blocks,
                               "model.microbatch_group_size_per_vp_stage=3"});
    LayoutCase c = stages(tower, tp, 1, 2, 1, more, "chunks_" + suffix);
    std::erase(c.overrides, kFirst);
    return c;
  };
  for (LayoutCase one :
       {chunks(1, 1, "|t|t|L", {}, "rows"),
        chunks(2, 2, "|t|t|L", {"model.sequence_parallel=true"}, "sequence"),
        chunks(1, 1, "|t|t|L", again, "recompute"),
        chunks(1, 2, "|t|t|L", {"model.encoder_tensor_model_parallel_size=1", "dist.ranks=5"},
               "etp1")}) {
    one.only = {"llava_clip"};
    all.push_back(std::move(one));
  }
  LayoutCase three = chunks(1, 1, "|t|tt|L", {}, "rows");
  three.only = {"gemma3_images"};
  all.push_back(three);
  // Other tensor ranks than the decoder's.
  LayoutCase two = stages(2, 1, 1, 1, 1, {kRows}, "etp2");
  for (const char* own : {"model.encoder_tensor_model_parallel_size=2", "dist.ranks=5"})
    two.overrides.emplace_back(own);
  for (LayoutCase one : {two, split(2, 4, 1, 1, 1, {kRows}), split(1, 2, 2, 1, 1, {kRows}),
                         split(1, 4, 1, 1, 1, {kRows, "model.sequence_parallel=true"})}) {
    one.only = {"llava_clip"};
    all.push_back(std::move(one));
  }
  for (const LayoutCase& one :
       {split(1, 2, 1, 1, 1), split(1, 2, 1, 2, 1, {kRows, "model.sequence_parallel=true"}, "rows"),
        split(2, 1, 1, 1, 1, {kRows}),
        split(2, 1, 1, 2, 3, {kStrategy + "optim_grads_params"}, "full"),
        split(1, 2, 1, 1, 3, {kStrategy + "optim_grads_params"}, "full"),
        split(1, 2, 1, 1, 1, again, "recompute")})
    all.push_back(one);
  return all;
}

class TowerStagesLayout : public testing::TestWithParam<ModelLayout> {};

TEST_P(TowerStagesLayout, GivesTheReferencesGradients) {
  EXPECT_GT(test::expect_reference(GetParam(), 2e-5), 40);
}

INSTANTIATE_TEST_SUITE_P(Cases, TowerStagesLayout,
                         testing::ValuesIn(test::models_in_layouts(
                             {"gemma3_images", "llava_clip", "llava_siglip"}, layouts())),
                         [](const auto& info) { return info.param.name(); });

/// Every tensor that the probe of a layout dumps is that of one rank with the same micro-batches.
void expect_one_rank(const std::string& model, std::vector<std::string> settings,
                     const LayoutCase& layout) {
  const auto folder = test::test_data("golden") / model, batch = folder / "golden.safetensors";
  settings.push_back(kRows);
  const auto one = test::probe_layout(folder / "model", batch, false, settings);
  settings.insert(settings.end(), layout.overrides.begin(), layout.overrides.end());
  const auto got = test::probe_layout(folder / "model", batch, false, settings);
  ASSERT_EQ(got.size(), one.size());
  for (const auto& [name, tensor] : one) {
    const Tensor& here = got.at(name);
    if (name.ends_with("k_proj.bias")) continue;  // its gradient is zero but for rounding
    EXPECT_LE(test::relative_error(here, tensor), 2e-5) << name;
  }
}

TEST(TowerStages, FrozenPartsHaveTheGradientsOfOneRank) {
  const std::string tower = "model.freeze_vision_model=true",
                    projector = "model.freeze_vision_projection=true",
                    text = "model.freeze_language_model=true";
  for (const auto& frozen : std::vector<std::vector<std::string>>{
           {tower}, {projector}, {tower, projector}, {text}, {text, tower}, {text, projector}}) {
    SCOPED_TRACE(frozen.front() + " and " + frozen.back());
    expect_one_rank("llava_clip", frozen, stages(1, 1, 1, 2, 1, {kRows}));
    expect_one_rank("llava_clip", frozen, stages(2, 1, 1, 1, 1, {kRows}));
    expect_one_rank("llava_clip", frozen, split(1, 2, 1, 1, 1, {kRows}));
    expect_one_rank("llava_clip", frozen, split(2, 1, 1, 1, 1, {kRows}));
  }
  expect_one_rank("llava_siglip", {tower}, stages(3, 1, 1, 1, 1, {kRows}));
  expect_one_rank("llava_siglip", {tower, projector}, stages(3, 1, 1, 1, 1, {kRows}));
  expect_one_rank("gemma3_images", {tower}, stages(2, 2, 1, 1, 1, {kRows}));
}

/// Weights, masters and moments have the same bits, and the next steps are those of one rank.
TEST(TowerStages, ARunGoesOnInAnotherLayout) {
  LayoutCase chunks = stages(2, 1, 1, 2, 1, {"model.pipeline_model_parallel_layout=E|t|t|L"});
  std::erase(chunks.overrides, kFirst);
  chunks.name += "_chunks";
  test::expect_goes_on(test::three_steps("llava_clip"),
                       {{stages(2, 1, 1, 1, 1), layout(2, 1, 1, 1)},
                        {layout(1, 1, 1, 2), stages(1, 1, 1, 2, 1)},
                        {chunks, layout(1, 1, 1, 2)},
                        {layout(1, 1, 1, 2), chunks},
                        {split(2, 1, 1, 1, 1), split(1, 2, 1, 1, 1)}},
                       100);
}

/// LLaVA with a tower of three blocks, of which two are read, in front of four of Mixtral.
std::string folder_with_experts(const std::filesystem::path& folder) {
  write_file_atomically(folder / "config.json",
                        R"({"model_type": "llava", "image_token_index": 9,
      "text_config": {"model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 64,
        "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_local_experts": 4, "num_experts_per_tok": 2, "vocab_size": 128,
        "max_position_embeddings": 64},
      "vision_config": {"model_type": "clip_vision_model", "hidden_size": 32,
        "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
        "image_size": 16, "patch_size": 8}})");
  return "model.hf_config=" + folder.string();
}

// The decoder's ranks share them.
TEST(TowerStages, ExpertsBehindThemAreThoseOfOneRank) {
  const test::TemporaryFolder folder;
  const auto experts = [](LayoutCase c, int ep, const char* own) {
    c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
    c.overrides.push_back(std::string("model.expert_tensor_parallel_size=") + own);
    std::erase(c.overrides, kFirst);
    return c;
  };
  test::expect_goes_on(
      {folder_with_experts(folder.path()), "model.seq_length=32", "mixed_precision=fp32",
       "dataset.mock=true", "train.train_iters=3", "train.global_batch_size=4",
       "train.micro_batch_size=1", "optimizer.lr=1e-2", "scheduler.lr_warmup_iters=0",
       "validation.eval_iters=0", "logger.log_interval=1"},
      {{experts(stages(1, 1, 1, 2, 2), 2, "1"), layout(1, 1, 1, 1)},
       {layout(1, 1, 1, 1), experts(split(1, 2, 1, 1, 1), 2, "1")},
       {experts(split(2, 1, 1, 1, 2), 2, "1"), experts(stages(2, 2, 1, 1, 1), 1, "2")}},
      50);
}

}  // namespace
}  // namespace viaduct
