// Which tokens stand for the spans of a text.

#include "run/sentinel_tokens.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "support/paths.h"
#include "support/training.h"

namespace viaduct {
namespace {

/// A tokenizer of 1024 tokens and these.
Tokenizer with_tokens(const std::vector<std::pair<std::string, int>>& added) {
  auto parts =
      nlohmann::json::parse(read_file(test::test_data("tokenizer/bpe_shakespeare/tokenizer.json")));
  for (const auto& [content, id] : added) {
    parts["added_tokens"].push_back({{"id", id},
                                     {"content", content},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false},
                                     {"normalized", false},
                                     {"special", true}});
  }
  return parse_tokenizer(parts.dump());
}

TEST(SentinelTokens, ATokenizersOwnGoDownFromTheFirst) {
  const Tokenizer tokens = with_tokens(
      {{"<extra_id_2>", 1024}, {"<extra_id_1>", 1025}, {"<extra_id_0>", 1026}, {"<other>", 1027}});
  const auto found = sentinel_tokens(&tokens, 0, tokens.vocab_size());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 1026);
  EXPECT_EQ(found->count, 3);
  // Its own before others.
  EXPECT_EQ(sentinel_tokens(&tokens, 50, 1078)->first, 1026);
}

TEST(SentinelTokens, ExtraIdsAreTheLastOnes) {
  const auto found = sentinel_tokens(nullptr, 100, 1101);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->first, 1100);
  EXPECT_EQ(found->count, 100);
  const Tokenizer plain = with_tokens({});
  EXPECT_EQ(sentinel_tokens(&plain, 10, 1034)->first, 1033);
  EXPECT_FALSE(sentinel_tokens(&plain, 0, 1024));
  EXPECT_FALSE(sentinel_tokens(nullptr, 0, std::nullopt));
}

TEST(SentinelTokens, ARunTakesThemFromItsConfiguration) {
  using test::operator+;
  const auto setup = test::setup_of(
      test::tiny_run("t5") + test::Overrides{"model.vocab_size=64", "tokenizer.vocab_size=50",
                                             "tokenizer.vocab_extra_ids=8"});
  ASSERT_TRUE(setup.config.dataset.pairs->sentinels);
  EXPECT_EQ(setup.config.dataset.pairs->sentinels->first, 58);  // 50, the end of documents, 8
  EXPECT_EQ(setup.config.dataset.pairs->sentinels->count, 8);
}

}  // namespace
}  // namespace viaduct
