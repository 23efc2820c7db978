// Adapters of models with images in PEFT's files: the class's names there, ours here, what nothing
// reads left out, and the text model alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/adapter_base.h"
#include "checkpoint/merged_weights.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/peft_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/adapter_modules.h"
#include "model/vision_names.h"
#include "support/golden.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::TemporaryFolder;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::filesystem::path lora() {
  return test_data("golden/lora_llava_clip/adapter");
}

ModelFolder folder_of(const std::string& name, ImageLayers images = ImageLayers::read) {
  ModelFolder folder = resolve_model_folder(test_data("golden") / name / "model");
  folder.images = images;
  return folder;
}

ModelConfig model_of(const std::string& name, ImageLayers images = ImageLayers::read) {
  return read_model_config(folder_of(name, images));
}

std::map<std::string, Tensor> tensors_of(const std::filesystem::path& adapter) {
  const SafetensorsFile file(adapter / kAdapterWeightsFile);
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.tensor(info.name);
  return tensors;
}

/// `lora_llava_clip` with other names, and `changes` of its configuration.
void write_renamed(const std::filesystem::path& to,
                   const std::function<std::string(const std::string&)>& name,
                   const json& changes = json::object()) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [stored, tensor] : tensors_of(lora()))
    tensors[kAdapterPrefix + name(without_adapter_prefix(stored))] = tensor;
  std::filesystem::create_directories(to);
  write_safetensors(to / kAdapterWeightsFile, tensors);
  json config = json::parse(read_file(lora() / kAdapterConfigFile));
  config.update(changes);
  write_file_atomically(to / kAdapterConfigFile, config.dump());
}

TEST(PeftImages, AreReadUnderTheNamesHere) {
  const PeftAdapter adapter = open_adapter(lora(), model_of("llava_clip"));
  // Seven layers of each text block, six of the tower's two blocks that are read, and two more.
  EXPECT_EQ(adapter.settings.modules.size(), 28u);
  for (const char* module :
       {"model.layers.1.mlp.up_proj", "vision_tower.encoder.layers.1.mlp.fc1",
        "vision_tower.encoder.layers.0.self_attn.out_proj", "multi_modal_projector.linear_2"}) {
    EXPECT_TRUE(adapter.settings.of(module)) << module;
    EXPECT_TRUE(adapter.tensors->contains(kAdapterPrefix + std::string(module) + kAdapterA));
  }
  EXPECT_FALSE(adapter.settings.of("vision_tower.encoder.layers.2.mlp.fc1"));
}

TEST(PeftImages, TheTextModelAloneHasItsPart) {
  const PeftAdapter adapter = open_adapter(lora(), model_of("llava_clip", ImageLayers::left_out));
  EXPECT_EQ(adapter.settings.modules.size(), 14u);
  for (const TensorInfo& info : adapter.tensors->tensors())
    EXPECT_TRUE(info.name.starts_with("base_model.model.model.layers.")) << info.name;
}

TEST(PeftImages, OlderFormsOfNamesAreTheSameAdapter) {
  const TemporaryFolder folder;
  const ModelConfig model = model_of("llava_clip");
  const PeftAdapter expected = open_adapter(lora(), model);
  for (const std::string prefix :
       {"vision_tower.vision_model.", "model.vision_tower.vision_model."}) {
    SCOPED_TRACE(prefix);
    write_renamed(
        folder / prefix,
        [&](const std::string& name) { return stored_image_name(*image_model_name(name), prefix); },
        // Whole names, as the files have them, and an expression.
        {{"rank_pattern", {{stored_image_name("model.layers.0.mlp.up_proj", prefix), 3}}}});
    const PeftAdapter adapter = open_adapter(folder / prefix, model);
    EXPECT_EQ(adapter.settings.modules, expected.settings.modules);
    for (const TensorInfo& info : expected.tensors->tensors())
      EXPECT_EQ(bytes_of(adapter.tensors->tensor(info.name)),
                bytes_of(expected.tensors->tensor(info.name)));
  }
}

