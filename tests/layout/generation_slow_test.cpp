// Generation and evaluation in every layout against one rank: token by token, and the loss.

#include <gmock/gmock.h>

#include "generate/prompts.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/language_model.h"
#include "support/layout_run.h"
#include "support/paths.h"
#include "train/text_evaluation.h"

namespace viaduct {
namespace {

using namespace test;

std::vector<Prompt> prompts() {
  std::vector<Prompt> list;
  for (int64_t i = 0; i < 7; ++i) {
    Prompt prompt{i, {}, 10 + i};
    for (int64_t t = 0; t < 2 + 5 * ((i * 4) % 7); ++t)
      prompt.ids.push_back(static_cast<int32_t>((31 * i + 7 * t + 2) % 250));
    list.push_back(prompt);
  }
  return list;
}

GenerationWork work_of(double temperature, int64_t batch_size) {
  GenerationWork work;
  work.batches = batches_by_length(prompts(), batch_size);
  work.options.sampling = {.temperature = temperature, .top_k = 50, .repetition_penalty = 1.1};
  return work;
}

std::vector<std::vector<int32_t>> tokens_of(const std::vector<GeneratedText>& texts) {
  std::vector<std::vector<int32_t>> tokens;
  for (const GeneratedText& text : texts) tokens.push_back(text.generated.tokens);
  return tokens;
}

std::vector<LayoutCase> layouts() {
  return {layout(2, 1, 1, 1),
          layout(4, 1, 1, 1),
          layout(1, 1, 2, 1),
          layout(1, 1, 4, 1),
          layout(1, 1, 2, 1, {"model.virtual_pipeline_model_parallel_size=2"}, "vpp2"),
          layout(1, 1, 1, 2),
          layout(1, 1, 1, 3),
          layout(2, 1, 2, 1),
          layout(2, 1, 1, 2),
          layout(1, 1, 2, 2),
          layout(2, 1, 2, 2)};
}

class GenerationLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(GenerationLayouts, GivesTheTokensOfOneRank) {
  for (const char* name : {"llama", "gpt2", "qwen2"}) {
    const LanguageModel model(name);
    for (const double temperature : {0.0, 0.8}) {
      const auto alone = tokens_of(generate_texts(model.generation(), work_of(temperature, 1)));
      ASSERT_EQ(alone.size(), prompts().size());
      for (const int64_t batch_size : {1, 3}) {
        EXPECT_EQ(tokens_of(generate_texts(model.generation(GetParam().overrides),
                                           work_of(temperature, batch_size))),
                  alone)
            << name << " at temperature " << temperature << ", " << batch_size << " at a time";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, GenerationLayouts, testing::ValuesIn(layouts()),
                         [](const auto& info) { return info.param.name; });

TEST(GenerationLayouts, ContextRanksAreRefused) {
  const LanguageModel model;
  EXPECT_THROW(model.generation({"dist.ranks=2", "model.context_parallel_size=2"}), ConfigError);
  EXPECT_THROW(model.generation({"dist.ranks=2", "model.tensor_model_parallel_size=2",
                                 "model.sequence_parallel=true"}),
               ConfigError);
}

TextScore score_of(const LanguageModel& model, std::vector<std::string> overrides, int64_t stride) {
  overrides.push_back("dist.threads_per_rank=1");
  const TextEvaluation evaluation = prepare_text_evaluation(
      {.inference = {.model = model.path(), .overrides = overrides, .sequence_length = 32},
       .data = source_folder() / "LICENSE",
       .stride = stride});
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

class EvaluationLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(EvaluationLayouts, GivesTheScoreOfOneRank) {
  for (const char* name : {"llama", "gpt2"}) {
    const LanguageModel model(name);
    const TextScore one = score_of(model, {"train.micro_batch_size=1"}, 20),
                    many = score_of(model, GetParam().overrides, 20);
    EXPECT_EQ(many.tokens, one.tokens);
    EXPECT_NEAR(many.loss, one.loss, 2e-6 * one.loss);
    EXPECT_NEAR(*many.bits_per_byte, *one.bits_per_byte, 2e-6 * *one.bits_per_byte);
  }
}

std::vector<LayoutCase> evaluation_layouts() {
  std::vector<LayoutCase> all = layouts();
  all.push_back(layout(1, 2, 1, 1));
  all.push_back(layout(2, 2, 1, 1));
  all.push_back(layout(1, 2, 1, 2));
  return all;
}

INSTANTIATE_TEST_SUITE_P(Layouts, EvaluationLayouts, testing::ValuesIn(evaluation_layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
