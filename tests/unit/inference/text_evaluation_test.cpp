// `viaduct eval` compared with the evaluation of the training loop, and with the probabilities that
// a generator gives token by token.

#include "inference/text_evaluation.h"
#include "run/resolved_run.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/parameter_io.h"
#include "data/indexed_dataset_writer.h"
#include "data/tokenizer/text_ids.h"
#include "run/rank_device.h"
#include "support/language_model.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using Ids = std::vector<int32_t>;

TextScore score_of(const TextEvaluationRequest& request) {
  const TextEvaluation evaluation = prepare_text_evaluation(request);
  const RankDevice rank = make_rank_device(evaluation.run.config.dist);
  return evaluate_text(evaluation, *rank.device, rank.ops, make_self_communicator("world"),
                       [](int64_t, int64_t) {});
}

const char* const kText = "the hat and the cat\nthat the rat had in the hall; and then: 17 bats!";

class TextEvaluations : public testing::Test {
 protected:
  TextEvaluations() : model("llama") { write_file_atomically(folder / "text.txt", kText); }

  TextEvaluationRequest request(int64_t length, std::optional<int64_t> stride = {}) const {
    return {.inference = {.model = model.path(),
                          .overrides = {"dist.threads_per_rank=2"},
                          .sequence_length = length},
            .data = folder / "text.txt",
            .stride = stride};
  }
  /// Writes the tokens of the text and some more as a data set of several documents.
  void write_data(const Ids& ids) {
    IndexedDatasetWriter writer(folder / "data", TokenType::uint16);
    const auto half = static_cast<int64_t>(ids.size() / 2);
    writer.add_document(Ids(ids.begin(), ids.begin() + half));
    writer.add_document(Ids(ids.begin() + half, ids.end()));
    writer.finish();
  }

  void remove_tokenizer() {
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::remove(model / file);
  }

  LanguageModel model;
  TemporaryFolder folder;
};

TEST_F(TextEvaluations, EachTokenIsScoredByWhatTheModelSaysAfterItsContext) {
  const RunSetup setup = model.generation();
  const Ids ids = text_ids(*setup.tokenizer, kText);
  const auto tokens = static_cast<int64_t>(ids.size());
  const RankDevice rank = make_rank_device(setup.config.dist);
  const ResolvedRun run;
  Generator generator(*rank.device, rank.ops, setup.model,
                      {run.layers, run.parallelism, run.memory, tokens});
  OpContext context = generator.context();
  load_parameters(context, generator.store(), *open_weights(*setup.pretrained), setup.model);
  constexpr int64_t kLength = 12;
  for (const int64_t stride : {12, 5, 1}) {
    double sum = 0;
    for (int64_t target = 1; target < tokens; ++target) {
      // The first row that contains it.
      const int64_t row = std::max<int64_t>(0, (target - kLength + stride - 1) / stride);
      generator.start(1);
      const std::vector<Ids> fed{Ids(ids.begin() + row * stride, ids.begin() + target)};
      const Tensor logits = generator.feed(fed);
      const auto* values = logits.data<float>();
      double total = 0;
      for (int64_t v = 0; v < logits.dim(1); ++v) total += std::exp(double{values[v]});
      sum += std::log(total) - double{values[ids[static_cast<size_t>(target)]]};
    }
    const TextScore score = score_of(request(kLength, stride));
    EXPECT_EQ(score.tokens, tokens - 1);
    EXPECT_NEAR(score.loss, sum / static_cast<double>(tokens - 1), 1e-5) << "stride " << stride;
    EXPECT_DOUBLE_EQ(score.perplexity, std::exp(score.loss));
    // The first token is not scored.
    const auto bytes = static_cast<double>(std::string(kText).size()) -
                       static_cast<double>(setup.tokenizer->decode({&ids[0], 1}).size());
    EXPECT_NEAR(*score.bits_per_byte, sum / std::log(2) / bytes, 1e-5);
  }
}

TEST_F(TextEvaluations, TheTrainingLoopGivesTheSameLossOfTheSameRows) {
  Ids ids;
  for (int32_t i = 0; i < 16 * 8 + 1; ++i) ids.push_back((i * i + 3 * i) % 250);
  write_data(ids);
  TextEvaluationRequest of_data = request(16);
  of_data.data = folder / "data";
  const TextScore score = score_of(of_data);
  EXPECT_EQ(score.tokens, 16 * 8);
  const auto outcome = train_run(
      {"train.skip_train=true", "checkpoint.pretrained_checkpoint=" + model.path().string(),
       "checkpoint.save=" + (folder / "run").string(), "model.seq_length=16",
       "dataset.blend_per_split=[null,[" + (folder / "data").string() + "],null]",
       "train.global_batch_size=4", "train.micro_batch_size=4", "validation.eval_iters=2",
       "mixed_precision=fp32"});
  ASSERT_EQ(outcome.validations.size(), 1u);
  // The rows are the same, in another order.
  EXPECT_NEAR(score.loss, outcome.validations[0].second, 1e-12);
}

TEST_F(TextEvaluations, MicroBatchesDoNotChangeTheLoss) {
  const TextScore one = score_of(request(8));
  TextEvaluationRequest many = request(8);
  many.inference.overrides.push_back("train.micro_batch_size=3");
  const TextScore three = score_of(many);
  EXPECT_EQ(three.tokens, one.tokens);
  EXPECT_NEAR(three.loss, one.loss, 1e-9);
}

TEST_F(TextEvaluations, RefusesWhatDoesNotFit) {
  EXPECT_THROW(prepare_text_evaluation(request(8, 9)), ConfigError);
  EXPECT_THROW(prepare_text_evaluation(request(8, 0)), ConfigError);
  EXPECT_THROW(prepare_text_evaluation(request(100'000)), ConfigError);
  TextEvaluationRequest contradiction = request(8);
  contradiction.inference.overrides.push_back("model.seq_length=16");
  EXPECT_THROW(prepare_text_evaluation(contradiction), ConfigError);
  TextEvaluationRequest missing = request(8);
  missing.data = folder / "nothing";
  EXPECT_THROW(prepare_text_evaluation(missing), ConfigError);
  write_file_atomically(folder / "text.txt", "");
  EXPECT_THROW(prepare_text_evaluation(request(8)), ConfigError);
  write_file_atomically(folder / "text.txt", kText);
  remove_tokenizer();
  EXPECT_THROW(prepare_text_evaluation(request(8)), ConfigError);
}

TEST_F(TextEvaluations, WithoutATokenizerDataHaveNoBytes) {
  write_data({1, 2, 3, 4, 5, 6});
  remove_tokenizer();
  TextEvaluationRequest of_data = request(8);
  of_data.data = folder / "data";
  const TextScore score = score_of(of_data);
  EXPECT_EQ(score.tokens, 5);
  EXPECT_FALSE(score.bits_per_byte.has_value());
}

}  // namespace
}  // namespace viaduct