TEST(PeftImages, AreWrittenUnderTheNamesOfTheClass) {
  const TemporaryFolder folder;
  const ModelConfig model = model_of("llava_clip");
  PeftAdapter adapter = open_adapter(lora(), model);
  adapter.settings.modules.at("model.layers.0.mlp.up_proj").alpha = 7;
  adapter.config = peft_config_text(adapter.settings, model, "base");
  write_peft_folder(adapter, model, folder / "peft");
  const auto before = tensors_of(lora()), after = tensors_of(folder / "peft");
  EXPECT_EQ(after.size(), 56u);
  for (const auto& [name, tensor] : after) {
    ASSERT_TRUE(before.contains(name)) << name;
    EXPECT_EQ(bytes_of(tensor), bytes_of(before.at(name)));
  }
  // Whole names: the ends are those of parts that nothing reads, too.
  const json config = json::parse(read_file(folder / "peft" / kAdapterConfigFile));
  EXPECT_EQ(config.at("target_modules").size(), 28u);
  EXPECT_THAT(config.at("target_modules").get<std::vector<std::string>>(),
              testing::Contains("model.vision_tower.encoder.layers.1.self_attn.q_proj"));
  EXPECT_EQ(config.at("alpha_pattern"), json({{"model.language_model.layers.0.mlp.up_proj", 7}}));
  EXPECT_EQ(open_adapter(folder / "peft", model).settings.modules, adapter.settings.modules);
}

TEST(PeftImages, ProjectorsThatTrainWholeAreRead) {
  const TemporaryFolder folder;
  const ModelConfig model = model_of("llava_clip");
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : tensors_of(lora()))
    if (name.find("language_model") != std::string::npos) tensors[name] = tensor;
  const std::string projector = "base_model.model.model.multi_modal_projector.linear_";
  tensors[projector + "1.weight"] = host_tensor(DType::f32, {24, 16});
  tensors[projector + "2.weight"] = host_tensor(DType::f32, {24, 24});
  for (const char* layer : {"1.bias", "2.bias"})
    tensors[projector + layer] = host_tensor(DType::f32, {24});
  write_safetensors(folder / kAdapterWeightsFile, tensors);
  json config = json::parse(read_file(lora() / kAdapterConfigFile));
  config["modules_to_save"] = json::array({"multi_modal_projector"});
  write_file_atomically(folder / kAdapterConfigFile, config.dump());
  const std::set<std::string> expected{"multi_modal_projector.linear_1",
                                       "multi_modal_projector.linear_2"};
  EXPECT_EQ(open_adapter(folder.path(), model).settings.trained, expected);
  EXPECT_TRUE(open_adapter(folder.path(), model_of("llava_clip", ImageLayers::left_out))
                  .settings.trained.empty());
  // Merged, they are what the model has.
  const auto merged = merge_adapter(open_weights(folder_of("llava_clip")),
                                    open_adapter(folder.path(), model), model, std::nullopt);
  EXPECT_EQ(bytes_of(merged->tensor("multi_modal_projector.linear_2.weight")),
            bytes_of(tensors.at(projector + "2.weight")));
}

TEST(PeftImages, MergedTheyAreThoseOfPeft) {
  for (const auto& [adapter, name, expected] :
       {std::tuple("lora_llava_clip", "llava_clip", 28),
        std::tuple("dora_gemma3_images", "gemma3_images", 12)}) {
    SCOPED_TRACE(adapter);
    const auto folder = test_data("golden") / adapter;
    const ModelConfig model = model_of(name);
    const auto merged = merge_adapter(open_weights(folder_of(name)),
                                      open_adapter(folder / "adapter", model), model, std::nullopt);
    const SafetensorsFile file(folder / "merged.safetensors");
    int compared = 0;
    for (const TensorInfo& info : file.tensors()) {
      const auto weight = *image_model_name(info.name.substr(std::string("merged.").size()));
      // Nothing reads the last block of LLaVA's tower, whose adapters are left out.
      if (weight.starts_with("vision_tower.encoder.layers.2.")) continue;
      EXPECT_LE(test::relative_error(merged->tensor(weight), file.tensor(info.name)), 1e-6)
          << weight;
      ++compared;
    }
    EXPECT_EQ(compared, expected);
  }
}

/// An adapter on the whole model is used on its text alone, too.
TEST(PeftImages, TheModelUnderThemIsOneWithAndWithoutItsImages) {
  EXPECT_EQ(base_text({folder_of("llava_clip"), 0}),
            base_text({folder_of("llava_clip", ImageLayers::left_out), 0}));
}

TEST(PeftImages, LayersThatAreNotThereAreRefused) {
  const TemporaryFolder folder;
  write_renamed(folder / "adapter", [](const std::string& name) {
    const size_t at = name.find("layers.1.mlp.fc1");
    return at == std::string::npos ? name : std::string(name).replace(at, 16, "layers.7.mlp.fc1");
  });
  EXPECT_THAT([&] { open_adapter(folder / "adapter", model_of("llava_clip")); },
              ThrowsMessage<IoError>(HasSubstr("vision_tower.encoder.layers.7.mlp.fc1")));
}

}  // namespace
}  // namespace viaduct
