// `viaduct eval --data` of conversations with pictures: the model reads them, in any rows and
// layout, with the loss of a run's validation.

#include <gtest/gtest.h>

#include <cmath>

#include "inference/text_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/picture_conversations.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;
using test::PictureConversations;

double loss_of(const PictureConversations& data, const Overrides& more = {}) {
  const TextEvaluation evaluation = prepare_text_evaluation(
      {.inference = {.model = data.model(),
                     .overrides = Overrides{"dist.threads_per_rank=1",
                                            "dist.distributed_timeout_minutes=1"} +
                                  more,
                     .sequence_length = 64},
       .data = data.prefix()});
  double loss = 0;
  run_ranks(evaluation.run.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
    const bool leads = world->rank() == 0;
    const RankDevice rank = make_rank_device(evaluation.run.config.dist);
    const TextScore score = evaluate_text(evaluation, *rank.device, rank.ops, std::move(world),
                                          [](int64_t, int64_t) {});
    EXPECT_EQ(score.tokens, 5 * 4);
    if (leads) loss = score.loss;
  });
  return loss;
}

TEST(PictureEvaluation, IsThatOfARun) {
  const PictureConversations data;
  const auto run = test::train_run(
      {"train.skip_train=true", "checkpoint.save=" + (data.folder() / "run").string(),
       "checkpoint.pretrained_checkpoint=" + data.model().string(),
       "dataset.blend_per_split=[null,[" + data.prefix() + "],null]", "model.seq_length=64",
       "train.global_batch_size=4", "train.micro_batch_size=2", "validation.full_validation=true",
       "mixed_precision=fp32", "dist.threads_per_rank=1"});
  ASSERT_EQ(run.validations.size(), 1u);
  const double loss = run.validations[0].second;
  ASSERT_GT(loss, 0);
  const Overrides kRows[] = {
      {},  // packed
      {"dataset.packed_sequence_size=null"},
      {"dist.ranks=2", "dataset.packed_sequence_size=null", "train.micro_batch_size=1"},
      {"dist.ranks=2", "model.tensor_model_parallel_size=2"}};
  for (const Overrides& rows : kRows) {
    SCOPED_TRACE(rows.empty() ? "packed" : rows.back());
    EXPECT_NEAR(loss_of(data, rows), loss, 1e-6 * loss);
  }
}

TEST(PictureEvaluation, DependsOnWhatIsInThePictures) {
  const PictureConversations data, other("palette.png");
  const double loss = loss_of(data);
  EXPECT_GT(std::abs(loss_of(other) - loss), 1e-5 * loss);
}

}  // namespace
}  // namespace viaduct
