#include "generate/kept_sequence.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "generate/generate.h"
#include "model/family.h"
#include "model/initialize.h"
#include "ops/cpu/cpu_ops.h"
#include "support/instruction_set.h"

namespace viaduct {
namespace {

using testing::ElementsAreArray;
using Ids = std::vector<int32_t>;

// A window shorter than the conversation: truncation must not leave it holes.
const char* const kGemma2 = R"({"model_type": "gemma2", "hidden_size": 32, "intermediate_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
  "vocab_size": 128, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
  "hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 5.0,
  "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 8, "sliding_window": 7,
  "tie_word_embeddings": true, "initializer_range": 0.3})";
const char* const kLatent =
    R"({"model_type": "deepseek_v2", "hidden_size": 32, "intermediate_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128,
  "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "q_lora_rank": 24, "kv_lora_rank": 16,
  "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 6, "n_routed_experts": 4,
  "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1,
  "first_k_dense_replace": 1, "initializer_range": 0.3})";

class KeptSequences : public testing::TestWithParam<const char*> {
 protected:
  KeptSequences()
      : config_(read_hf_config(GetParam(), "model")),
        generator_(*device_, ops_, config_, {layers_, parallelism_, memory_, kPositions}) {
    OpContext context = generator_.context();
    initialize_parameters(context, generator_.store(), 5);
    options_.sampling.temperature = 0;
  }

  /// What the prompt gives without anything cached.
  Ids fresh(const Prompt& prompt) {
    Generator other(*device_, ops_, config_, {layers_, parallelism_, memory_, kPositions});
    OpContext context = other.context();
    initialize_parameters(context, other.store(), 5);
    return generate(other, {&prompt, 1}, options_, [](size_t, int32_t) { return true; })
        .front()
        .tokens;
  }
  Generated answer(KeptSequence& kept, const Prompt& prompt) {
    return kept.answer(prompt, options_, [](int32_t) { return true; });
  }

  static constexpr int64_t kPositions = 1400;
  std::unique_ptr<Device> device_ = make_cpu_device(2);
  OpTable ops_ = cpu_ops(test::instruction_set());
  LayerSettings layers_;
  Parallelism parallelism_;
  MemorySettings memory_;
  ModelConfig config_;
  Generator generator_;
  GenerateOptions options_;
};

Ids some_tokens(size_t count, int32_t step) {
  Ids ids;
  for (size_t i = 0; i < count; ++i)
    ids.push_back((static_cast<int32_t>(i) * step + step * step) % 128);
  return ids;
}

Ids joined(Ids ids, const Ids& more) {
  ids.insert(ids.end(), more.begin(), more.end());
  return ids;
}

TEST_P(KeptSequences, LaterTurnsComputeOnlyWhatIsNew) {
  KeptSequence kept(generator_);
  Prompt turn{0, some_tokens(30, 7), 12};
  for (int32_t number = 1; number < 4; ++number) {
    const Ids before = kept.cached();
    const Generated got = answer(kept, turn);
    EXPECT_EQ(kept.reused(), static_cast<int64_t>(before.size()));
    EXPECT_THAT(got.tokens, ElementsAreArray(fresh(turn))) << "turn " << number;
    // The last token was chosen and not fed.
    const Ids text = joined(turn.ids, got.tokens);
    EXPECT_THAT(kept.cached(), ElementsAreArray(text.begin(), text.end() - 1));
    turn.ids = joined(text, some_tokens(9, number));
  }
}

TEST_P(KeptSequences, ADivergenceTruncatesTheCache) {
  KeptSequence kept(generator_);
  const Prompt first{0, some_tokens(40, 7), 12};
  answer(kept, first);
  Prompt other = first;
  other.ids.resize(25);
  other.ids.back() = (other.ids.back() + 1) % 128;
  EXPECT_THAT(answer(kept, other).tokens, ElementsAreArray(fresh(other)));
  EXPECT_EQ(kept.reused(), 24);
  // A prompt that is cached as a whole feeds its last token again.
  EXPECT_THAT(answer(kept, other).tokens, ElementsAreArray(fresh(other)));
  EXPECT_EQ(kept.reused(), 24);
  const Prompt unrelated{0, {99}, 5};
  EXPECT_THAT(answer(kept, unrelated).tokens, ElementsAreArray(fresh(unrelated)));
  EXPECT_EQ(kept.reused(), 0);
}

