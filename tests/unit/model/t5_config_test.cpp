// config.json of T5: its three versions, as transformers 4 and 5 write them, and what is refused.

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "model/family.h"
#include "model/model_from_fields.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// A config.json with `fields` in place of those of the same name.
std::string config(const std::string& fields) {
  auto json = nlohmann::json::parse(
      R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 16,
      "d_kv": 3, "d_ff": 20, "num_heads": 4, "num_layers": 3, "num_decoder_layers": 2,
      "vocab_size": 30, "dropout_rate": 0.0})");
  json.update(nlohmann::json::parse("{" + fields + "}"));
  return json.dump();
}

ModelConfig read(const std::string& fields) {
  return read_hf_config(config(fields), "config.json");
}

TEST(T5Config, TheFirstVersionIsTiedScaledAndWithoutGate) {
  const ModelConfig model = read("");
  EXPECT_EQ(model.encoder.layers, 3);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.positions, PositionKind::relative);
  EXPECT_EQ(model.relative, (RelativePositions{32, 128}));
  EXPECT_EQ(model.attention_scale, 1);
  EXPECT_EQ(model.activation, ActivationKind::relu);
  EXPECT_FALSE(model.gated);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.logit_scale, 0.25);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_TRUE(model.notes.empty());
}

TEST(T5Config, LaterVersionsHaveAGateAndAHeadThatIsNotScaled) {
  const ModelConfig model =
      read(R"("feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)");
  EXPECT_TRUE(model.gated);
  EXPECT_EQ(model.activation, ActivationKind::gelu_tanh);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_EQ(model.logit_scale, 1);
}

/// transformers 5 writes that embedding and head are tied, and a field of its own for the scale.
TEST(T5Config, AFieldOfItsOwnSaysWhetherTheHeadIsScaled) {
  const ModelConfig model = read(R"("tie_word_embeddings": true, "scale_decoder_outputs": false)");
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.logit_scale, 1);
  EXPECT_EQ(read(R"("scale_decoder_outputs": true, "tie_word_embeddings": false)").logit_scale,
            0.25);
}

TEST(T5Config, WhatIsWrittenIsReadBack) {
  for (const char* fields :
       {"", R"("feed_forward_proj": "gated-gelu", "tie_word_embeddings": false)",
        R"("feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 16,
           "relative_attention_max_distance": 40, "decoder_start_token_id": 2, "pad_token_id": 3)",
        R"("tie_word_embeddings": true, "scale_decoder_outputs": false, "eos_token_id": 1)",
        R"("dense_act_fn": "gelu", "feed_forward_proj": "gated-gelu", "is_gated_act": true)"}) {
    const ModelConfig model = read(fields);
    const std::string text = write_hf_config(model);
    const ModelConfig again = read_hf_config(text, "config.json");
    EXPECT_EQ(write_hf_config(again), text) << fields;
    EXPECT_EQ(again.encoder, model.encoder) << fields;
    EXPECT_EQ(again.relative, model.relative) << fields;
    EXPECT_EQ(again.activation, model.activation) << fields;
    EXPECT_EQ(again.gated, model.gated) << fields;
    EXPECT_EQ(again.logit_scale, model.logit_scale) << fields;
    EXPECT_EQ(again.tied_embeddings, model.tied_embeddings) << fields;
    // Fields of section `model` express all of it, except for its special tokens.
    ModelFields section;
    take_architecture(section, model);
    section.resolve();
    EXPECT_EQ(write_hf_config(to_model_config(section, model)), text) << fields;
  }
}

TEST(T5Config, OneRateOfDropoutIsThatOfAll) {
  const ModelConfig model = read(R"("dropout_rate": 0.2)");
  EXPECT_EQ(model.residual_dropout, 0.2);
  EXPECT_EQ(model.attention_dropout, 0.2);
  EXPECT_EQ(model.embedding_dropout, 0.2);
}

TEST(T5Config, DefaultsOfTheFamilyAreThoseOfTheFirstVersion) {
  ModelFields fields;
  fields.family.resolve("t5");
  fields.num_layers.resolve(2), fields.hidden_size.resolve(16);
  fields.num_attention_heads.resolve(4), fields.vocab_size.resolve(30);
  fields.seq_length.resolve(8);
  fields.resolve();
  const ModelConfig model = to_model_config(fields);
  EXPECT_EQ(model.encoder.layers, 2);
  EXPECT_EQ(model.positions, PositionKind::relative);
  EXPECT_EQ(model.attention_scale, 1);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.logit_scale, 0.25);
}

std::string refusal(const std::string& fields) {
  try {
    read(fields);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(T5Config, RefusesWhatItDoesNotCompute) {
  EXPECT_THAT(refusal(R"("is_encoder_decoder": false)"), HasSubstr("is_encoder_decoder=false"));
  EXPECT_THAT(refusal(R"("num_layers": 0)"), HasSubstr("num_layers 0"));
  EXPECT_THAT(refusal(R"("relative_attention_num_buckets": 7)"), HasSubstr("an even number"));
  EXPECT_THAT(refusal(R"("architectures": ["T5EncoderModel"])"),
              HasSubstr("T5EncoderModel is not supported"));
  EXPECT_THAT(refusal(R"("tie_encoder_decoder": true)"), HasSubstr("tie_encoder_decoder"));
}

TEST(T5Config, AnEncoderNeedsAFamilyThatHasOne) {
  ModelConfig llama = read_hf_config(R"({"model_type": "llama", "vocab_size": 30, "hidden_size": 16,
    "intermediate_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
    "max_position_embeddings": 64})",
                                     "config.json");
  llama.encoder.layers = 2;
  EXPECT_THAT([&] { check_model_config(llama); },
              ThrowsMessage<ConfigError>(HasSubstr("family llama has no names for an encoder")));
  ModelConfig decoder = read("");
  decoder.encoder.layers = 0;
  EXPECT_THAT([&] { check_model_config(decoder); },
              ThrowsMessage<ConfigError>(HasSubstr("models of family t5 have an encoder")));
}

}  // namespace
}  // namespace viaduct
