// Plans of models with images: a dry run has the memory of the run on mock data, whose rows have an
// image each; the first stage has the tower, in memory and in time.

#include <gtest/gtest.h>

#include "model/flops.h"
#include "plan/predict.h"
#include "run/rank_device.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

Overrides images(const std::string& model) {
  return {"model.hf_config=" + (test_data("golden") / model / "model").string(),
          "model.seq_length=24",
          "mixed_precision=fp32",
          "dataset.mock=true",
          "train.train_iters=3",
          "train.global_batch_size=8",
          "train.micro_batch_size=2",
          "validation.eval_iters=0"};
}

class ImagesPlan : public testing::TestWithParam<Overrides> {};

TEST_P(ImagesPlan, ADryRunHasTheMemoryOfTheRun) {
  const RunSetup setup = setup_of(GetParam());
  const DryRun predicted = dry_run(setup);
  const RankDevice rank = make_rank_device(setup.config.dist);
  StepRecord second;
  int steps = 0;
  TrainerHooks hooks{.peak_effort = PeakEffort::glance};
  hooks.stop_requested = [&] {  // called once before the first step, then after each
    rank.device->set_record(++steps == 2 ? &second : nullptr);
    return false;
  };
  Trainer trainer(setup, *rank.device, rank.ops, hooks);
  trainer.run();
  EXPECT_EQ(predicted.peak.bytes, rank.device->memory().peak_bytes);
  EXPECT_EQ(predicted.cost.total_flops(), second.total_cost().total_flops());
}

INSTANTIATE_TEST_SUITE_P(
    Models, ImagesPlan,
    testing::Values(images("llava_clip"), images("llava_siglip"), images("gemma3_images"),
                    images("llava_clip") + Overrides{"model.freeze_vision_model=true"},
                    images("llava_clip") + Overrides{"model.freeze_language_model=true"},
                    images("gemma3_images") + Overrides{"model.recompute_granularity=full",
                                                        "model.recompute_method=uniform",
                                                        "model.recompute_num_layers=1"},
                    // Rows without room for an image.
                    images("llava_clip") + Overrides{"model.seq_length=3"}));

std::vector<StagePrediction> stages_of(const Overrides& more) {
  const RunSetup setup =
      setup_of(images("llava_siglip") +
               Overrides{"dist.ranks=2", "model.pipeline_model_parallel_size=2"} + more);
  return predict(setup, load_cluster("cpu")).stages;
}

TEST(ImagesPlan, TheFirstStageHasTheTower) {
  const auto with = stages_of({}), text = stages_of({"model.read_images=false"});
  const auto held = [](const StagePrediction& stage, const char* owner) {
    return stage.run.peak.bytes_by_tag.at(owner);
  };
  // Tower and projector: weights, and activations of pixels to features.
  EXPECT_GT(held(with[0], "weights"), held(text[0], "weights"));
  EXPECT_GT(held(with[0], "batch"), held(text[0], "batch"));
  EXPECT_EQ(held(with[1], "weights"), held(text[1], "weights"));
  EXPECT_GT(with[0].time.compute, 1.2 * text[0].time.compute);
  EXPECT_LT(with[1].time.compute, 1.2 * text[1].time.compute);
  // The step's operations are those of the text, and of an image for each row.
  const RunSetup setup = setup_of(images("llava_siglip"));
  EXPECT_DOUBLE_EQ(with[0].run.model_flops - text[0].run.model_flops, 8 * image_flops(setup.model));
}

/// Bytes of the messages of a rank in a step.
int64_t message_bytes(const DryRun& run) {
  int64_t bytes = 0;
  for (const GroupTraffic& one : run.traffic)
    if (one.operation == Collective::send || one.operation == Collective::receive)
      bytes += one.bytes;
  return bytes;
}

/// Features of its images one way, and where something in front of them trains their gradients.
TEST(ImagesPlan, ATowersStageSendsTheFeatures) {
  const auto tower = [](const Overrides& more) {
    return dry_run(
        setup_of(images("llava_clip") +
                 Overrides{"dist.ranks=2", "model.encoder_pipeline_model_parallel_size=1"} + more));
  };
  const Overrides frozen{"model.freeze_vision_model=true"},
      nothing = frozen + Overrides{"model.freeze_vision_projection=true"};
  const ModelConfig model = setup_of(images("llava_clip")).model;
  const int64_t once = 8 * model.vision.rows() * model.hidden * 4;
  EXPECT_EQ(message_bytes(tower({})), 2 * once);
  EXPECT_EQ(message_bytes(tower(frozen)), 2 * once);
  EXPECT_EQ(message_bytes(tower(nothing)), once);
  EXPECT_EQ(tower(nothing).trained_parameters, 0);
  // A frozen tower keeps nothing: with as many micro-batches in flight as before.
  EXPECT_LT(tower(frozen).peak.bytes_by_tag["saved activations"],
            tower({}).peak.bytes_by_tag["saved activations"]);
  // Rows without room for an image.
  EXPECT_EQ(message_bytes(tower({"model.seq_length=3"})), 0);
  // To two tensor ranks each a half, and of two from each.
  const std::string tensor = "model.tensor_model_parallel_size=2", ranks = "dist.ranks=3",
                    own = "model.encoder_tensor_model_parallel_size=";
  EXPECT_EQ(message_bytes(tower({tensor, ranks, own + "1"})), 2 * once);
  EXPECT_EQ(message_bytes(tower({ranks, own + "2"})), once);
}

TEST(ImagesPlan, ATowerWithAStageOfItsOwnLeavesTheDecodersAsTheyAre) {
  const Overrides own{"dist.ranks=3", "model.encoder_pipeline_model_parallel_size=1"};
  const auto with = stages_of(own), text = stages_of({"model.read_images=false"});
  ASSERT_EQ(with.size(), 3u);
  const auto held = [](const StagePrediction& stage, const char* owner) {
    return stage.run.peak.bytes_by_tag.at(owner);
  };
  EXPECT_EQ(held(with[1], "weights"), held(text[0], "weights"));
  EXPECT_EQ(held(with[2], "weights"), held(text[1], "weights"));
  EXPECT_EQ(model_parameters(dry_run_stages(setup_of(images("llava_siglip")))),
            with[0].run.parameters + model_parameters({text[0].run, text[1].run}));
}

}  // namespace
}  // namespace viaduct
