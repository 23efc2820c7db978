#include "generate/generator.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "model/family.h"
#include "model/initialize.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using test::test_data;
using testing::ElementsAreArray;
using Ids = std::vector<int32_t>;

const char* const kGemma2 = R"({"model_type": "gemma2", "hidden_size": 32, "intermediate_size": 64,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "vocab_size": 128, "max_position_embeddings": 96, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 5.0,
  "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 8, "sliding_window": 7,
  "tie_word_embeddings": true, "initializer_range": 0.3})";
const char* const kQwen3 = R"({"model_type": "qwen3", "hidden_size": 32, "intermediate_size": 64,
  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 8,
  "vocab_size": 128, "max_position_embeddings": 96, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "hidden_act": "silu", "tie_word_embeddings": false, "initializer_range": 0.3})";

struct Case {
  std::string name, folder, config;  // a folder of golden models, or a configuration
};
void PrintTo(const Case& c, std::ostream* os) {
  *os << c.name;
}

struct Maker {
  std::unique_ptr<Device> device = make_cpu_device(2);
  OpTable ops = cpu_ops(test::instruction_set());
  ModelConfig config;
  std::filesystem::path folder;

  explicit Maker(const Case& c) {
    folder = test_data("golden") / c.folder;
    config = c.folder.empty() ? read_hf_config(c.config, c.name)
                              : read_hf_config(read_file(folder / "config.json"), c.name);
  }
  Generator make(int64_t capacity, const char* recipe = "fp32") {
    Generator generator(*device, ops, config, precision_recipe(recipe), capacity);
    OpContext context = generator.context();
    if (folder.filename() == "model") {
      load_parameters(context, generator.store(), SafetensorsFolder(folder), config);
    } else {
      initialize_parameters(context, generator.store(), 5);
    }
    return generator;
  }
};

class Generation : public testing::TestWithParam<Case> {};

TEST_P(Generation, GreedyEqualsRecomputationWithoutTheCacheAtEveryStep) {
  Maker maker(GetParam());
  const Ids prompt{3, 14, 15, 92, 65, 35};
  constexpr int64_t kNew = 40;
  Generator cached = maker.make(static_cast<int64_t>(prompt.size()) + kNew);
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_new_tokens = kNew;
  Ids streamed;
  const Generated got =
      generate(cached, prompt, options, [&](int32_t id) { streamed.push_back(id); });
  EXPECT_EQ(got.reason, StopReason::length);
  EXPECT_EQ(streamed, got.tokens);

  Generator whole = maker.make(static_cast<int64_t>(prompt.size()) + kNew);
  cached.restart();
  Ids all = prompt, next = prompt;
  for (int64_t i = 0; i < kNew; ++i) {
    whole.restart();
    const std::vector<float> expected = whole.feed(all), step = cached.feed(next);
    for (size_t v = 0; v < expected.size(); ++v)
      ASSERT_NEAR(step[v], expected[v], 2e-4) << "token " << i << " logit " << v;
    next = {static_cast<int32_t>(greedy_token(expected))};
    all.push_back(next[0]);
    ASSERT_EQ(got.tokens[static_cast<size_t>(i)], next[0]) << "token " << i;
  }
  EXPECT_EQ(cached.length(), static_cast<int64_t>(prompt.size()) + kNew - 1);
}

TEST_P(Generation, PromptInPiecesGivesTheSame) {
  Maker maker(GetParam());
  const Ids prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43};
  Generator generator = maker.make(20);
  const std::vector<float> whole = generator.feed(prompt);
  generator.restart();
  generator.feed(std::span(prompt).first(5));
  generator.feed(std::span(prompt).subspan(5, 7));
  const std::vector<float> pieces = generator.feed(std::span(prompt).last(1));
  for (size_t v = 0; v < whole.size(); ++v) ASSERT_NEAR(pieces[v], whole[v], 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, Generation,
                         testing::Values(Case{"gpt2", "gpt2/model", ""},
                                         Case{"llama", "llama/model", ""},
                                         Case{"llama3_rope", "llama3_rope/model", ""},
                                         Case{"gemma2", "", kGemma2}, Case{"qwen3", "", kQwen3}),
                         [](const auto& info) { return info.param.name; });

const Case kLlama{"llama", "llama/model", ""};

