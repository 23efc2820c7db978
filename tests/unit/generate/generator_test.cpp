#include "generate/generate.h"

#include <gmock/gmock.h>

#include <cstring>

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

const char* const kLatent =
    R"({"model_type": "deepseek_v2", "hidden_size": 32, "intermediate_size": 64,
  "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 128, "max_position_embeddings": 96,
  "rms_norm_eps": 1e-6, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
  "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 4, "num_experts_per_tok": 2,
  "moe_intermediate_size": 16, "n_shared_experts": 1, "first_k_dense_replace": 1,
  "initializer_range": 0.3})";
const char* const kSinks = R"({"model_type": "gpt_oss", "hidden_size": 32, "intermediate_size": 24,
  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "vocab_size": 128, "max_position_embeddings": 96, "num_local_experts": 4, "num_experts_per_tok": 2,
  "sliding_window": 7, "initializer_range": 0.3})";

const char* const kChunks =
    R"({"model_type": "llama4_text", "hidden_size": 32, "intermediate_size": 16,
  "intermediate_size_mlp": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
  "head_dim": 8, "vocab_size": 128, "max_position_embeddings": 96, "num_local_experts": 4,
  "interleave_moe_layer_step": 2, "attention_chunk_size": 7, "no_rope_layers": [1, 0, 1],
  "floor_scale": 5, "attn_scale": 0.5, "initializer_range": 0.3})";

const char* const kBloom = R"({"model_type": "bloom", "hidden_size": 32, "n_layer": 3, "n_head": 4,
  "vocab_size": 128, "seq_length": 96, "initializer_range": 0.3})";

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
  std::map<std::string, LayerSettings> layers;  // by recipe
  Parallelism parallelism;
  MemorySettings memory;

  explicit Maker(const Case& c) {
    folder = test_data("golden") / c.folder;
    config = c.folder.empty() ? read_hf_config(c.config, c.name)
                              : read_hf_config(read_file(folder / "config.json"), c.name);
  }
  Generator make(int64_t capacity, const char* recipe = "fp32") {
    layers[recipe].precision = precision_recipe(recipe);
    Generator generator(*device, ops, config, {layers[recipe], parallelism, memory, capacity});
    OpContext context = generator.context();
    if (folder.filename() == "model") {
      load_parameters(context, generator.store(), SafetensorsFolder(folder), config);
    } else {
      initialize_parameters(context, generator.store(), 5);
    }
    return generator;
  }
};

/// The next tokens of the only sequence; the logits that follow.
std::vector<float> feed(Generator& generator, Ids ids) {
  const std::vector<Ids> all{std::move(ids)};
  const Tensor logits = generator.feed(all);
  return {logits.data<float>(), logits.data<float>() + logits.elements()};
}

Generated generate_one(Generator& generator, Ids prompt, int64_t max_new_tokens,
                       const GenerateOptions& options, Ids* streamed = nullptr) {
  const std::vector<Prompt> prompts{{0, std::move(prompt), max_new_tokens}};
  return generate(generator, prompts, options,
                  [&](size_t, int32_t id) {
                    if (streamed != nullptr) streamed->push_back(id);
                    return true;
                  })
      .front();
}

class Generation : public testing::TestWithParam<Case> {};

TEST_P(Generation, GreedyEqualsRecomputationWithoutTheCacheAtEveryStep) {
  Maker maker(GetParam());
  const Ids prompt{3, 14, 15, 92, 65, 35};
  constexpr int64_t kNew = 40;
  Generator cached = maker.make(static_cast<int64_t>(prompt.size()) + kNew);
  GenerateOptions options;
  options.sampling.temperature = 0;
  Ids streamed;
  const Generated got = generate_one(cached, prompt, kNew, options, &streamed);
  EXPECT_EQ(got.reason, StopReason::length);
  EXPECT_EQ(streamed, got.tokens);

  Generator whole = maker.make(static_cast<int64_t>(prompt.size()) + kNew);
  cached.start(1);
  Ids all = prompt, next = prompt;
  for (int64_t i = 0; i < kNew; ++i) {
    whole.start(1);
    const std::vector<float> expected = feed(whole, all), step = feed(cached, next);
    for (size_t v = 0; v < expected.size(); ++v)
      ASSERT_NEAR(step[v], expected[v], 2e-4) << "token " << i << " logit " << v;
    next = {static_cast<int32_t>(greedy_token(expected))};
    all.push_back(next[0]);
    ASSERT_EQ(got.tokens[static_cast<size_t>(i)], next[0]) << "token " << i;
  }
  EXPECT_EQ(cached.length(0), static_cast<int64_t>(prompt.size()) + kNew - 1);
}

