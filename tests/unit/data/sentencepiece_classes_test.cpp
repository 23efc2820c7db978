// Tokenizers that Hugging Face's transformers makes of SentencePiece models
// (tests/data/tokenizer/sentencepiece_classes.json).

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

TEST(SentencePieceClasses, GiveTheIdsAndTextsOfTransformers) {
  const auto folder = test::test_data("tokenizer");
  const json cases = json::parse(read_file(folder / "sentencepiece_classes.json"));
  ASSERT_GE(cases.size(), 11u);
  for (const json& given : cases) {
    SCOPED_TRACE(given["model"].dump() + given["tokenizer_config"].dump() + given["config"].dump());
    test::TemporaryFolder made;
    std::filesystem::copy(folder / given["model"].get<std::string>() / "tokenizer.model",
                          made / given["file"].get<std::string>());
    for (const char* name : {"tokenizer_config", "config"}) {
      if (!given[name].empty())
        write_file_atomically(made / (std::string(name) + ".json"), given[name].dump());
    }
    const Tokenizer tokenizer = load_tokenizer(made.path());
    for (const json& item : given["texts"]) {
      const auto text = item["text"].get<std::string>();
      SCOPED_TRACE(item["text"].dump());
      EXPECT_EQ(tokenizer.encode(text), item["ids"].get<Ids>());
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = true}),
                item["with_template"].get<Ids>());
      EXPECT_EQ(tokenizer.decode_text(item["ids"].get<Ids>()), item["decoded"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace viaduct
