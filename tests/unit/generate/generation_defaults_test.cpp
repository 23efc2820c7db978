#include "generate/generation_defaults.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

GenerationDefaults read(const std::string& text) {
  return read_generation_defaults(TokenizerFiles("model", {{"generation_config.json", text}}));
}

TEST(GenerationDefaults, AreWhatTheModelsFileSays) {
  const GenerationDefaults read_ones =
      read(R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95,
               "repetition_penalty": 1.05, "max_new_tokens": 100, "eos_token_id": [1, 2]})");
  const SamplingOptions sampling = read_ones.sampling.over({});
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_k, 20);
  EXPECT_EQ(sampling.top_p, 0.95);
  EXPECT_EQ(sampling.repetition_penalty, 1.05);
  EXPECT_EQ(read_ones.max_new_tokens, 100);
  EXPECT_EQ(read_ones.where, "model/generation_config.json");
  EXPECT_EQ(sampling_text(sampling),
            "temperature 0.6, top-k 20, top-p 0.95, repetition penalty 1.05");
}

TEST(GenerationDefaults, ModelsThatDoNotSampleAreGreedy) {
  const GenerationDefaults greedy = read(R"({"do_sample": false, "temperature": 0.6})");
  EXPECT_EQ(greedy.sampling.temperature, 0);
  EXPECT_EQ(sampling_text(greedy.sampling.over({})), "greedy");
}

TEST(GenerationDefaults, WhatIsGivenComesFirst) {
  const GivenSampling given{.temperature = 2}, file{.temperature = 0.5, .top_k = 3};
  const SamplingOptions both = given.over(file.over({}));
  EXPECT_EQ(both.temperature, 2);
  EXPECT_EQ(both.top_k, 3);
  EXPECT_EQ(both.top_p, 1);
  EXPECT_EQ(sampling_text({}), "temperature 1");
}

TEST(GenerationDefaults, MayBeMissing) {
  EXPECT_FALSE(read_generation_defaults(TokenizerFiles()).sampling.any());
  const GenerationDefaults none = read(R"({"temperature": null, "eos_token_id": 2})");
  EXPECT_FALSE(none.sampling.any());
  EXPECT_FALSE(none.max_new_tokens);
}

TEST(GenerationDefaults, AreRefusedWhereTheyMakeNoSense) {
  const auto message = [](const char* text) -> std::string {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(R"({"temperature": "hot"})"), HasSubstr("temperature: expected a number"));
  EXPECT_THAT(message(R"({"top_k": -1})"), HasSubstr("top_k: expected a count"));
  EXPECT_THAT(message(R"({"do_sample": 1})"), HasSubstr("do_sample"));
  EXPECT_THAT(message(R"({"top_p": 1.5})"), HasSubstr("generation_config.json: top-p"));
  EXPECT_THAT(message("[]"), HasSubstr("JSON object"));
}

}  // namespace
}  // namespace viaduct
