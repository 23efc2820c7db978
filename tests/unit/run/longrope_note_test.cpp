// What a run says of LongRoPE's lists, where its rows are longer than the original length.

#include "run/longrope_note.h"

#include <gmock/gmock.h>

#include "run/inference_setup.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kModel = test::test_data("golden/longrope/model").string();

std::vector<std::string> noted(RopeScalingKind scaling, int64_t positions) {
  std::vector<std::string> notes;
  note_longrope({.scaling = scaling, .original_max_positions = 64}, "rows of", positions, notes);
  return notes;
}

TEST(LongRopeNote, IsOfRowsThatAreLonger) {
  EXPECT_THAT(
      noted(RopeScalingKind::longrope, 80),
      ElementsAre("rope_scaling longrope: rows of 80 tokens are longer than "
                  "original_max_position_embeddings = 64, so every text uses long_factor, shorter "
                  "ones too; transformers uses short_factor where no text of a batch is longer"));
  EXPECT_THAT(noted(RopeScalingKind::longrope, 64), IsEmpty());
  EXPECT_THAT(noted(RopeScalingKind::yarn, 80), IsEmpty());
}

TEST(LongRopeNote, IsSaidBeforeTrainingAndEvaluation) {
  const auto trained = [](const std::string& length) {
    return prepare_run(load_run_config({}, {"checkpoint.pretrained_checkpoint=" + kModel,
                                            "dataset.mock=true", "model.seq_length=" + length}))
        .notes;
  };
  EXPECT_THAT(trained("32"), Contains(HasSubstr("longrope: rows of 32 tokens")));
  EXPECT_THAT(trained("16"), Not(Contains(HasSubstr("longrope"))));
  const auto evaluated = [](std::optional<int64_t> length, bool few_tokens) {
    return prepare_inference({.model = kModel,
                              .overrides = {"dist.threads_per_rank=1"},
                              .sequence_length = length,
                              .few_tokens = few_tokens})
        .notes;
  };
  EXPECT_THAT(evaluated({}, false), Contains(HasSubstr("longrope: rows of 64 tokens")));
  EXPECT_THAT(evaluated(16, false), Not(Contains(HasSubstr("longrope"))));
  // Generation says it of its texts, when it knows them.
  EXPECT_THAT(evaluated({}, true), Not(Contains(HasSubstr("longrope"))));
}

}  // namespace
}  // namespace viaduct
