// Folders of models with images in each form of their names, and conversion there and back.

#include "checkpoint/image_weights.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/parameter_io.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "model/vision_names.h"
#include "support/paths.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::TemporaryFolder;
using testing::Contains;
using testing::HasSubstr;

using Tensors = std::map<std::string, Tensor>;

std::filesystem::path golden(const std::string& name) {
  return test::test_data("golden") / name / "model";
}

Tensors weights_of(const std::filesystem::path& folder) {
  const SafetensorsFolder stored(folder);
  Tensors tensors;
  for (const TensorInfo& info : stored.tensors()) tensors[info.name] = stored.tensor(info.name);
  return tensors;
}

ModelFolder with_images(const std::filesystem::path& path) {
  ModelFolder folder = resolve_model_folder(path);
  folder.images = ImageLayers::read;
  return folder;
}

/// The golden model with its names in the form that begins with `prefix`.
std::filesystem::path write_form(const TemporaryFolder& folder, const std::string& name,
                                 const std::string& prefix) {
  Tensors tensors;
  for (const auto& [stored, tensor] : weights_of(golden(name)))
    tensors[stored_image_name(*image_model_name(stored), prefix)] = tensor;
  const std::filesystem::path path = folder / "model";
  std::filesystem::create_directories(path);
  write_safetensors(path / "model.safetensors", tensors);
  write_file_atomically(path / "config.json", read_file(golden(name) / "config.json"));
  return path;
}

TEST(ImageFolder, EachFormIsReadAndWrittenBack) {
  for (const char* prefix : {"vision_tower.vision_model.", "vision_tower.",
                             "model.vision_tower.vision_model.", "model.vision_tower."}) {
    for (const char* name : {"gemma3_images", "llava_clip", "llava_siglip"}) {
      const TemporaryFolder folder;
      const auto path = write_form(folder, name, prefix);
      const ModelFolder opened = with_images(path);
      const ModelConfig model = read_model_config(opened);
      EXPECT_EQ(model.vision.tower_prefix, prefix);
      EXPECT_NO_THROW(check_tensors_fit(model, *open_weights(opened))) << prefix;
      const Converted checkpoint = convert_model({.from = path, .to = folder / "run"});
      convert_model({.from = checkpoint.path, .to = folder / "back"});
      const Tensors before = weights_of(path), after = weights_of(folder / "back");
      ASSERT_EQ(before.size(), after.size()) << prefix;
      for (const auto& [tensor, values] : before) {
        ASSERT_TRUE(after.contains(tensor)) << tensor;
        EXPECT_EQ(bytes_of(values), bytes_of(after.at(tensor))) << tensor;
      }
      EXPECT_EQ(read_file(folder / "back" / "config.json").find(kTowerPrefixField),
                std::string::npos);
      EXPECT_EQ(read_model_config(with_images(folder / "back")).vision.rows(), model.vision.rows());
    }
  }
}

TEST(ImageFolder, WithoutThemItIsTheTextModel) {
  const TemporaryFolder folder;
  const Converted checkpoint = convert_model({.from = golden("llava_clip"), .to = folder / "run"});
  for (const auto& path : {golden("llava_clip"), checkpoint.path}) {
    const ModelFolder text = resolve_model_folder(path);
    const ModelConfig model = read_model_config(text);
    EXPECT_FALSE(model.vision.any());
    EXPECT_THAT(model.notes, Contains(HasSubstr("are left out")));
    EXPECT_NO_THROW(check_tensors_fit(model, *open_weights(text))) << path;
    EXPECT_EQ(read_config_text(text).find("vision_config"), std::string::npos);
  }
}

TEST(ImageFolder, ConstantsOfOlderFilesAreNotRead) {
  const TemporaryFolder folder;
  Tensors tensors = weights_of(golden("llava_clip"));
  tensors["vision_tower.embeddings.position_ids"] = host_tensor(DType::i64, {1, 5});
  write_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", read_file(golden("llava_clip") / "config.json"));
  const ModelFolder opened = with_images(folder.path());
  EXPECT_NO_THROW(check_tensors_fit(read_model_config(opened), *open_weights(opened)));
}

TEST(ImageFolder, APoolingHeadThatIsNotThereIsNotExpected) {
  const TemporaryFolder folder;
  Tensors tensors = weights_of(golden("llava_siglip"));
  std::erase_if(tensors,
                [](const auto& one) { return one.first.starts_with("vision_tower.head."); });
  write_safetensors(folder / "model.safetensors", tensors);
  write_file_atomically(folder / "config.json", read_file(golden("llava_siglip") / "config.json"));
  const ModelFolder opened = with_images(folder.path());
  const ModelConfig model = read_model_config(opened);
  EXPECT_FALSE(model.vision.pooling_head);
  EXPECT_NO_THROW(check_tensors_fit(model, *open_weights(opened)));
  const TemporaryFolder save;
  const ModelFolder checkpoint =
      with_images(convert_model({.from = folder.path(), .to = save / "run"}).path);
  EXPECT_NO_THROW(check_tensors_fit(read_model_config(checkpoint), *open_weights(checkpoint)));
}

TEST(ImageFolder, Fp8IsRefusedByName) {
  const TemporaryFolder folder;
  EXPECT_THAT(
      [&] {
        convert_model({.from = golden("llava_clip"),
                       .to = folder / "fp8",
                       .format = ModelFormat::hugging_face,
                       .dtype = ExportFormat::fp8});
      },
      testing::ThrowsMessage<ConfigError>(HasSubstr("--dtype fp8 is not implemented")));
}

}  // namespace
}  // namespace viaduct
