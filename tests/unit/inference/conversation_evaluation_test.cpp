// `viaduct eval --data` of conversations: the loss of their scored tokens is that of a run's
// validation.

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "inference/text_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/conversations.h"
#include "support/language_model.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::ThrowsMessage;

class ConversationEvaluations : public testing::Test {
 protected:
  ConversationEvaluations()
      : conversations(conversations_of(random_lengths(23, 4, 40), 250)),
        data(write_conversations(folder / "chat", conversations)) {}

  TextEvaluationRequest request(const Overrides& more = {},
                                std::optional<int64_t> length = 64) const {
    return {.inference = {.model = model.path(),
                          .overrides = Overrides{"dist.threads_per_rank=1",
                                                 "dist.distributed_timeout_minutes=1"} +
                                       more,
                          .sequence_length = length},
            .data = data};
  }

  static TextScore score_of(const TextEvaluationRequest& request) {
    const TextEvaluation evaluation = prepare_text_evaluation(request);
    TextScore score;
    run_ranks(evaluation.run.config.dist, {}, [&](std::shared_ptr<Communicator> world) {
      const bool leads = world->rank() == 0;
      const RankDevice rank = make_rank_device(evaluation.run.config.dist);
      const TextScore mine = evaluate_text(evaluation, *rank.device, rank.ops, std::move(world),
                                           [](int64_t, int64_t) {});
      if (leads) score = mine;
    });
    return score;
  }

  /// The validation loss of the conversations in a run that only evaluates.
  double validation_loss(const Overrides& more) const {
    const auto outcome = train_run(
        Overrides{"train.skip_train=true", "checkpoint.save=" + (folder / "run").string(),
                  "checkpoint.pretrained_checkpoint=" + model.path().string(),
                  "dataset.blend_per_split=[null,[" + data + "],null]", "train.global_batch_size=4",
                  "train.micro_batch_size=2", "validation.full_validation=true",
                  "mixed_precision=fp32", "dist.threads_per_rank=1"} +
        more);
    EXPECT_EQ(outcome.validations.size(), 1u);
    return outcome.validations.empty() ? 0 : outcome.validations[0].second;
  }

  LanguageModel model{"llama"};
  TemporaryFolder folder;
  std::vector<MaskedTokens> conversations;
  std::string data;
};