TEST(Generator, GivesTheReferencesLogits) {
  Maker maker(kLlama);
  const SafetensorsFile reference(test_data("golden/llama/golden.safetensors"));
  const Tensor ids = reference.tensor("input_ids"), logits = reference.tensor("logits");
  const Ids row(ids.data<int64_t>(), ids.data<int64_t>() + 64);
  Generator generator = maker.make(64);
  const std::vector<float> got = generator.feed(row);
  for (size_t v = 0; v < got.size(); ++v)
    ASSERT_NEAR(got[v], logits.data<float>()[63 * 512 + static_cast<int64_t>(v)], 2e-4);
}

TEST(Generator, FinalSoftcapBoundsTheLogits) {
  Maker maker({"gemma2", "", kGemma2});
  const std::vector<float> got = maker.make(8).feed(Ids{1, 2, 3});
  float largest = 0;
  for (const float v : got) largest = std::max(largest, std::abs(v));
  EXPECT_LE(largest, 3.0f);
  EXPECT_GT(largest, 1.0f);
}

Ids sample(Generator& generator, uint64_t seed, const SamplingOptions& sampling) {
  GenerateOptions options;
  options.sampling = sampling;
  options.seed = seed;
  options.max_new_tokens = 30;
  return generate(generator, Ids{1, 2, 3}, options, [](int32_t) {}).tokens;
}

TEST(Generate, IsDeterministicBySeed) {
  Maker maker(kLlama);
  Generator generator = maker.make(40), other = maker.make(64);
  const Ids first = sample(generator, 7, {1.0, 50, 0.9});
  EXPECT_EQ(sample(generator, 7, {1.0, 50, 0.9}), first);
  EXPECT_EQ(sample(other, 7, {1.0, 50, 0.9}), first);
  EXPECT_NE(sample(generator, 8, {1.0, 50, 0.9}), first);
  // One candidate: no choice.
  EXPECT_EQ(sample(generator, 7, {1.0, 1, 1.0}), sample(generator, 9, {0, 0, 1.0}));
}

TEST(Generate, StopsAtAStopToken) {
  Maker maker(kLlama);
  Generator generator = maker.make(40);
  const Ids all = sample(generator, 7, {0, 0, 1});
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_new_tokens = 30;
  options.stop_tokens = {511, all[3]};
  const auto end = std::find(all.begin(), all.end(), all[3]);
  const Generated got = generate(generator, Ids{1, 2, 3}, options, [](int32_t) {});
  EXPECT_EQ(got.reason, StopReason::stop_token);
  EXPECT_EQ(got.stop_token, all[3]);
  EXPECT_THAT(got.tokens, ElementsAreArray(all.begin(), end));
}

TEST(Generate, WorksInTheOtherPrecisions) {
  Maker maker(kLlama);
  Generator fp32 = maker.make(16), fp64 = maker.make(16, "fp64");
  const auto expected = fp32.feed(Ids{1, 2, 3}), exact = fp64.feed(Ids{1, 2, 3});
  for (size_t v = 0; v < expected.size(); ++v) ASSERT_NEAR(exact[v], expected[v], 1e-4);
  for (const char* recipe : {"bf16_mixed", "fp16_mixed"}) {
    Generator low = maker.make(16, recipe);
    low.feed(Ids{1, 2});
    const auto got = low.feed(Ids{3});
    for (size_t v = 0; v < expected.size(); ++v) ASSERT_NEAR(got[v], expected[v], 0.25) << recipe;
  }
}

TEST(Generate, RefusesWhatDoesNotFit) {
  Maker maker(kLlama);
  Generator generator = maker.make(10);
  GenerateOptions options;
  options.max_new_tokens = 8;
  const auto nothing = [](int32_t) {};
  EXPECT_THROW(generate(generator, Ids{1, 2, 3}, options, nothing), ConfigError);
  EXPECT_THROW(generate(generator, Ids{}, options, nothing), ConfigError);
  options.max_new_tokens = INT64_MAX;
  EXPECT_THROW(generate(generator, Ids{1}, options, nothing), ConfigError);
  options.max_new_tokens = 1;
  options.sampling.top_p = 2;
  EXPECT_THROW(generate(generator, Ids{1}, options, nothing), ConfigError);
  EXPECT_THROW(generator.feed(Ids{512}), ShapeError);
  EXPECT_THROW(generator.feed(Ids{-1}), ShapeError);
  EXPECT_THROW(generator.feed(Ids{}), ShapeError);
  EXPECT_THROW(generator.feed(Ids(11, 1)), ShapeError);
  EXPECT_THROW(maker.make(129), ConfigError);
}

}  // namespace
}  // namespace viaduct
