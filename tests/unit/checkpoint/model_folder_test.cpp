#include "checkpoint/model_folder.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/convert.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"

namespace viaduct {
namespace {

using test::bytes_of;
using test::patterned;
using test::TemporaryFolder;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

void write_step(const std::filesystem::path& save, int64_t step) {
  CheckpointWriter writer(save, step);
  ShardWriter shard(writer.folder(), 0);
  shard.add("model.weight", patterned(DType::f32, {3}, 1));
  shard.add("optimizer.exp_avg/model.weight", patterned(DType::f32, {3}, 2));
  shard.finish();
  writer.add_file("config.json", "{}");
  writer.commit();
}

TEST(ModelFolder, KnowsTheThreeKinds) {
  TemporaryFolder save;
  write_step(save.path(), 10);
  write_step(save.path(), 20);
  const auto folder = resolve_model_folder(save.path());
  EXPECT_EQ(folder.kind, ModelFolderKind::checkpoint);
  EXPECT_EQ(folder.path, save / "step_00000020");
  EXPECT_EQ(resolve_model_folder(save / "step_00000010").path, save / "step_00000010");
  EXPECT_EQ(resolve_model_folder(save / "step_00000010").kind, ModelFolderKind::checkpoint);
  const auto hugging_face = test_data("golden/llama_tied/model_sharded_bf16");
  EXPECT_EQ(resolve_model_folder(hugging_face).kind, ModelFolderKind::hugging_face);
  EXPECT_EQ(resolve_model_folder(hugging_face).path, hugging_face);
}

TEST(ModelFolder, LatestAndBestNameSteps) {
  TemporaryFolder save;
  write_step(save.path(), 10);
  write_step(save.path(), 20);
  write_file_atomically(save / "best", "step_00000010\n");
  EXPECT_EQ(resolve_model_folder(save / "best").path, save / "step_00000010");
  EXPECT_EQ(resolve_model_folder(save / "latest").path, save / "step_00000020");
  for (const char* name : {"../elsewhere\n", "step_00000030\n", ""}) {
    write_file_atomically(save / "best", name);
    EXPECT_THAT([&] { resolve_model_folder(save / "best"); },
                ThrowsMessage<IoError>(HasSubstr("names no step that is there (steps there: ")));
  }
}

TEST(ModelFolder, TheTokenizerOfASaveFolderIsThatOfItsStep) {
  TemporaryFolder save;
  for (const int64_t step : {10, 20}) write_step(save.path(), step);
  EXPECT_FALSE(has_tokenizer(save.path()));
  for (const auto& file : tokenizer_files(test_data("tokenizer/bpe_shakespeare")))
    std::filesystem::copy_file(file, save / "step_00000020" / file.filename());
  for (const char* name : {".", "latest", "step_00000020"}) {
    EXPECT_TRUE(has_tokenizer(save / name)) << name;
    EXPECT_GT(open_tokenizer(save / name).vocab_size(), 256) << name;
    EXPECT_TRUE(open_tokenizer_files(save / name).has("tokenizer.json")) << name;
    EXPECT_TRUE(model_side_texts(save / name).contains("tokenizer.json")) << name;
  }
}

TEST(ModelFolder, WeightsOfACheckpointAreItsWeightsOnly) {
  TemporaryFolder save;
  write_step(save.path(), 10);
  const auto weights = open_weights(resolve_model_folder(save.path()));
  ASSERT_EQ(weights->tensors().size(), 1u);
  EXPECT_EQ(bytes_of(weights->tensor("model.weight")), bytes_of(patterned(DType::f32, {3}, 1)));
  EXPECT_FALSE(weights->contains("optimizer.exp_avg/model.weight"));
  EXPECT_THROW(weights->tensor("optimizer.exp_avg/model.weight"), IoError);
}

TEST(ModelFolder, WeightsOfAHuggingFaceFolder) {
  const auto weights = open_weights(resolve_model_folder(test_data("golden/llama_tied/model")));
  EXPECT_TRUE(weights->contains("model.norm.weight"));
}

TEST(ModelFolder, OthersAreRefusedWithTheReason) {
  TemporaryFolder folder;
  const auto expect = [](const std::filesystem::path& path, const char* reason) {
    EXPECT_THAT([&] { resolve_model_folder(path); }, ThrowsMessage<IoError>(HasSubstr(reason)));
  };
  const auto expect_wrong = [](const std::filesystem::path& path, const char* reason) {
    EXPECT_THAT([&] { resolve_model_folder(path); }, ThrowsMessage<ConfigError>(HasSubstr(reason)));
  };
  expect_wrong(folder / "missing", "no such file or folder");
  write_file_atomically(folder / "file", "");
  expect_wrong(folder / "file", "not a folder");
  expect(folder.path(), "not a model");
  std::filesystem::create_directory(folder / "step_00000010.tmp-new");
  expect(folder / "step_00000010.tmp-new", "interrupted");
  std::filesystem::create_directory(folder / "step_00000010");
  expect(folder.path(), "no file \"latest\"");
  write_file_atomically(folder / "step_00000010/config.json", "{}");
  expect(folder / "step_00000010", "without index.json");
  write_file_atomically(folder / "latest", "step_00000020\n");
  expect(folder.path(), "step_00000020, which is missing (steps there: step_00000010)");
  write_file_atomically(folder / "latest", "../elsewhere\n");
  expect(folder.path(), "not the name of a step");

  TemporaryFolder other;
  write_file_atomically(other / "model.safetensors", "");
  expect(other.path(), "without config.json");
}

TEST(ModelFolder, SideFilesAreCopied) {
  TemporaryFolder from, to;
  for (const char* name : {"tokenizer.json", "merges.txt", "generation_config.json", "config.json"})
    write_file_atomically(from / name, name);
  write_file_atomically(to / "vocab.json", "kept");
  copy_model_side_files(from.path(), to / "new");
  EXPECT_EQ(read_file(to / "new/merges.txt"), "merges.txt");
  EXPECT_EQ(model_side_files(to / "new").size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(to / "new/config.json"));
  EXPECT_EQ(read_file(to / "vocab.json"), "kept");
}

constexpr const char* kToolTemplate = "additional_chat_templates/tool_use.jinja";

TEST(ModelFolder, TemplatesForToolsGoWithTheModel) {
  TemporaryFolder folder;
  const auto golden = test_data("golden/llama_tied/model");
  std::filesystem::copy(golden, folder / "model", std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(folder / "model/additional_chat_templates");
  write_file_atomically(folder / "model/chat_template.jinja", "plain");
  write_file_atomically(folder / "model" / kToolTemplate, "tools");
  write_file_atomically(folder / "model/additional_chat_templates/notes.txt", "left out");
  const auto convert = [&](const char* from, const char* to) {
    ConvertSettings settings;
    settings.from = folder / from;
    settings.to = folder / to;
    return convert_model(settings).path;
  };
  const auto expect_templates = [&](const std::filesystem::path& path) {
    auto texts = model_side_texts(path);
    EXPECT_EQ(texts["chat_template.jinja"], "plain") << path;
    EXPECT_EQ(texts[kToolTemplate], "tools") << path;
    EXPECT_FALSE(texts.contains("additional_chat_templates/notes.txt")) << path;
  };
  expect_templates(convert("model", "run"));
  expect_templates(convert("run", "hf"));
  expect_templates(convert("run", "m.gguf"));
  expect_templates(convert("m.gguf", "from_gguf"));
  EXPECT_EQ(read_file(folder / "from_gguf" / kToolTemplate), "tools");
}

TEST(ModelFolder, AStepHasNoFolderButThatOfTemplates) {
  TemporaryFolder save;
  CheckpointWriter writer(save.path(), 1);
  writer.add_file(kToolTemplate, "tools");
  for (const char* name :
       {"other/tool_use.jinja", "additional_chat_templates/tool_use.txt",
        "additional_chat_templates/../x.jinja", "additional_chat_templates/a/x.jinja",
        "../additional_chat_templates/x.jinja", "/additional_chat_templates/x.jinja"}) {
    EXPECT_THAT([&] { writer.add_file(name, ""); },
                ThrowsMessage<IoError>(HasSubstr("not the plain name of a file")))
        << name;
  }
}

}  // namespace
}  // namespace viaduct
