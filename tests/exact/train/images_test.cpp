// Training of a model with images: a resumed run has the bits of one that was not stopped, with a
// frozen tower too, whose weights checkpoints have; what does not train stays as the folder has it;
// and planned memory is enough. The same for data with pictures, which decide what is learned.

#include <gtest/gtest.h>

#include "checkpoint/convert.h"
#include "checkpoint/safetensors_reader.h"
#include "support/paths.h"
#include "support/picture_conversations.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::Overrides;
using test::operator+;
using test::train_run;

std::filesystem::path golden(const std::string& name) {
  return test::test_data("golden") / name / "model";
}

Overrides run_of(const std::string& name) {
  return {"checkpoint.pretrained_checkpoint=" + golden(name).string(),
          "model.seq_length=16",
          "mixed_precision=fp32",
          "dataset.mock=true",
          "train.train_iters=4",
          "train.global_batch_size=2",
          "train.micro_batch_size=1",
          "optimizer.lr=1e-2",
          "scheduler.lr_warmup_iters=0",
          "validation.eval_iters=0"};
}

class ImagesTraining : public testing::TestWithParam<Overrides> {};

TEST_P(ImagesTraining, AResumedRunHasTheSameBits) {
  const test::TemporaryFolder folder;
  const Overrides run = run_of("llava_clip") + GetParam();
  const test::RunOutcome expected = train_run(run);
  const std::string save = "checkpoint.save=" + (folder / "run").string();
  train_run(run + Overrides{"train.exit_interval=2", save});
  const test::RunOutcome resumed =
      train_run(run + Overrides{save, "checkpoint.load=" + (folder / "run").string()});
  EXPECT_EQ(resumed.tensors, expected.tensors);
}

INSTANTIATE_TEST_SUITE_P(Parts, ImagesTraining,
                         testing::Values(Overrides{}, Overrides{"model.freeze_vision_model=true"},
                                         Overrides{"model.freeze_vision_model=true",
                                                   "model.freeze_language_model=true"}));

TEST(PicturesTraining, LearnsFromWhatIsInThePictures) {
  const test::PictureConversations data, other("palette.png");
  const Overrides run = data.run() + Overrides{"train.micro_batch_size=1"};
  const test::RunOutcome expected = train_run(run);
  const std::string save = "checkpoint.save=" + (data.folder() / "run").string();
  train_run(run + Overrides{"train.exit_interval=1", save});
  const test::RunOutcome resumed =
      train_run(run + Overrides{save, "checkpoint.load=" + (data.folder() / "run").string()});
  EXPECT_EQ(resumed.tensors, expected.tensors);
  EXPECT_NE(train_run(other.run() + Overrides{"train.micro_batch_size=1"}).tensors,
            expected.tensors);
}

/// Under the names of the folder, whatever trained.
TEST(ImagesExport, WhatDoesNotTrainStaysAsItWas) {
  const test::TemporaryFolder folder;
  train_run(run_of("llava_siglip") + Overrides{"model.freeze_vision_model=true",
                                               "checkpoint.save=" + (folder / "run").string()});
  convert_model({.from = folder / "run", .to = folder / "model"});
  const SafetensorsFolder before(golden("llava_siglip")), after(folder / "model");
  EXPECT_EQ(before.tensors().size(), after.tensors().size());
  int changed = 0;
  for (const TensorInfo& info : before.tensors()) {
    ASSERT_TRUE(after.contains(info.name)) << info.name;
    const bool same = bytes_of(before.tensor(info.name)) == bytes_of(after.tensor(info.name));
    EXPECT_EQ(same, info.name.starts_with("vision_tower.")) << info.name;
    changed += same ? 0 : 1;
  }
  EXPECT_GT(changed, 10);
}

}  // namespace
}  // namespace viaduct
