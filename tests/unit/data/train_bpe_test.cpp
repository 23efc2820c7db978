#include "data/tokenizer/train_bpe.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::Pair;

TrainedBpe train_on(std::string_view text, int32_t vocab_size) {
  BpeTrainer trainer;
  trainer.add_text(text);
  return trainer.train(vocab_size);
}

TEST(TrainBpe, MakesTheReferenceTokenizer) {
  test::TemporaryFolder folder;
  const auto text = test::source_folder() / "data/tinyshakespeare.txt";
  write_tokenizer(train_bpe({text}, 1024), folder / "made");
  EXPECT_EQ(json::parse(read_file(folder / "made" / "tokenizer.json")),
            json::parse(read_file(test::test_data("tokenizer/bpe_shakespeare/tokenizer.json"))));
  const Tokenizer tokenizer = load_tokenizer(folder / "made");
  EXPECT_EQ(tokenizer.vocab_size(), 1024);
  EXPECT_EQ(tokenizer.special_ids().eos, 0);
  EXPECT_EQ(tokenizer.special_ids().eod, 0);
}

TEST(TrainBpe, TakesTheMostFrequentPairAndOfEqualsTheLowest) {
  // ab 3 times, bc 2 times; then (ab, c) and (b, c) are left.
  EXPECT_THAT(train_on("ab\nabc\nabc\nbcz", 260).merges,
              ElementsAre(Pair("a", "b"), Pair("ab", "c"), Pair("b", "c")));
  EXPECT_THAT(train_on("yx\nxy", 258).merges, ElementsAre(Pair("x", "y")));
}

TEST(TrainBpe, HandlesRunsOfOneLetter) {
  const TrainedBpe trained = train_on("aaaaaaaa", 300);
  EXPECT_THAT(trained.merges, ElementsAre(Pair("a", "a"), Pair("aa", "aa"), Pair("aaaa", "aaaa")));
  EXPECT_EQ(trained.tokens.size(), 260u);  // no pair is left
}

TEST(TrainBpe, DoesNotLearnFromEndOfTextMarks) {
  EXPECT_EQ(train_on("a<|endoftext|>b", 300).tokens.size(), 257u);
}

TEST(TrainBpe, TakesAnyBytes) {
  test::TemporaryFolder folder;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text += static_cast<char>(byte);
  write_tokenizer(train_on(text + text, 270), folder.path());
  const Tokenizer tokenizer = load_tokenizer(folder.path());
  const std::string sample = "a\u00e9\u4f60\U0001F600\n\t\0z";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(sample)), sample);
}

TEST(TrainBpe, RefusesImpossibleSizesAndMissingFiles) {
  EXPECT_THROW(train_on("a", 256), ConfigError);
  EXPECT_THROW(train_on("a", -1), ConfigError);
  EXPECT_THROW(train_on("a", 2000000000), ConfigError);
  EXPECT_THROW(train_bpe({"missing.txt"}, 300), IoError);
}

}  // namespace
}  // namespace viaduct
