// Generation and evaluation in every layout compared with one rank: token by token, and the loss.

#include <gmock/gmock.h>

#include "generate/prompts.h"
#include "inference/text_evaluation.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/language_model.h"
#include "support/layout_run.h"
#include "support/paths.h"

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
}

LayoutCase experts(int ep, int etp, LayoutCase c) {
  c.overrides.push_back("model.expert_model_parallel_size=" + std::to_string(ep));
  c.overrides.push_back("model.expert_tensor_parallel_size=" + std::to_string(etp));
  c.name += "_ep" + std::to_string(ep) + "_etp" + std::to_string(etp);
  if (ep == 4) c.only = {"mixtral", "deepseek_v2_lite", "deepseek_v3"};  // qwen3_moe has 6 experts
  return c;
}

/// Replicas that share experts run passes together, even if one of them never has a batch; tensor
/// ranks cut the tokens.
std::vector<LayoutCase> expert_layouts() {
  return {experts(2, 1, layout(1, 1, 1, 2)), experts(4, 1, layout(1, 1, 1, 4)),
          experts(1, 2, layout(1, 1, 1, 2)), experts(2, 1, layout(2, 1, 1, 1)),
          experts(1, 2, layout(2, 1, 1, 1)), experts(1, 1, layout(2, 1, 1, 1)),
          experts(2, 1, layout(2, 1, 1, 2)), experts(4, 1, layout(2, 1, 1, 2)),
          experts(2, 2, layout(2, 1, 1, 2)), experts(2, 1, layout(1, 1, 2, 2)),
          experts(2, 1, layout(2, 1, 2, 1))};
}

class ExpertGeneration : public testing::TestWithParam<LayoutCase> {};

TEST_P(ExpertGeneration, GivesTheTokensOfOneRank) {
  for (const char* name : {"mixtral", "qwen3_moe", "deepseek_v2_lite", "deepseek_v3"}) {
    if (!GetParam().suits(name)) continue;
    const LanguageModel model(name);
    const auto alone = tokens_of(generate_texts(model.generation(), work_of(0.8, 1)));
    ASSERT_EQ(alone.size(), prompts().size());
    for (const int64_t batch_size : {1, 3}) {
      EXPECT_EQ(tokens_of(generate_texts(model.generation(GetParam().overrides),
                                         work_of(0.8, batch_size))),
                alone)
          << name << ", " << batch_size << " at a time";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertGeneration, testing::ValuesIn(expert_layouts()),
                         [](const auto& info) { return info.param.name; });

TEST(ExpertGeneration, TokensThatAreSentByDomainAreThoseOfOneReplica) {
  const LanguageModel model("mixtral");
  const auto alone = tokens_of(generate_texts(model.generation(), work_of(0, 1)));
  for (LayoutCase c : {experts(4, 1, layout(2, 1, 1, 2)), experts(4, 1, layout(1, 1, 1, 4))}) {
    c.overrides.insert(c.overrides.end(),
                       {"model.moe_token_dispatcher_type=flex", "dist.nvlink_domain_size=2"});
    EXPECT_EQ(tokens_of(generate_texts(model.generation(c.overrides), work_of(0, 3))), alone)
        << c.name;
  }
}

TEST(ExpertGeneration, TokensThatAreGatheredAreThoseOfOneReplica) {
  const LanguageModel model("mixtral");
  const auto alone = tokens_of(generate_texts(model.generation(), work_of(0, 1)));
  const std::string gather = "model.moe_token_dispatcher_type=allgather";
  LayoutCase tensor = experts(2, 1, layout(2, 1, 1, 1)), data = experts(2, 1, layout(1, 1, 1, 2));
  tensor.overrides.push_back(gather), data.overrides.push_back(gather);
  EXPECT_EQ(tokens_of(generate_texts(model.generation(tensor.overrides), work_of(0, 3))), alone);
  EXPECT_THROW(generate_texts(model.generation(data.overrides), work_of(0, 3)), ConfigError);
}

/// Tensor ranks of a dense model may cut the tokens as well, and hide exchanges under products.
TEST(GenerationLayouts, TensorRanksMayCutTheTokens) {
  const LanguageModel model("llama");
  const auto alone = tokens_of(generate_texts(model.generation(), work_of(0, 1)));
  for (const char* overlap : {"false", "true"}) {
    const LayoutCase cut = layout(
        2, 1, 1, 1,
        {"model.sequence_parallel=true", std::string("comm_overlap.tp_comm_overlap=") + overlap});
    EXPECT_EQ(tokens_of(generate_texts(model.generation(cut.overrides), work_of(0, 3))), alone)
        << overlap;
  }
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

void expect_score_of_one_rank(const char* name, const LayoutCase& layout) {
  const LanguageModel model(name);
  const TextScore one = score_of(model, {"train.micro_batch_size=1"}, 20),
                  many = score_of(model, layout.overrides, 20);
  EXPECT_EQ(many.tokens, one.tokens);
  EXPECT_NEAR(many.loss, one.loss, 2e-6 * one.loss);
  EXPECT_NEAR(*many.bits_per_byte, *one.bits_per_byte, 2e-6 * *one.bits_per_byte);
}

class EvaluationLayouts : public testing::TestWithParam<LayoutCase> {};

TEST_P(EvaluationLayouts, GivesTheScoreOfOneRank) {
  for (const char* name : {"llama", "gpt2"}) expect_score_of_one_rank(name, GetParam());
}

class ExpertEvaluation : public testing::TestWithParam<LayoutCase> {};

TEST_P(ExpertEvaluation, GivesTheScoreOfOneRank) {
  for (const char* name : {"mixtral", "deepseek_v3"}) expect_score_of_one_rank(name, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Layouts, ExpertEvaluation,
                         testing::Values(experts(2, 1, layout(1, 1, 1, 2)),
                                         experts(2, 2, layout(2, 1, 1, 2)),
                                         experts(2, 1, layout(1, 2, 2, 1))),
                         [](const auto& info) { return info.param.name; });

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
