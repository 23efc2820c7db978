// The images' half of LLaVA's config.json, and the names of tensors in its forms.

#include "model/vision_config.h"

#include <gmock/gmock.h>

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "device/device.h"
#include "model/family.h"
#include "model/model.h"
#include "model/vision_names.h"
#include "support/paths.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kText = R"("text_config": {"model_type": "llama", "vocab_size": 40,
  "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2,
  "max_position_embeddings": 64})";
using Fields = std::map<std::string, std::string>;

/// The text of vision_config with other values of some fields, each as JSON.
std::string sizes(const Fields& others = {}) {
  Fields fields{{"hidden_size", "8"},       {"intermediate_size", "12"},
                {"num_hidden_layers", "4"}, {"num_attention_heads", "2"},
                {"image_size", "8"},        {"patch_size", "4"}};
  for (const auto& [name, value] : others) fields[name] = value;
  std::string text;
  for (const auto& [name, value] : fields)
    text += (text.empty() ? "" : ", ") + ("\"" + name + "\": " + value);
  return text;
}

std::string llava(const std::string& vision, const std::string& more = "") {
  return R"({"model_type": "llava", "image_token_index": 3, )" + more + kText +
         R"(, "vision_config": {)" + vision + "}}";
}

ModelConfig read(const std::string& text) {
  return read_hf_config(text, "config.json", ImageLayers::read);
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(VisionConfigTest, IsReadBesideTheTextModel) {
  const ModelConfig model = read(llava(sizes()));
  EXPECT_EQ(model.family, "llama");
  EXPECT_THAT(model.notes, IsEmpty());
  const VisionConfig& v = model.vision;
  EXPECT_EQ(v.tower, TowerKind::clip);
  EXPECT_EQ(v.patches(), 4);
  EXPECT_EQ(v.tokens(), 5);
  EXPECT_EQ(v.rows(), 4);
  EXPECT_THAT(v.feature_layers, ElementsAre(3));
  EXPECT_EQ(v.activation, ActivationKind::quick_gelu);
  EXPECT_EQ(v.norm_eps, 1e-5);
  EXPECT_EQ(v.image_token, 3);
}

TEST(VisionConfigTest, AbsentFieldsHaveTheDefaultsOfTheirClasses) {
  const ModelConfig model =
      read(R"({"model_type": "llava", "text_config": {"vocab_size": 32064}})");
  EXPECT_EQ(model.vision.hidden, 1024);
  EXPECT_EQ(model.vision.rows(), 576);
  EXPECT_THAT(model.vision.feature_layers, ElementsAre(23));
  EXPECT_EQ(model.vision.image_token, 32000);
  const VisionConfig siglip =
      read(llava(R"("model_type": "siglip_vision_model")", R"("image_token_id": 9, )")).vision;
  EXPECT_EQ(siglip.patch_size, 16);
  EXPECT_EQ(siglip.activation, ActivationKind::gelu_tanh);
  EXPECT_TRUE(siglip.pooling_head);
  EXPECT_EQ(siglip.tokens(), 196);
  EXPECT_EQ(siglip.rows(), 195);  // the strategy drops its first token too
}

TEST(VisionConfigTest, FeaturesOfSeveralLayersCountFromEitherEnd) {
  const auto layers = [](const std::string& given) {
    return read(llava(sizes(), R"("vision_feature_layer": )" + given + ", ")).vision.feature_layers;
  };
  EXPECT_THAT(layers("-1"), ElementsAre(4));
  EXPECT_THAT(layers("0"), ElementsAre(0));
  EXPECT_THAT(layers("[-2, 1, -5]"), ElementsAre(3, 1, 0));
  EXPECT_THAT(refusal(llava(sizes(), R"("vision_feature_layer": 5, )")),
              HasSubstr("vision_feature_layer: 5, expected -5 to 4"));
  EXPECT_THAT(refusal(llava(sizes(), R"("vision_feature_layer": [], )")),
              HasSubstr("vision_feature_layer: [], expected a layer"));
}

TEST(VisionConfigTest, WhatDoesNotFitIsRefusedByName) {
  EXPECT_THAT(refusal(llava(sizes({{"num_attention_heads", "3"}}))),
              HasSubstr("hidden_size: 8 does not divide by 3 heads"));
  EXPECT_THAT(refusal(llava(sizes({{"patch_size", "9"}}))), HasSubstr("patch_size: 9"));
  EXPECT_THAT(refusal(llava(sizes({{"image_size", "[8, 6]"}}))),
              HasSubstr("image_size: expected one number"));
  EXPECT_THAT(refusal(llava(sizes(), R"("vision_feature_select_strategy": "cls", )")),
              HasSubstr("expected default or full"));
  EXPECT_THAT(refusal(llava(sizes({{"rope_theta", "100.0"}}))), HasSubstr("rope_theta"));
  EXPECT_THAT(refusal(llava(sizes({{"num_hidden_layers", "0"}}))),
              HasSubstr("num_hidden_layers: 0"));
  const std::string outside = R"({"model_type": "llava", "image_token_index": 40, )" + kText +
                              R"(, "vision_config": {)" + sizes() + "}}";
  EXPECT_THAT(refusal(outside), HasSubstr("40 is outside of the vocabulary of 40"));
}

TEST(VisionConfigTest, KindsThatAreNotImplementedAreTheirTextModels) {
  const std::string pixtral = llava(sizes({{"model_type", R"("pixtral")"}}));
  EXPECT_FALSE(read(pixtral).vision.any());
  EXPECT_THAT(read(pixtral).notes, ElementsAre(HasSubstr("are left out")));
  EXPECT_FALSE(read_hf_config(llava(sizes()), "config.json").vision.any());
}

TEST(VisionConfigTest, Gemma3PoolsItsPatches) {
  const auto gemma = [](const std::string& more) {
    return R"({"model_type": "gemma3", "image_token_index": 3, )" + more + R"("text_config": {
      "model_type": "gemma3_text", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 20,
      "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8},
      "vision_config": {)" +
           sizes({{"model_type", R"("siglip_vision_model")"}, {"patch_size", "2"}}) + "}}";
  };
  const VisionConfig v = read(gemma(R"("mm_tokens_per_image": 4, )")).vision;
  EXPECT_EQ(v.tokens(), 16);
  EXPECT_EQ(v.rows(), 4);
  EXPECT_TRUE(v.sees_ahead);
  EXPECT_THAT(v.feature_layers, ElementsAre(4));
  EXPECT_THAT(refusal(gemma(R"("mm_tokens_per_image": 5, )")),
              HasSubstr("mm_tokens_per_image: 5, expected the square"));
  EXPECT_THAT(refusal(gemma(R"("mm_tokens_per_image": 9, )")),
              HasSubstr("4 patches of a side do not divide into 3 squares"));
  std::string dropped = gemma(R"("mm_tokens_per_image": 4, )");
  dropped.insert(dropped.find(R"("vocab_size")"), R"("attention_dropout": 0.1, )");
  EXPECT_THAT(refusal(dropped), HasSubstr("model.attention_dropout is not implemented with images "
                                          "that see tokens ahead of them, as in Gemma 3 "
                                          "(model.read_images); expected 0, or "
                                          "model.read_images=false"));
}

TEST(VisionConfigTest, WhatIsWrittenIsTheSameModel) {
  const std::string text = llava(sizes({{"model_type", R"("siglip_vision_model")"}}),
                                 R"("vision_feature_layer": [1, 2], "image_seq_length": 3,
               "viaduct_tower_names": "model.vision_tower.", )");
  const ModelConfig once = read(text), again = read(write_hf_config(once));
  EXPECT_EQ(again.vision.feature_layers, once.vision.feature_layers);
  EXPECT_EQ(again.vision.tower_prefix, "model.vision_tower.");
  EXPECT_EQ(again.hidden, 16);
  EXPECT_EQ(write_hf_config(again), write_hf_config(once));
  EXPECT_THAT(write_hf_config(once), HasSubstr("image_seq_length"));
}

/// Parameters of LLaVA 1.5 as its publisher counts them, those that nothing reads included.
TEST(VisionConfigTest, HasAsManyParametersAsThePublishedModel) {
  const auto file = test::test_data("published") / "llava-1.5-7b-hf.json";
  const ModelConfig config = read(read_file(file));
  const auto device = make_sim_device();  // only structure
  const auto model = build_model(*device, config, {.precision = precision_recipe("fp32")}, 1);
  int64_t elements = 0, unread = 0;
  for (const Parameter* parameter : model->parameters()) {
    for (const Part& part : parameter->parts) {
      elements += part.logical_shape.elements();
      if (!parameter->trained) unread += part.logical_shape.elements();
    }
  }
  EXPECT_EQ(elements, 7'063'427'072);
  EXPECT_EQ(unread, 12'596'224 + 2 * 1024);  // the last block and the norm after it
}

TEST(VisionNamesTest, FormsOfFolders) {
  struct Form {
    const char *prefix, *tower, *projector, *text, *head;
  };
  for (const Form& form :
       {Form{"vision_tower.vision_model.", "vision_tower.vision_model.encoder.x",
             "multi_modal_projector.linear_1.bias", "language_model.model.norm.weight",
             "language_model.lm_head.weight"},
        Form{"vision_tower.", "vision_tower.encoder.x", "multi_modal_projector.linear_1.bias",
             "language_model.model.norm.weight", "language_model.lm_head.weight"},
        Form{"model.vision_tower.vision_model.", "model.vision_tower.vision_model.encoder.x",
             "model.multi_modal_projector.linear_1.bias", "model.language_model.norm.weight",
             "lm_head.weight"},
        Form{"model.vision_tower.", "model.vision_tower.encoder.x",
             "model.multi_modal_projector.linear_1.bias", "model.language_model.norm.weight",
             "lm_head.weight"}}) {
    EXPECT_TRUE(is_tower_prefix(form.prefix));
    EXPECT_EQ(tower_prefix_of(form.tower), form.prefix);
    EXPECT_EQ(tower_prefix_of(form.text), std::nullopt);
    for (const auto& [stored, here] : {std::pair{form.tower, "vision_tower.encoder.x"},
                                       {form.projector, "multi_modal_projector.linear_1.bias"},
                                       {form.text, "model.norm.weight"},
                                       {form.head, "lm_head.weight"}}) {
      EXPECT_EQ(image_model_name(stored), here);
      EXPECT_EQ(stored_image_name(here, form.prefix), stored);
    }
  }
  EXPECT_FALSE(is_tower_prefix("vision_tower.vision_model"));
  EXPECT_FALSE(is_tower_prefix("visual."));
  EXPECT_EQ(image_model_name("vision_tower.vision_model.embeddings.position_ids"), std::nullopt);
  EXPECT_EQ(image_model_name("image_newline"), "image_newline");  // belongs to no parameter: said
}

}  // namespace
}  // namespace viaduct
