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

}  // namespace
}  // namespace viaduct