TEST_F(ConversationEvaluations, HaveTheValidationLossOfARun) {
  const double loss = validation_loss({"model.seq_length=64"});
  ASSERT_GT(loss, 0);
  EXPECT_NEAR(validation_loss({"dataset.packed_sequence_size=64"}), loss, 1e-6 * loss);
  int64_t tokens = 0, scored = 0;
  for (const MaskedTokens& one : conversations) {
    tokens += static_cast<int64_t>(one.tokens.size());
    scored += std::accumulate(one.mask.begin() + 1, one.mask.end(), int64_t{0});
  }
  const Overrides kRows[] = {{},  // packed
                             {"dataset.packed_sequence_size=null"},
                             {"dataset.packing_algorithm=sequential", "train.micro_batch_size=3"},
                             {"dist.ranks=2", "train.micro_batch_size=2"},
                             {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
                             {"dist.ranks=2", "model.context_parallel_size=2"},
                             {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}};
  for (const Overrides& rows : kRows) {
    SCOPED_TRACE(rows.empty() ? "packed" : rows.back());
    const TextScore score = score_of(request(rows));
    EXPECT_EQ(score.tokens, scored);
    EXPECT_NEAR(score.loss, loss, 1e-6 * loss);
    EXPECT_DOUBLE_EQ(score.perplexity, std::exp(score.loss));
  }
  const TextEvaluation prepared = prepare_text_evaluation(request());
  EXPECT_EQ(prepared.data.tokens, tokens);
  EXPECT_EQ(prepared.data.conversations, std::ssize(conversations));
  EXPECT_LT(prepared.data.rows->size(), std::ssize(conversations));
  EXPECT_EQ(prepare_text_evaluation(request(kRows[1])).data.rows->size(),
            std::ssize(conversations));
}

TEST_F(ConversationEvaluations, WithoutTheMaskAllButTheFirstTokenIsScored) {
  const Overrides everything{"dataset.answer_only_loss=false"};
  const TextScore score = score_of(request(everything));
  int64_t scored = 0;
  for (const MaskedTokens& one : conversations)
    scored += static_cast<int64_t>(one.tokens.size()) - 1;
  EXPECT_EQ(score.tokens, scored);
  const double loss = validation_loss(Overrides{"model.seq_length=64"} + everything);
  EXPECT_NEAR(score.loss, loss, 1e-6 * loss);
}

TEST_F(ConversationEvaluations, OnlyScoredTokensHaveBytes) {
  // Bytes are known by token, so those of two masks that split the tokens add up.
  std::vector<MaskedTokens> others = conversations;
  for (MaskedTokens& one : others) {
    for (int32_t& entry : one.mask) entry = 1 - entry;
  }
  TextEvaluationRequest of_others = request();
  of_others.data = write_conversations(folder / "others", others);
  const auto bytes = [](const TextScore& score) {
    return score.loss * static_cast<double>(score.tokens) / std::log(2) /
           score.bits_per_byte.value();
  };
  const double all = bytes(score_of(request({"dataset.answer_only_loss=false"})));
  EXPECT_NEAR(bytes(score_of(request())) + bytes(score_of(of_others)), all, 1e-3);
}

TEST_F(ConversationEvaluations, RowsHoldTheLongestUpToThePositions) {
  const auto row = [&](const TextEvaluationRequest& asked) {
    return prepare_text_evaluation(asked).data.rows->sequence_length();
  };
  EXPECT_EQ(row(request({}, std::nullopt)), 128) << "the positions of the model";
  EXPECT_EQ(row(request({"dataset.packed_sequence_size=48"}, std::nullopt)), 48);
  EXPECT_EQ(row(request({"model.seq_length=40"}, std::nullopt)), 40);
  EXPECT_EQ(row_that_holds(3000, 8192), 3072);
  EXPECT_EQ(row_that_holds(3000, 3050), 3050);
}

TEST_F(ConversationEvaluations, ATextSaysThatItIsOne) {
  for (const char* ending : {".mask.idx", ".mask.bin"}) std::filesystem::remove(data + ending);
  const TextEvaluation text = prepare_text_evaluation(request());
  EXPECT_FALSE(text.data.conversations.has_value());
  EXPECT_THAT(text.data.note, HasSubstr("chat.mask.idx): it is read as one text"));
  EXPECT_EQ(score_of(request()).tokens, text.data.tokens - 1);
  EXPECT_EQ(prepare_text_evaluation(request({"train.micro_batch_size=2"})).data.tokens,
            text.data.tokens);
  EXPECT_THAT([&] { prepare_text_evaluation(request({"dataset.packed_sequence_size=64"})); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("dataset.packed_sequence_size: for conversations, but --data")));
}

TEST_F(ConversationEvaluations, RefuseWhatDoesNotFit) {
  EXPECT_THAT([&] { prepare_text_evaluation(request({}, 32)); },
              ThrowsMessage<ConfigError>(HasSubstr("longer than a row of 32 tokens")));
  EXPECT_THAT([&] { prepare_text_evaluation(request({"dataset.packed_sequence_size=48"})); },
              ThrowsMessage<ConfigError>(HasSubstr("dataset.packed_sequence_size = 48")));
  TextEvaluationRequest overlapping = request();
  overlapping.stride = 8;
  EXPECT_THAT([&] { prepare_text_evaluation(overlapping); },
              ThrowsMessage<ConfigError>(HasSubstr("--stride: 8")));
  for (MaskedTokens& one : conversations) one.mask.assign(one.tokens.size(), 0);
  TextEvaluationRequest unscored = request();
  unscored.data = write_conversations(folder / "unscored", conversations);
  EXPECT_THAT([&] { prepare_text_evaluation(unscored); },
              ThrowsMessage<ConfigError>(HasSubstr("no token of the valid split is scored")));
  unscored.inference.overrides.emplace_back("dataset.answer_only_loss=false");
  EXPECT_NO_THROW(prepare_text_evaluation(unscored));
}

}  // namespace
}  // namespace viaduct
