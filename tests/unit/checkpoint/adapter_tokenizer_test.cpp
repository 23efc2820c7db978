// Which files of an adapter's folder stand for those of its model.

#include "checkpoint/adapter_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::ElementsAre;

class TokenizerOfAdapter : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::copy(test::test_data("golden/lora_llama/adapter"), folder_ / "adapter");
    std::filesystem::create_directory(folder_ / "model");
    write("model", "tokenizer.json", R"({"a": 1, "b": 2})");
    write("model", "chat_template.jinja", "model's");
    write("model", "generation_config.json", R"({"top_k": 5})");
  }
  void write(const std::string& folder, const std::string& name, const std::string& text) {
    write_file_atomically(folder_ / folder / name, text);
  }
  std::optional<AdapterTokenizer> found() const {
    return tokenizer_of_adapter(folder_ / "adapter", folder_ / "model");
  }

  test::TemporaryFolder folder_;
};

TEST_F(TokenizerOfAdapter, IsTheModelsWithoutFilesOrWithTheSame) {
  EXPECT_FALSE(found());
  write("adapter", "chat_template.jinja", "alone");
  EXPECT_FALSE(found());  // a template without the tokens that it names
  write("adapter", "tokenizer.json", R"({ "b": 2, "a": 1 })");
  write("adapter", "chat_template.jinja", "model's");
  EXPECT_FALSE(found());
}

TEST_F(TokenizerOfAdapter, IsTakenWhole) {
  write("adapter", "tokenizer.json", R"({"a": 2})");
  const auto own = found();
  ASSERT_TRUE(own);
  EXPECT_THAT(own->differing, ElementsAre("tokenizer.json", "without chat_template.jinja"));
  EXPECT_FALSE(own->texts.contains("chat_template.jinja"));
  EXPECT_EQ(own->texts.at("generation_config.json"), R"({"top_k": 5})");
  EXPECT_EQ(own->files("{}").text("config.json"), "{}");
}

}  // namespace
}  // namespace viaduct
