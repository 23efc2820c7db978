// Runs of models with images: what is read of the folder, what is not implemented is refused by
// name, and settings that change nothing say so.

#include "run/vision_support.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "comm/group_kinds.h"
#include "run/resolved_run.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;
using test::setup_of;
using test::tiny_run;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;
using testing::ThrowsMessage;

Overrides llava() {
  const auto folder = test::test_data("golden") / "llava_clip" / "model";
  return {"checkpoint.pretrained_checkpoint=" + folder.string(),
          "model.seq_length=16",
          "mixed_precision=fp32",
          "dataset.mock=true",
          "train.train_iters=2",
          "train.global_batch_size=2",
          "train.micro_batch_size=1",
          "validation.eval_iters=0"};
}

std::string refusal(const Overrides& overrides) {
  try {
    setup_of(llava() + overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(VisionSupport, AFolderIsReadWithItsImages) {
  const RunSetup setup = setup_of(llava());
  EXPECT_TRUE(setup.model.vision.any());
  ASSERT_TRUE(setup.config.dataset.images);
  EXPECT_EQ(setup.config.dataset.images->rows, 4);
  EXPECT_EQ(setup.config.dataset.images->side, 12);
  EXPECT_THAT(setup.hf_config, HasSubstr("vision_config"));
}

TEST(VisionSupport, OrAsItsTextModel) {
  const RunSetup setup = setup_of(llava() + Overrides{"model.read_images=false"});
  EXPECT_FALSE(setup.model.vision.any());
  EXPECT_FALSE(setup.config.dataset.images);
  EXPECT_THAT(setup.notes, Contains(HasSubstr("are left out")));
  EXPECT_THAT(setup.hf_config, Not(HasSubstr("vision_config")));
}

TEST(VisionSupport, WhatIsNotImplementedIsRefusedByName) {
  for (const auto& [overrides, field] : std::vector<std::pair<Overrides, std::string>>{
           {{"mixed_precision=bf16_with_fp8_current_scaling_mixed"}, "mixed_precision.recipe"},
           {{"optimizer.optimizer=adafactor"}, "optimizer.optimizer: adafactor"},
           {{"dataset.packed_sequence_size=16", "dataset.packing_split=true"},
            "dataset.packing_split: true"}}) {
    EXPECT_THAT(refusal(overrides),
                AllOf(HasSubstr(field), HasSubstr("for a model that reads images")));
  }
  // Ahead of sizes that such products need.
  const std::string formats = refusal({"mixed_precision=bf16_with_mxfp8_mixed",
                                       "model.tensor_model_parallel_size=2", "dist.ranks=2"});
  const size_t named = formats.find("for a model that reads images"),
               sized = formats.find("nearest: ");
  EXPECT_NE(named, std::string::npos) << formats;
  EXPECT_LT(named, sized) << formats;
  EXPECT_THAT(refusal({"model.freeze_language_model=true", "model.freeze_vision_model=true",
                       "model.freeze_vision_projection=true"}),
              HasSubstr("nothing trains"));
  EXPECT_EQ(refusal({"optimizer.optimizer=adafactor", "model.freeze_vision_model=true"}),
            "no error");
}

/// Two blocks of the tower are read.
TEST(VisionSupport, ATowerMayHaveStagesOfItsOwn) {
  const auto own = [](int stages, int ranks) {
    return refusal({"dist.ranks=" + std::to_string(ranks),
                    "model.encoder_pipeline_model_parallel_size=" + std::to_string(stages)});
  };
  EXPECT_EQ(own(1, 2), "no error");
  EXPECT_EQ(own(2, 3), "no error");
  EXPECT_THAT(
      own(3, 4),
      HasSubstr("model.encoder_pipeline_model_parallel_size: 3 does not divide the 2 blocks "
                "of the vision tower that are read; nearest: 2"));
  EXPECT_THAT(own(1, 3), HasSubstr("dist.ranks: 3 is not divisible by"));
  const auto tensor = [](int etp, int tp, const Overrides& more) {
    return refusal(Overrides{"dist.ranks=" + std::to_string(etp + tp),
                             "model.encoder_pipeline_model_parallel_size=1",
                             "model.tensor_model_parallel_size=" + std::to_string(tp),
                             "model.encoder_tensor_model_parallel_size=" + std::to_string(etp)} +
                   more);
  };
  EXPECT_EQ(tensor(2, 1, {}), "no error");
  EXPECT_EQ(tensor(1, 4, {}), "no error");
  EXPECT_THAT(tensor(3, 2, {}), HasSubstr("model.encoder_tensor_model_parallel_size: 3: neither it "
                                          "nor tensor_model_parallel_size = 2 divides the other"));
  EXPECT_THAT(
      tensor(4, 1, {}),
      HasSubstr("model.encoder_tensor_model_parallel_size: 4 does not divide the 2 attention "
                "heads of the vision tower; nearest: 2"));
  EXPECT_THAT(tensor(1, 2, {"model.variable_seq_lengths=true"}),
              HasSubstr("model.variable_seq_lengths: true is not implemented with"));
  EXPECT_THAT(refusal({"dist.ranks=2", "model.read_images=false",
                       "model.encoder_pipeline_model_parallel_size=1"}),
              HasSubstr("model.read_images = false leaves the vision tower out"));
}

TEST(VisionSupport, StagesOfATower) {
  const RunSetup setup = setup_of(
      llava() + Overrides{"checkpoint.pretrained_checkpoint=" +
                              (test::test_data("golden") / "llava_siglip" / "model").string(),
                          "dist.ranks=10", "model.tensor_model_parallel_size=2",
                          "model.encoder_pipeline_model_parallel_size=3",
                          "model.pipeline_model_parallel_size=2"});
  const Parallelism p = resolve_run(setup.config, setup.model).parallelism;
  std::string text;
  for (const ChunkLayers& chunk : p.layer_map) {
    const EncoderChunk& tower = chunk.encoder;
    EXPECT_EQ(tower.any(), tower.of_images);
    text += (text.empty() ? "" : " | ") + std::string(tower.embedding ? "p" : "") +
            std::string(static_cast<size_t>(tower.blocks), '.') + (tower.norm ? "f" : "") +
            (chunk.embedding ? "E" : "") + std::string(static_cast<size_t>(chunk.blocks), '-') +
            (chunk.head ? "L" : "");
  }
  EXPECT_EQ(text, "p. | . | .f | E- | -L");
  // The token table, of which the head is one, is on the first and the last stage of the text
  // model.
  const auto groups = all_groups(p.mesh, GroupKind::embedding);
  const auto pair = [](int a, int b) { return std::vector{GlobalRank{a}, GlobalRank{b}}; };
  EXPECT_THAT(groups, IsSupersetOf({pair(6, 8), pair(7, 9)}));
  EXPECT_EQ(groups.size(), 8u);
}

TEST(VisionSupport, PartsWithoutAdaptersHaveNoGradients) {
  const auto vision = [](const std::string& targets) {
    return setup_of(llava() + Overrides{"peft.scheme=lora", "peft.dim=2",
                                        "peft.target_modules=[" + targets + "]"})
        .model.vision;
  };
  for (const auto& [targets, tower, projector] :
       {std::tuple("all-linear", true, true), std::tuple("q_proj,down_proj", true, true),
        std::tuple("all-linear,vision_tower", false, true), std::tuple("linear_2", true, false),
        std::tuple("fc1,multi_modal_projector", false, false)}) {
    EXPECT_EQ(vision(targets).freeze_tower, tower) << targets;
    EXPECT_EQ(vision(targets).freeze_projector, projector) << targets;
  }
  EXPECT_THAT(refusal({"peft.scheme=lora", "peft.dim=2", "model.freeze_vision_projection=true"}),
              HasSubstr("model.freeze_vision_projection: true, beside adapters"));
  EXPECT_EQ(refusal({"peft.scheme=lora", "peft.dim=2", "peft.target_modules=[vision_tower]",
                     "optimizer.optimizer=adafactor"}),
            "no error");
  EXPECT_THAT(refusal({"peft.scheme=lora", "peft.dim=2", "peft.base_format=fp8"}),
              HasSubstr("peft.base_format: fp8 is not implemented for a model that reads images"));
}

TEST(VisionSupport, DryRunsCountTheImagesOfRows) {
  RunSetup setup = setup_of(llava());
  EXPECT_EQ(images_of_row(setup), 1);
  EXPECT_EQ(images_text(setup), "1 of 4 tokens in each row");
  setup.conversations.emplace().images = 3;
  EXPECT_EQ(images_of_row(setup), 3);
  setup.conversations->images = 9;  // there is no room for more
  EXPECT_EQ(images_text(setup), "4 of 4 tokens in each row");
  setup.conversations->images = 0;
  EXPECT_EQ(images_text(setup), "none in the rows");
  setup.conversations.reset();
  setup.config.model.seq_length = 3;
  EXPECT_EQ(images_text(setup), "none: rows of 3 tokens have no room for one of 4");
  setup.config.cuda_target = CudaTarget{};
  EXPECT_THAT(images_text(setup), HasSubstr("dist.device"));
  const RunSetup text = setup_of(tiny_run());
  EXPECT_EQ(images_of_row(text), 0);
  EXPECT_EQ(images_text(text), "");
}

TEST(VisionSupport, ImagesThatSeeAheadNeedAllTokensOfAHead) {
  const auto folder = test::test_data("golden") / "gemma3_images" / "model";
  const Overrides gemma{"checkpoint.pretrained_checkpoint=" + folder.string(), "dist.ranks=2",
                        "model.context_parallel_size=2"};
  EXPECT_THAT(refusal(gemma + Overrides{"model.cp_comm_type=all_gather"}),
              AllOf(HasSubstr("model.cp_comm_type: all_gather"), HasSubstr("expected a2a")));
  EXPECT_EQ(refusal(gemma + Overrides{"model.cp_comm_type=a2a"}), "no error");
}

TEST(VisionSupport, TensorRanksDivideTheTower) {
  RunSetup setup = setup_of(llava());
  setup.model.vision.heads = 3;
  setup.config.parallel.tensor_model_parallel_size = 2;
  Problems problems;
  validate_vision(setup.config, setup.model, problems);
  EXPECT_THAT([&] { problems.throw_if_any(); },
              ThrowsMessage<ConfigError>(HasSubstr(
                  "2 does not divide the 3 attention heads of the vision tower; nearest: 1")));
}

TEST(VisionSupport, SequenceParallelFollowsTheTensorRanks) {
  const RunSetup setup =
      setup_of(llava() + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2"});
  EXPECT_TRUE(setup.config.parallel.sequence_parallel.value());
}

TEST(VisionSupport, SettingsOfImagesSayThatAModelReadsNone) {
  for (const char* field :
       {"model.read_images=false", "model.freeze_vision_model=true",
        "model.freeze_language_model=true", "model.freeze_vision_projection=true"}) {
    const std::string name(field, std::string_view(field).find('='));
    EXPECT_THAT(setup_of(tiny_run() + Overrides{field}).notes, Contains(HasSubstr(name))) << name;
    EXPECT_THAT(setup_of(llava() + Overrides{field}).notes,
                Not(Contains(AllOf(HasSubstr(name), HasSubstr("no effect")))))
        << name;
  }
}

}  // namespace
}  // namespace viaduct