TEST_P(KeptSequences, LongPromptsGoInPasses) {
  KeptSequence kept(generator_);
  const Prompt prompt{0, some_tokens(2 * KeptSequence::kPassTokens + 100, 11), 6};
  EXPECT_THAT(answer(kept, prompt).tokens, ElementsAreArray(fresh(prompt)));
}

TEST_P(KeptSequences, AnInterruptedAnswerCanBeGoneOnWith) {
  KeptSequence kept(generator_);
  const Prompt prompt{0, some_tokens(30, 7), 20};
  const Ids whole = fresh(prompt);
  int64_t asked = 0;
  options_.interrupted = [&] { return ++asked > 5; };
  const Generated part = answer(kept, prompt);
  EXPECT_EQ(part.reason, StopReason::interrupted);
  EXPECT_THAT(part.tokens, ElementsAreArray(whole.begin(), whole.begin() + 5));
  options_.interrupted = nullptr;
  const Prompt rest{0, joined(prompt.ids, part.tokens), 15};
  EXPECT_THAT(answer(kept, rest).tokens, ElementsAreArray(whole.begin() + 5, whole.end()));
  EXPECT_EQ(kept.reused(), 34);
}

TEST_P(KeptSequences, ALongPromptIsInterruptedAfterAPass) {
  KeptSequence kept(generator_);
  const Prompt prompt{0, some_tokens(2 * KeptSequence::kPassTokens + 100, 11), 6};
  options_.interrupted = [] { return true; };
  const Generated none = answer(kept, prompt);
  EXPECT_EQ(none.reason, StopReason::interrupted);
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_EQ(static_cast<int64_t>(kept.cached().size()), KeptSequence::kPassTokens);
  options_.interrupted = nullptr;
  EXPECT_THAT(answer(kept, prompt).tokens, ElementsAreArray(fresh(prompt)));
  EXPECT_EQ(kept.reused(), KeptSequence::kPassTokens);
}

TEST_P(KeptSequences, AnErrorLeavesTheCacheUsable) {
  KeptSequence kept(generator_);
  const Prompt prompt{0, some_tokens(30, 7), 8};
  answer(kept, prompt);
  EXPECT_THROW(answer(kept, {0, some_tokens(5, 3), kPositions}), ConfigError);
  EXPECT_THROW(answer(kept, {0, joined(prompt.ids, {128}), 1}), ShapeError);
  int64_t asked = 0;
  options_.interrupted = [&]() -> bool {
    VIADUCT_CHECK(Error, ++asked < 3, "no more");
    return false;
  };
  EXPECT_THROW(answer(kept, {0, some_tokens(20, 3), 8}), Error);
  options_.interrupted = nullptr;
  EXPECT_THAT(answer(kept, prompt).tokens, ElementsAreArray(fresh(prompt)));
}

INSTANTIATE_TEST_SUITE_P(Models, KeptSequences, testing::Values(kGemma2, kLatent),
                         [](const auto& info) { return info.index == 0 ? "window" : "latent"; });

TEST(Generator, TruncatesToTokensThatItHas) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const OpTable ops = cpu_ops(test::instruction_set());
  const ModelConfig config = read_hf_config(kGemma2, "model");
  const LayerSettings layers;
  const Parallelism parallelism;
  const MemorySettings memory;
  Generator generator(*device, ops, config, {layers, parallelism, memory, 16});
  OpContext context = generator.context();
  initialize_parameters(context, generator.store(), 5);
  generator.feed(std::vector<Ids>{{1, 2, 3}});
  EXPECT_THROW(generator.truncate(0, 4), ShapeError);
  EXPECT_THROW(generator.truncate(0, -1), ShapeError);
  generator.truncate(0, 1);
  EXPECT_EQ(generator.length(0), 1);
}

}  // namespace
}  // namespace viaduct
