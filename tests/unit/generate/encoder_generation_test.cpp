// Generation of a model with an encoder: transformers' logits, the cache, batches, and errors.

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "generate/generate.h"
#include "ops/cpu/cpu_ops.h"
#include "run/resolved_run.h"
#include "support/instruction_set.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using test::test_data;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

class EncoderGeneration : public testing::TestWithParam<std::string> {
 protected:
  Generator make(int64_t positions) {
    const ModelFolder folder = resolve_model_folder(this->folder() / "model");
    config_ = read_model_config(folder);
    Generator generator(*device_, ops_, config_,
                        {run_.layers, run_.parallelism, run_.memory, positions});
    OpContext context = generator.context();
    load_parameters(context, generator.store(), *open_weights(folder), config_);
    return generator;
  }
  std::filesystem::path folder() const { return test_data("golden") / GetParam(); }
  /// The rows of the reference's encoder without padding.
  std::vector<Ids> inputs() const {
    const SafetensorsFile file(folder() / "golden.safetensors");
    const Tensor ids = file.tensor("input_ids"), mask = file.tensor("attention_mask");
    std::vector<Ids> rows(static_cast<size_t>(ids.dim(0)));
    for (int64_t at = 0; at < ids.elements(); ++at)
      if (mask.data<int64_t>()[at] != 0)
        rows[static_cast<size_t>(at / ids.dim(1))].push_back(
            static_cast<int32_t>(ids.data<int64_t>()[at]));
    return rows;
  }
  static std::vector<Prompt> prompts() {
    std::vector<Prompt> list;
    for (int64_t i = 0; i < 4; ++i) {
      Prompt prompt{i, {0}, 6 + 5 * i};
      for (int64_t t = 0; t < 3 + 9 * ((i * 3) % 4); ++t)
        prompt.input.push_back(static_cast<int32_t>(2 + (17 * i + 5 * t) % 240));
      list.push_back(prompt);
    }
    return list;
  }
  static std::vector<Ids> tokens_of(const std::vector<Generated>& all) {
    std::vector<Ids> tokens;
    for (const Generated& one : all) tokens.push_back(one.tokens);
    return tokens;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(2);
  OpTable ops_ = cpu_ops(test::instruction_set());
  ResolvedRun run_;
  ModelConfig config_;
};

void expect_near(const Tensor& got, int64_t row, const float* expected, double limit) {
  for (int64_t v = 0; v < got.dim(1); ++v) {
    ASSERT_NEAR(got.data<float>()[row * got.dim(1) + v], expected[v],
                limit * std::max(1.0, std::abs(static_cast<double>(expected[v]))))
        << "logit " << v;
  }
}

/// The reference's decoder rows are fed token by token, so that all but the first see a cache.
TEST_P(EncoderGeneration, GivesTheReferencesLogits) {
  const SafetensorsFile file(folder() / "golden.safetensors");
  const Tensor ids = file.tensor("decoder_input_ids"), logits = file.tensor("logits");
  Generator generator = make(ids.dim(1));
  const std::vector<Ids> inputs = this->inputs();
  generator.start_with(inputs);
  for (int64_t t = 0; t < ids.dim(1); ++t) {
    std::vector<Ids> next;
    for (int64_t row = 0; row < ids.dim(0); ++row)
      next.push_back({static_cast<int32_t>(ids.data<int64_t>()[row * ids.dim(1) + t])});
    const Tensor got = generator.feed(next);
    for (int64_t row = 0; row < ids.dim(0); ++row) {
      SCOPED_TRACE("row " + std::to_string(row) + " token " + std::to_string(t));
      expect_near(got, row, logits.data<float>() + (row * ids.dim(1) + t) * logits.dim(2), 2e-4);
    }
  }
}

/// Several tokens at once, and sequences that begin in different passes.
TEST_P(EncoderGeneration, PiecesAndPassesGiveTheSame) {
  Generator generator = make(8);
  const std::vector<Ids> inputs = this->inputs(), whole{{0, 5, 9, 7}, {0, 3, 4}};
  generator.start_with(inputs);
  const Tensor expected = generator.feed(whole);
  const auto steps = std::vector<std::vector<Ids>>{{{}, {0}}, {{0, 5}, {3}}, {{9}, {}}, {{7}, {4}}};
  generator.start_with(inputs);
  Tensor got;
  for (const std::vector<Ids>& step : steps) got = generator.feed(step);
  for (const int64_t row : {0, 1})
    expect_near(got, row, expected.data<float>() + row * expected.dim(1), 1e-4);
  // From the beginning again, over what was kept.
  generator.truncate(0, 0);
  const Tensor again = generator.feed(std::vector<Ids>{{0, 5, 9, 7}, {}});
  expect_near(again, 0, expected.data<float>(), 1e-4);
}

TEST_P(EncoderGeneration, ABatchGivesTheTokensOfEachPromptAlone) {
  Generator generator = make(40);
  const std::vector<Prompt> prompts = this->prompts();
  const auto go_on = [](size_t, int32_t) { return true; };
  for (const double temperature : {0.0, 0.9}) {
    GenerateOptions options;
    options.sampling = {.temperature = temperature, .repetition_penalty = 1.2};
    const auto together = tokens_of(generate(generator, prompts, options, go_on));
    for (size_t i = 0; i < prompts.size(); ++i) {
      ASSERT_EQ(static_cast<int64_t>(together[i].size()), prompts[i].max_new_tokens);
      EXPECT_EQ(tokens_of(generate(generator, {&prompts[i], 1}, options, go_on)).front(),
                together[i])
          << "prompt " << i << " at temperature " << temperature;
    }
  }
}

TEST_P(EncoderGeneration, TheEncoderRunsOnceAndItsKeysAreKept) {
  Generator generator = make(8);
  const std::vector<Ids> inputs = this->inputs();
  const auto tag = static_cast<size_t>(MemoryTag::kv_cache);
  generator.start(2);
  const int64_t before = device_->memory().bytes_by_tag[tag];
  generator.start_with(inputs);
  const auto tokens = static_cast<int64_t>(inputs[0].size() + inputs[1].size());
  EXPECT_EQ(device_->memory().bytes_by_tag[tag] - before,
            2 * config_.layers * tokens * config_.kv_heads * config_.head_dim * 4 + 3 * 4);
  const auto encoder_segments = [&](const std::vector<Ids>& step) {
    StepRecord record;
    device_->set_record(&record);
    generator.feed(step);
    device_->set_record(nullptr);
    return std::ranges::count_if(record.scopes(), [](const ScopeRecord& scope) {
      return scope.name.starts_with("encoder.");
    });
  };
  EXPECT_EQ(encoder_segments({{0}, {0}}), 2 * config_.encoder.layers + 2);
  EXPECT_EQ(encoder_segments({{5}, {6}}), 0);
  EXPECT_EQ(encoder_segments({{7}, {}}), 0);
}

TEST_P(EncoderGeneration, EndsAtTheEndToken) {
  Generator generator = make(40);
  GenerateOptions options;
  options.sampling.temperature = 0;
  const std::vector<Prompt> prompts{this->prompts()[3]};
  const auto go_on = [](size_t, int32_t) { return true; };
  const Ids all = generate(generator, prompts, options, go_on)[0].tokens;
  options.stop_tokens = {all[4]};
  const auto end = std::ranges::find(all, all[4]);
  const Generated got = generate(generator, prompts, options, go_on)[0];
  EXPECT_EQ(got.reason, StopReason::stop_token);
  EXPECT_THAT(got.tokens, ElementsAreArray(all.begin(), end));
}

TEST_P(EncoderGeneration, RefusesWhatHasNoInput) {
  Generator generator = make(8);
  const auto message = [&](const std::vector<Prompt>& prompts) {
    try {
      check_prompts(generator, prompts);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({{0, {0}, 2}}), HasSubstr("0 tokens for an encoder, and the model has one"));
  generator.start(1);
  EXPECT_THAT([&] { generator.feed(std::vector<Ids>{{0}}); },
              ThrowsMessage<ShapeError>(HasSubstr("whose sequences have no inputs")));
  EXPECT_THROW(generator.start_with(std::vector<Ids>{{}}), ShapeError);
  EXPECT_THROW(generator.start_with(std::vector<Ids>{{4000}}), ShapeError);
}

INSTANTIATE_TEST_SUITE_P(Models, EncoderGeneration, testing::Values("t5", "t5_v1_1"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace viaduct