TEST_P(Generation, PromptInPiecesGivesTheSame) {
  Maker maker(GetParam());
  const Ids prompt{3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43};
  Generator generator = maker.make(20);
  const std::vector<float> whole = feed(generator, prompt);
  generator.start(1);
  feed(generator, {prompt.begin(), prompt.begin() + 5});
  feed(generator, {prompt.begin() + 5, prompt.begin() + 12});
  const std::vector<float> pieces = feed(generator, {prompt.back()});
  for (size_t v = 0; v < whole.size(); ++v) ASSERT_NEAR(pieces[v], whole[v], 2e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, Generation,
                         testing::Values(Case{"gpt2", "gpt2/model", ""},
                                         Case{"llama", "llama/model", ""},
                                         Case{"llama3_rope", "llama3_rope/model", ""},
                                         Case{"gemma2", "", kGemma2}, Case{"qwen3", "", kQwen3},
                                         Case{"latent", "", kLatent}, Case{"sinks", "", kSinks},
                                         Case{"chunks", "", kChunks}, Case{"bloom", "", kBloom}),
                         [](const auto& info) { return info.param.name; });

const Case kLlama{"llama", "llama/model", ""};

TEST(Generator, GivesTheReferencesLogits) {
  Maker maker(kLlama);
  const SafetensorsFile reference(test_data("golden/llama/golden.safetensors"));
  const Tensor ids = reference.tensor("input_ids"), logits = reference.tensor("logits");
  const Ids row(ids.data<int64_t>(), ids.data<int64_t>() + 64);
  Generator generator = maker.make(64);
  const std::vector<float> got = feed(generator, row);
  for (size_t v = 0; v < got.size(); ++v)
    ASSERT_NEAR(got[v], logits.data<float>()[63 * 512 + static_cast<int64_t>(v)], 2e-4);
}

/// Score matrices have places for the cache's rows that have no token.
TEST(Generator, AttentionInPartsGivesTheSame) {
  for (const Case& c : {kLlama, Case{"chunks", "", kChunks}}) {
    Maker flash(c), parts(c);
    parts.config.flash_attention = false;
    Generator expected = flash.make(20), got = parts.make(20);
    for (const Ids& step : {Ids{3, 14, 15, 92, 65, 35, 89, 79}, Ids{32}, Ids{38}}) {
      const std::vector<float> a = feed(expected, step), b = feed(got, step);
      for (size_t v = 0; v < a.size(); ++v) ASSERT_NEAR(b[v], a[v], 2e-4) << c.name;
    }
  }
}

TEST(Generator, FinalSoftcapBoundsTheLogits) {
  Maker maker({"gemma2", "", kGemma2});
  Generator generator = maker.make(8);
  const std::vector<float> got = feed(generator, {1, 2, 3});
  float largest = 0;
  for (const float v : got) largest = std::max(largest, std::abs(v));
  EXPECT_LE(largest, 3.0f);
  EXPECT_GT(largest, 1.0f);
}

Ids sample(Generator& generator, uint64_t seed, const SamplingOptions& sampling) {
  GenerateOptions options;
  options.sampling = sampling;
  options.seed = seed;
  return generate_one(generator, {1, 2, 3}, 30, options).tokens;
}

TEST(Generate, IsDeterministicBySeed) {
  Maker maker(kLlama);
  Generator generator = maker.make(40), other = maker.make(64);
  const Ids first = sample(generator, 7, {1.0, 50, 0.9});
  EXPECT_EQ(sample(generator, 7, {1.0, 50, 0.9}), first);
  EXPECT_EQ(sample(other, 7, {1.0, 50, 0.9}), first);
  EXPECT_NE(sample(generator, 8, {1.0, 50, 0.9}), first);
  // With one candidate there is no choice.
  EXPECT_EQ(sample(generator, 7, {1.0, 1, 1.0}), sample(generator, 9, {0, 0, 1.0}));
}

TEST(Generate, StopsAtAStopToken) {
  Maker maker(kLlama);
  Generator generator = maker.make(40);
  const Ids all = sample(generator, 7, {0, 0, 1});
  GenerateOptions options;
  options.sampling.temperature = 0;
  options.stop_tokens = {511, all[3]};
  const auto end = std::find(all.begin(), all.end(), all[3]);
  const Generated got = generate_one(generator, {1, 2, 3}, 30, options);
  EXPECT_EQ(got.reason, StopReason::stop_token);
  EXPECT_EQ(got.stop_token, all[3]);
  EXPECT_THAT(got.tokens, ElementsAreArray(all.begin(), end));
}

TEST(Generate, WorksInTheOtherPrecisions) {
  Maker maker(kLlama);
  Generator fp32 = maker.make(16), fp64 = maker.make(16, "fp64");
  const auto expected = feed(fp32, {1, 2, 3}), exact = feed(fp64, {1, 2, 3});
  for (size_t v = 0; v < expected.size(); ++v) ASSERT_NEAR(exact[v], expected[v], 1e-4);
  for (const char* recipe : {"bf16_mixed", "fp16_mixed"}) {
    Generator low = maker.make(16, recipe);
    feed(low, {1, 2});
    const auto got = feed(low, {3});
    for (size_t v = 0; v < expected.size(); ++v) ASSERT_NEAR(got[v], expected[v], 0.25) << recipe;
  }
}

TEST(Generate, RefusesWhatDoesNotFit) {
  Maker maker(kLlama);
  Generator generator = maker.make(10);
  GenerateOptions options;
  EXPECT_THROW(generate_one(generator, {1, 2, 3}, 8, options), ConfigError);
  EXPECT_THROW(generate_one(generator, {}, 8, options), ConfigError);
  EXPECT_THROW(generate_one(generator, {1}, INT64_MAX, options), ConfigError);
  options.sampling.top_p = 2;
  EXPECT_THROW(generate_one(generator, {1}, 1, options), ConfigError);
  EXPECT_THROW(feed(generator, {512}), ShapeError);
  EXPECT_THROW(feed(generator, {-1}), ShapeError);
  EXPECT_THROW(feed(generator, {}), ShapeError);
  EXPECT_THROW(feed(generator, Ids(11, 1)), ShapeError);
  EXPECT_THROW(maker.make(129), ConfigError);
}

/// Prompts of different lengths, numbered.
std::vector<Prompt> some_prompts() {
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < 5; ++i) {
    Ids ids;
    for (int64_t t = 0; t < 3 + 7 * ((i * 3) % 5); ++t)
      ids.push_back(static_cast<int32_t>((17 * i + 5 * t + 1) % 120));
    prompts.push_back({i, ids, 12 + 3 * i});
  }
  return prompts;
}

