// T5's texts in several layouts: those of one rank, token by token.

#include <gtest/gtest.h>

#include "generate/prompts.h"
#include "support/language_model.h"
#include "support/layout_run.h"

namespace viaduct {
namespace {

using test::generate_texts;
using test::LanguageModel;
using test::layout;
using test::LayoutCase;

GenerationWork work_of(int64_t batch_size) {
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < 5; ++i) {
    Prompt prompt{i, {0}, 4 + 3 * i};
    for (int64_t t = 0; t < 2 + 5 * ((i * 4) % 5); ++t)
      prompt.input.push_back(static_cast<int32_t>((31 * i + 7 * t + 2) % 250));
    prompts.push_back(prompt);
  }
  GenerationWork work;
  work.batches = batches_by_length(prompts, batch_size);
  work.options.sampling = {.temperature = 0.8, .top_k = 50, .repetition_penalty = 1.1};
  return work;
}

std::vector<std::vector<int32_t>> tokens_of(const std::vector<GeneratedText>& texts) {
  std::vector<std::vector<int32_t>> tokens;
  for (const GeneratedText& text : texts) tokens.push_back(text.generated.tokens);
  return tokens;
}

class EncoderGenerationLayout : public testing::TestWithParam<LayoutCase> {};

TEST_P(EncoderGenerationLayout, GivesTheTokensOfOneRank) {
  const LanguageModel model("t5");
  const auto alone = tokens_of(generate_texts(model.generation(), work_of(1)));
  ASSERT_EQ(alone.size(), 5u);
  for (const int64_t batch_size : {1, 3}) {
    EXPECT_EQ(
        tokens_of(generate_texts(model.generation(GetParam().overrides), work_of(batch_size))),
        alone)
        << batch_size << " at a time";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, EncoderGenerationLayout,
    testing::Values(layout(2, 1, 1, 1), layout(1, 1, 1, 2), layout(2, 1, 1, 2), layout(1, 1, 2, 1),
                    layout(2, 1, 2, 2),
                    layout(2, 1, 1, 1, {"model.sequence_parallel=true"}, "sequence"),
                    layout(1, 1, 2, 1,
                           {"dist.ranks=3", "model.encoder_pipeline_model_parallel_size=1",
                            "model.virtual_pipeline_model_parallel_size=2"},
                           "encoder1_chunks")),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace viaduct
