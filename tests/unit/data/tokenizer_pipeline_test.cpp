// Small tokenizers and patterns with the results of Hugging Face's tokenizers
// (tests/data/tokenizer/pipelines).

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
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
  EncodeCache cache = tokenizer.make_cache();
  for (const json& item : file["cases"]) {
    SCOPED_TRACE(item.dump());
    const auto ids = item["ids"].get<Ids>();
    if (item.contains("text")) {
      const auto text = item["text"].get<std::string>();
      EncodeOptions options;
      options.add_special_tokens = item.contains("special");
      EXPECT_EQ(tokenizer.encode(text, options), ids);
      for (const bool cached : {false, true}) {
        SCOPED_TRACE(cached);
        Ids placed;
        std::vector<TokenSpan> spans;
        tokenizer.encode(text, options, cache, placed, spans);
        EXPECT_EQ(placed, ids);
        json offsets = json::array();
        for (const TokenSpan& span : spans) offsets.push_back({span.begin, span.end});
        EXPECT_EQ(offsets, item["offsets"]);
      }
    }
    EXPECT_EQ(tokenizer.decode_text(ids), item["decoded"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, TokenizerPipeline,
    testing::Values("empty_matches", "first_after_forms", "first_after_marks",
                    "first_after_prepend", "first_after_replace", "first_after_strip",
                    "first_in_cuts_after_forms", "first_in_cuts_after_prepend",
                    "first_in_cuts_after_replace", "first_in_cuts_after_strip", "form_lowercase",
                    "form_nfc", "form_nfd", "form_nfkc", "form_nfkd", "form_nmt", "form_strip",
                    "form_stripaccents", "left_out", "legacy_prefix", "letters_first",
                    "metaspace_always", "metaspace_first", "metaspace_never", "no_decoder",
                    "spaces_taken_once", "spaces_taken_twice", "trimmed", "trimmed_behind_template",
                    "trimmed_by_roberta", "trimmed_in_template", "unigram", "unigram_bytes",
                    "unknown", "unknown_between_bytes"),
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
    made.split(item[1].get<std::string>(), {.at_start = true}, scratch,
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

/// The matches of a pattern as their texts.
std::vector<std::string> matches_of(const char* pattern, const std::string& text) {
  RegexScratch scratch;
  std::vector<std::string> found;
  Regex(pattern).for_each_match(text, scratch, [&](Regex::Match match) {
    found.push_back(text.substr(match.begin, match.end - match.begin));
  });
  return found;
}

// From each character of the run to its end took time quadratic in its length. The end has what the
// patterns need, else the engine does not begin.
TEST(RegexTime, TriesARunOnce) {
  const std::string run(1 << 20, ' ');
  const std::string text = run + "x" + run + "\n" + run + "_-y1";
  EXPECT_THAT(matches_of(R"(\s+y|x)", text), testing::ElementsAre("x"));
  EXPECT_THAT(matches_of(R"( +$)", text), testing::ElementsAre(run));
  EXPECT_THAT(matches_of(R"((?>\s+)(?=x))", text), testing::ElementsAre(run));
  EXPECT_THAT(matches_of(R"(x?(?:\s)+1)", text), testing::IsEmpty());
  EXPECT_THAT(matches_of(R"([\sx][ ]+-|x)", text), testing::ElementsAre("x"));
}

// Steps back from several places add up.
TEST(RegexTime, GivesUpWhereItGoesBackTooOften) {
  const std::string text = std::string(6000, 'a') + "-!";
  for (const char* pattern : {"b?[a-z]*a[a-z0-9]++!", R"(\w(?=\w*!))", "[a-z](?:[a-z]|[0-9])+!"}) {
    EXPECT_THAT([&] { matches_of(pattern, text); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("goes back too often")))
        << pattern;
  }
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