std::vector<Ids> tokens_of(const std::vector<Generated>& all) {
  std::vector<Ids> tokens;
  for (const Generated& one : all) tokens.push_back(one.tokens);
  return tokens;
}

TEST_P(Generation, ABatchGivesTheTokensOfEachPromptAlone) {
  Maker maker(GetParam());
  Generator generator = maker.make(96);
  const std::vector<Prompt> prompts = some_prompts();
  const auto go_on = [](size_t, int32_t) { return true; };
  for (const double temperature : {0.0, 0.9}) {
    GenerateOptions options;
    options.sampling = {.temperature = temperature, .repetition_penalty = 1.3};
    const auto together = tokens_of(generate(generator, prompts, options, go_on));
    for (size_t i = 0; i < prompts.size(); ++i) {
      ASSERT_EQ(static_cast<int64_t>(together[i].size()), prompts[i].max_new_tokens);
      EXPECT_EQ(tokens_of(generate(generator, {&prompts[i], 1}, options, go_on)).front(),
                together[i])
          << "prompt " << i << " at temperature " << temperature;
    }
  }
}

TEST_P(Generation, LogitsDoNotDependOnTheRestOfTheBatch) {
  Maker maker(GetParam());
  for (const char* recipe : {"fp32", "bf16_mixed"}) {
    Generator generator = maker.make(96, recipe);
    const std::vector<std::vector<Ids>> steps{
        {{3, 14, 15}, Ids(70, 9), {92}, {65, 35}}, {{1}, {2}, {3}, {4}}, {{5}, {}, {6}, {7}}};
    generator.start(4);
    std::vector<Tensor> together;
    for (const std::vector<Ids>& step : steps) together.push_back(generator.feed(step));
    generator.start(1);
    for (size_t s = 0; s < steps.size(); ++s) {
      const Tensor alone = generator.feed({&steps[s][0], 1});
      EXPECT_EQ(std::memcmp(alone.raw(), together[s].raw(), static_cast<size_t>(alone.bytes())), 0)
          << recipe << ", step " << s;
    }
  }
}

