// `viaduct eval --data` of pairs for a model with an encoder: the loss of their answers, which is
// that of a run's validation and of generation's logits.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "comm/communicator.h"
#include "generate/generator.h"
#include "inference/open_generator.h"
#include "inference/task_evaluation.h"
#include "inference/text_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "run/resolved_run.h"
#include "support/conversations.h"
#include "support/language_model.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

constexpr int32_t kEnd = 1, kStart = 0;

/// Inputs of 2 to 9 tokens with answers of 1 to 5.
std::vector<MaskedTokens> some_pairs() {
  std::vector<MaskedTokens> pairs;
  for (int32_t i = 0; i < 6; ++i) {
    MaskedTokens pair;
    for (int32_t t = 0; t < 2 + (i * 3) % 8; ++t) pair.tokens.push_back(2 + (i * 31 + t * 7) % 250);
    pair.mask.assign(pair.tokens.size(), 0);
    for (int32_t t = 0; t < 1 + i % 5; ++t) pair.tokens.push_back(2 + (i * 17 + t * 11) % 250);
    pair.mask.resize(pair.tokens.size(), 1);
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

class PairEvaluations : public testing::Test {
 protected:
  TextEvaluationRequest request(const Overrides& more = {}) const {
    return {.inference = {.model = model.path(),
                          .overrides = Overrides{"dist.threads_per_rank=1",
                                                 "dist.distributed_timeout_minutes=1"} +
                                       more},
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

  LanguageModel model{"t5"};
  TemporaryFolder folder;
  std::vector<MaskedTokens> pairs = some_pairs();
  std::string data = write_conversations(folder / "pairs", pairs);
};

/// −log of the probability of `target` under logits.
double loss_of(const float* logits, int64_t count, int32_t target) {
  double sum = 0;
  for (int64_t v = 0; v < count; ++v) sum += std::exp(static_cast<double>(logits[v]));
  return std::log(sum) - static_cast<double>(logits[target]);
}

TEST_F(PairEvaluations, TheLossIsThatOfTheGeneratorsLogits) {
  const RunSetup setup = model.generation();
  const ResolvedRun run = resolve_run(setup.config, setup.model);
  const RankDevice rank = make_rank_device(setup.config.dist);
  const auto world = make_self_communicator("world");
  Generator generator = open_generator(setup, run, 8, *rank.device, rank.ops, world);
  read_weights(generator, setup, *world);
  double sum = 0;
  int64_t scored = 0;
  for (const MaskedTokens& pair : pairs) {
    const auto first = std::ranges::find(pair.mask, 1) - pair.mask.begin();
    Ids input(pair.tokens.begin(), pair.tokens.begin() + first),
        answer(pair.tokens.begin() + first, pair.tokens.end());
    input.push_back(kEnd);
    answer.push_back(kEnd);
    generator.start_with(std::vector<Ids>{input});
    int32_t next = kStart;
    for (const int32_t token : answer) {
      const Tensor logits = generator.feed(std::vector<Ids>{{next}});
      sum += loss_of(logits.data<float>(), logits.dim(1), token);
      next = token;
      ++scored;
    }
  }
  const Overrides kLayouts[] = {{},
                                {"train.micro_batch_size=1"},
                                {"dist.ranks=2"},
                                {"dist.ranks=2", "model.tensor_model_parallel_size=2"},
                                {"model.seq_length=16", "model.encoder_seq_length=24"}};
  for (const Overrides& layout : kLayouts) {
    SCOPED_TRACE(layout.empty() ? "one rank" : layout.back());
    const TextScore score = score_of(request(layout));
    EXPECT_EQ(score.tokens, scored);
    EXPECT_NEAR(score.loss, sum / static_cast<double>(scored), 1e-5 * score.loss);
  }
}

TEST_F(PairEvaluations, RowsAreAsLongAsTheLongestPair) {
  const TextEvaluation evaluation = prepare_text_evaluation(request());
  EXPECT_EQ(evaluation.data.rows->encoder_length(), 9 + 1);
  EXPECT_EQ(evaluation.data.rows->sequence_length(), 5 + 1);
  EXPECT_EQ(evaluation.data.conversations, 6);
}

TEST_F(PairEvaluations, AreTheValidationOfARun) {
  const auto outcome = train_run(
      {"train.skip_train=true", "checkpoint.save=" + (folder / "run").string(),
       "checkpoint.pretrained_checkpoint=" + model.path().string(),
       "dataset.blend_per_split=[null,[" + data + "],null]", "train.global_batch_size=4",
       "train.micro_batch_size=2", "validation.full_validation=true", "mixed_precision=fp32",
       "dist.threads_per_rank=1", "model.seq_length=12", "model.encoder_seq_length=12"});
  ASSERT_EQ(outcome.validations.size(), 1u);
  const double loss = score_of(request()).loss;
  EXPECT_NEAR(outcome.validations[0].second, loss, 1e-5 * loss);
}

TEST_F(PairEvaluations, OtherDataAreRefusedByName) {
  TextEvaluationRequest text = request();
  write_file_atomically(folder / "text", "a cat");
  text.data = folder / "text";
  EXPECT_THAT([&] { prepare_text_evaluation(text); },
              ThrowsMessage<ConfigError>(HasSubstr("measured by pairs of input and answer")));
  write_file_atomically(folder / "tasks.jsonl",
                        R"({"context": "a", "choices": ["b", "c"], "answer": 0})");
  TaskEvaluationRequest tasks;
  tasks.inference = request().inference;
  tasks.tasks = folder / "tasks.jsonl";
  EXPECT_THAT([&] { prepare_task_evaluation(tasks); },
              ThrowsMessage<ConfigError>(HasSubstr("viaduct eval --tasks")));
}

}  // namespace
}  // namespace viaduct
