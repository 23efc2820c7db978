// Folders of models that take images: their text models are read, and written as folders of text
// models.

#include "checkpoint/text_half_weights.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::TemporaryFolder;
using testing::Contains;
using testing::HasSubstr;

std::filesystem::path gemma() {
  return test::test_data("golden") / "gemma3_text" / "model";
}

/// `name` with "model." replaced by `prefix`.
std::string under(const std::string& prefix, const std::string& name) {
  return prefix + name.substr(std::string("model.").size());
}

/// The golden Gemma 3 inside a model that takes images, its tensors under `prefix`.
void write_with_images(const std::filesystem::path& folder, const std::string& prefix,
                       const std::string& vision) {
  const SafetensorsFolder stored(gemma());
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : stored.tensors())
    tensors[under(prefix, info.name)] = stored.tensor(info.name);
  const Tensor patch = host_tensor(DType::f32, {2, 3});
  for (int64_t i = 0; i < patch.elements(); ++i) patch.data<float>()[i] = static_cast<float>(i);
  tensors[vision + "patch_embed.weight"] = patch;
  std::filesystem::create_directories(folder);
  write_safetensors(folder / "model.safetensors", tensors);
  const nlohmann::json config{
      {"model_type", "mistral3"},
      {"text_config", nlohmann::json::parse(read_file(gemma() / "config.json"))},
      {"vision_config", {{"hidden_size", 8}, {"num_hidden_layers", 2}}}};
  write_file_atomically(folder / "config.json", config.dump());
}

TEST(TextHalfWeights, AreThoseOfTheTextModel) {
  for (const auto& [prefix, vision] : {std::pair{"language_model.model.", "vision_tower."},
                                       {"model.language_model.", "model.vision_tower."}}) {
    TemporaryFolder folder;
    write_with_images(folder / "images", prefix, vision);
    const Converted to = convert_model(
        {.from = folder / "images", .to = folder / "text", .format = ModelFormat::hugging_face});
    EXPECT_THAT(to.notes, Contains(HasSubstr("images")));
    const SafetensorsFolder expected(gemma()), found(folder / "text");
    EXPECT_EQ(found.tensors().size(), expected.tensors().size());
    for (const TensorInfo& info : expected.tensors())
      EXPECT_EQ(bytes_of(found.tensor(info.name)), bytes_of(expected.tensor(info.name)))
          << info.name;
    const auto config = nlohmann::json::parse(read_file(folder / "text" / "config.json"));
    EXPECT_EQ(config.at("model_type"), "gemma3_text");
    EXPECT_FALSE(config.contains("vision_config"));
    EXPECT_FALSE(config.contains("text_config"));
    // A piece of a tensor, as ranks read it.
    const auto weights = open_weights(resolve_model_folder(folder / "images"));
    const std::string name = "model.norm.weight";
    const Tensor whole = weights->tensor(name), part = host_tensor(whole.dtype(), {3});
    weights->read_into(name, {whole_box(whole.shape()), 2, 5}, static_cast<std::byte*>(part.raw()));
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(part.data<float>()[i], whole.data<float>()[i + 2]);
    EXPECT_EQ(weights->find("vision_tower.patch_embed.weight"), nullptr);
  }
}

TEST(TextHalfWeights, ATensorThatIsThereTwiceIsRefused) {
  TemporaryFolder folder;
  const Tensor norm = host_tensor(DType::f32, {2});
  norm.data<float>()[0] = norm.data<float>()[1] = 1;
  write_safetensors(folder / "model.safetensors",
                    std::map<std::string, Tensor>{{"language_model.model.norm.weight", norm},
                                                  {"model.norm.weight", norm}});
  try {
    (void)text_half_weights(std::make_unique<SafetensorsFolder>(folder.path()));
    FAIL() << "expected an error";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("are the same tensor of the text model"));
  }
}

}  // namespace
}  // namespace viaduct