TEST(Generate, RandomNumbersAreByPromptAndPosition) {
  Maker maker(kLlama);
  Generator generator = maker.make(64);
  const auto go_on = [](size_t, int32_t) { return true; };
  const std::vector<Prompt> twins{{4, {1, 2, 3}, 20}, {5, {1, 2, 3}, 20}, {4, {1, 2, 3}, 20}};
  const auto tokens = tokens_of(generate(generator, twins, {}, go_on));
  EXPECT_EQ(tokens[0], tokens[2]);
  EXPECT_NE(tokens[0], tokens[1]);
}

TEST(Generate, EndsATextWhereItIsTold) {
  Maker maker(kLlama);
  Generator generator = maker.make(64);
  const std::vector<Prompt> prompts{{0, {1, 2, 3}, 20}, {1, {4, 5}, 20}};
  int64_t first = 0;
  const auto all =
      generate(generator, prompts, {}, [&](size_t i, int32_t) { return i != 0 || ++first < 4; });
  EXPECT_EQ(all[0].reason, StopReason::stop_string);
  EXPECT_EQ(all[0].tokens.size(), 4u);
  EXPECT_EQ(all[1].reason, StopReason::length);
  EXPECT_EQ(all[1].tokens.size(), 20u);
}

TEST(Generate, LongPromptsGoInPassesOfTheirOwn) {
  const auto prompt = [](int64_t tokens) {
    return Prompt{0, Ids(static_cast<size_t>(tokens), 1), 1};
  };
  const std::vector<Prompt> prompts{prompt(1000), prompt(1000), prompt(100), prompt(5000),
                                    prompt(1)};
  std::vector<size_t> ends;
  for (const PromptPass& pass : prompt_passes(prompts)) ends.push_back(pass.end);
  EXPECT_EQ(ends, (std::vector<size_t>{2, 3, 4, 5}));
}

TEST(KeyValueCache, GrowsByBlocksAndForgetsNothing) {
  Maker maker(kLlama);
  const ModelConfig& config = maker.config;
  Generator generator = maker.make(config.max_positions);
  feed(generator, {1, 2, 3});
  const int64_t tag = static_cast<int64_t>(MemoryTag::kv_cache);
  const auto held = [&] { return maker.device->memory().bytes_by_tag[static_cast<size_t>(tag)]; };
  const int64_t rows = std::min(KeyValueCache::kBlock, config.max_positions);
  EXPECT_EQ(held(), 2 * config.layers * rows * config.kv_heads * config.head_dim * 4 + 2 * 4 + 4);

  // A cache that grows during the sequence, compared with one that has room for all of it from the
  // start.
  Device& device = *maker.device;
  OpContext context{device, maker.ops};
  const CacheShape shape{{3, 5}, 2, 4, 4, DType::f32, 3, 4 * KeyValueCache::kBlock};
  KeyValueCache grown(device, shape), ready(device, shape);
  ready.reserve(context, 3 * KeyValueCache::kBlock);
  std::vector<float> seen[2];
  int64_t number = 0;
  for (const std::vector<int64_t>& counts :
       {std::vector<int64_t>{5, 100, 0}, {1, 1, 1}, {300, 0, 7}, {2, 2, 2}}) {
    const int64_t tokens = counts[0] + counts[1] + counts[2];
    const Tensor k = device.allocate(DType::f32, {tokens, 2, 4}, MemoryTag::other);
    for (int64_t i = 0; i < k.elements(); ++i) k.data<float>()[i] = static_cast<float>(++number);
    int which = 0;
    for (KeyValueCache* cache : {&grown, &ready}) {
      cache->begin_step(context, counts);
      const auto view = cache->append(context, 5, k, k);
      cache->append(context, 3, k, k);
      cache->end_step();
      seen[which].clear();
      for (int64_t i = 0; i < 3; ++i) {
        const auto* row = view.k.data<float>() + i * cache->rows() * 8;
        seen[which].insert(seen[which].end(), row, row + cache->length(i) * 8);
      }
      ++which;
    }
    EXPECT_EQ(seen[0], seen[1]);
  }
  EXPECT_EQ(grown.length(0), 308);
  EXPECT_EQ(grown.rows(), 3 * KeyValueCache::kBlock);
  EXPECT_THROW(grown.begin_step(context, std::vector<int64_t>{300, 0, 0}), ShapeError);
  EXPECT_THROW(grown.append(context, 4, Tensor(), Tensor()), ShapeError);
}

}  // namespace
}  // namespace viaduct
