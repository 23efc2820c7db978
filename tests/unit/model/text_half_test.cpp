// The text model of a config.json that takes images too: the same model as its family's own file
// describes.

#include "model/text_half.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "model/family.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kSizes = R"("vocab_size": 30, "hidden_size": 16, "intermediate_size": 20,
  "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 2,
  "max_position_embeddings": 64)";

std::string file(const std::string& type, const std::string& fields) {
  return R"({"model_type": ")" + type + R"(", )" + fields + "}";
}

ModelConfig read(const std::string& text) {
  return read_hf_config(text, "config.json");
}

std::string written(const std::string& text) {
  return write_hf_config(read(text));
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(TextHalf, IsTheModelOfItsFamilysOwnFile) {
  const std::string text = kSizes + R"(, "head_dim": 8, "sliding_window": 9)";
  const std::string outer =
      R"("eos_token_id": [1, 5], "image_token_index": 7, "mm_tokens_per_image": 4,
      "architectures": ["Gemma3ForConditionalGeneration"], "vision_config": {"hidden_size": 8},
      "text_config": )" +
      file("gemma3_text", text);
  EXPECT_EQ(written(file("gemma3", outer)),
            written(file("gemma3_text", text + R"(, "eos_token_id": [1, 5])")));
  EXPECT_THAT(read(file("gemma3", outer)).notes,
              ElementsAre(AllOf(HasSubstr("config.json: a gemma3 model"),
                                HasSubstr("text model (gemma3_text)"), HasSubstr("images"))));
  EXPECT_FALSE(text_half(file("gemma3_text", text), "config.json"));
}

/// With text alone each section of a head rotates by the same position.
TEST(TextHalf, SectionsOfRotaryPositionsCountAlike) {
  const std::string base = R"(, "rope_theta": 500.0, "rms_norm_eps": 1e-6)";
  const std::string plain = written(file("qwen2", kSizes + base));
  const std::string sections = R"("mrope_section": [1, 1, 2])";
  for (const std::string& scaling :
       {R"("rope_scaling": {"type": "mrope", )" + sections + "}",
        R"("rope_scaling": {"type": "default", "rope_type": "default", )" + sections + "}",
        R"("rope_parameters": {"rope_type": "default", "rope_theta": 500.0, )" + sections + "}"}) {
    const std::string fields = kSizes + base + ", " + scaling;
    EXPECT_EQ(written(file("qwen2_vl", fields + R"(, "vision_config": {"depth": 2})")), plain)
        << scaling;
    EXPECT_EQ(written(file("qwen2_5_vl", R"("text_config": )" + file("qwen2_5_vl_text", fields))),
              plain)
        << scaling;
  }
  const std::string third =
      R"("text_config": )" + file("qwen3_vl_text", kSizes +
                                                       R"(, "rope_scaling": {"rope_type": "default",
        "mrope_interleaved": true, )" + sections + "}");
  EXPECT_EQ(written(file("qwen3_vl", third)),
            written(file("qwen3", kSizes + R"(, "rope_theta": 500000.0)")));
}

TEST(TextHalf, SectionsOfQwen2FillHalfAHead) {
  for (const char* field : {"rope_scaling", "rope_parameters"})
    for (const char* sections : {"[1, 1, 1]", "[1, 1, 3]", "[-1, 2, 3]", "[1.5, 1.5, 1]", "4"})
      EXPECT_THAT(refusal(file("qwen2_vl", kSizes + ", \"" + field +
                                               R"(": {"type": "default", "mrope_section": )" +
                                               sections + "}")),
                  HasSubstr("whose sum is 4"))
          << field << sections;
}

TEST(TextHalf, AbsentFieldsHaveTheDefaultsOfTheirClass) {
  const ModelConfig llava = read(R"({"model_type": "llava", "text_config": {"vocab_size": 90}})");
  EXPECT_EQ(llava.family, "llama");
  EXPECT_EQ(llava.feed_forward, 11008);
  EXPECT_EQ(llava.vocabulary, 90);
  const ModelConfig mistral = read(R"({"model_type": "mistral3", "text_config": {}})");
  EXPECT_EQ(mistral.kv_heads, 8);
  const ModelConfig qwen = read(R"({"model_type": "qwen2_vl", "text_config": {}})");
  EXPECT_EQ(qwen.layers, 80);
  EXPECT_EQ(qwen.norm_eps, 1e-5);
  EXPECT_EQ(qwen.rotary.base, 1e6);
}

TEST(TextHalf, TablesAreTiedWhereEitherPlaceSaysSo) {
  const auto tied = [](const std::string& outer, const std::string& inner) {
    return read(file("llava", outer + R"("text_config": {"vocab_size": 90)" + inner + "}"))
        .tied_embeddings;
  };
  const std::string yes = R"("tie_word_embeddings": true)", no = R"("tie_word_embeddings": false)";
  EXPECT_FALSE(tied("", ""));
  EXPECT_TRUE(tied(yes + ", ", ""));
  EXPECT_TRUE(tied(no + ", ", ", " + yes));
  EXPECT_FALSE(tied(no + ", ", ""));
}

TEST(TextHalf, WhatIsNoFamilyIsRefusedByName) {
  EXPECT_THAT(refusal(R"({"model_type": "llava"})"),
              HasSubstr("text_config, the fields of the text model of a llava, is missing"));
  EXPECT_THAT(refusal(R"({"model_type": "llava", "text_config": [1]})"),
              HasSubstr("is array, expected an object"));
  EXPECT_THAT(refusal(R"({"model_type": "llava", "text_config": {"model_type": "rwkv"}})"),
              HasSubstr("model_type rwkv is not supported: its layers of RWKV pass a state"));
  EXPECT_THAT(refusal(R"({"model_type": "paligemma", "text_config": {}})"),
              HasSubstr("in both directions"));
}

TEST(TextHalf, NamesOfTensors) {
  EXPECT_EQ(text_half_name("language_model.model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(text_half_name("model.language_model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(text_half_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(text_half_name("model.layers.0.mlp.up_proj.weight"),
            "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(text_half_name("lm_head.weight"), "lm_head.weight");
  for (const char* name :
       {"visual.blocks.0.attn.qkv.weight", "model.visual.merger.weight", "vision_tower.x",
        "model.vision_tower.x", "multi_modal_projector.linear_1.bias", "image_newline"})
    EXPECT_FALSE(text_half_name(name)) << name;
  EXPECT_EQ(text_half_name("adapter.weight"), "adapter.weight");  // belongs to no parameter: said
}

}  // namespace
}  // namespace viaduct
