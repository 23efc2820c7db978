// Small tokenizers and patterns with the results of Hugging Face's tokenizers
// (tests/data/tokenizer/pipelines).

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const std::filesystem::path kFolder = std::filesystem::path("tokenizer") / "pipelines";

json read_cases(const std::string& name) {
  return json::parse(read_file(test::test_data(kFolder / (name + ".json"))));
}

class TokenizerPipeline : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerPipeline, GivesTheIdsAndTextsOfTokenizers) {
  const json file = read_cases(GetParam());
  const Tokenizer tokenizer = parse_tokenizer(file["tokenizer"].dump());
  for (const json& item : file["cases"]) {
    SCOPED_TRACE(item.dump());
    const auto ids = item["ids"].get<Ids>();
    if (item.contains("text")) {
      EXPECT_EQ(tokenizer.encode(item["text"].get<std::string>()), ids);
    }
    EXPECT_EQ(tokenizer.decode_text(ids), item["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerPipeline,
                         testing::Values("empty_matches", "form_lowercase", "form_nfc", "form_nfd",
                                         "form_nfkc", "form_nfkd", "form_nmt", "form_strip",
                                         "form_stripaccents", "legacy_prefix", "letters_first",
                                         "metaspace_always", "metaspace_first", "metaspace_never",
                                         "no_decoder", "spaces_taken_once", "spaces_taken_twice",
                                         "unigram", "unigram_bytes", "unknown",
                                         "unknown_between_bytes"),
                         [](const auto& info) { return std::string(info.param); });

SplitBehavior behavior_of(const std::string& name) {
  if (name == "removed") return SplitBehavior::removed;
  if (name == "isolated") return SplitBehavior::isolated;
  if (name == "contiguous") return SplitBehavior::contiguous;
  if (name == "merged_with_previous") return SplitBehavior::merged_with_previous;
  return SplitBehavior::merged_with_next;
}

TEST(RegexDialect, CutsAsTokenizersDoes) {
  RegexScratch scratch;
  const json file = read_cases("patterns");
  for (const json& item : file["cases"]) {
    SCOPED_TRACE(item.dump());
    PreTokenizer made;
    made.add({Regex(item[0].get<std::string>()), behavior_of(item[2])});
    std::vector<std::string> pieces;
    made.split(item[1].get<std::string>(), true, scratch,
               [&](std::string_view piece) { pieces.emplace_back(piece); });
    EXPECT_EQ(pieces, item[3].get<std::vector<std::string>>());
  }
}

TEST(RegexDialect, NamesWhatItCannotSayAndItsPlace) {
  const json file = read_cases("patterns");
  for (const json& item : file["refused"]) {
    const auto pattern = item.get<std::string>();
    EXPECT_THAT([&] { Regex regex(pattern); },
                testing::ThrowsMessage<ConfigError>(testing::HasSubstr("at character")))
        << pattern;
  }
  EXPECT_THAT([] { Regex regex("ab(?=c)\\1"); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("\"\\1\" at character 8")));
}

// As many marks took time quadratic in their number.
TEST(TokenizerPipelineTime, NormalizesRunsOfMarksInOneGo) {
  json file = read_cases("form_nfc");
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += "\u0300\u0323";
  for (const char* form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    file["tokenizer"]["normalizer"]["type"] = form;
    const Tokenizer tokenizer = parse_tokenizer(file["tokenizer"].dump());
    EXPECT_GT(tokenizer.encode(text).size(), 200000u);
  }
}

}  // namespace
}  // namespace viaduct
