#include "data/tokenizer/train_bpe.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/compress.h"
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
  // transformers 4 would add token_type_ids, which models that generate refuse.
  EXPECT_EQ(json::parse(read_file(folder / "made" / "tokenizer_config.json"))["model_input_names"],
            (json{"input_ids", "attention_mask"}));
}

TEST(TrainBpe, TakesTheMostFrequentPairAndOfEqualsTheLowest) {
  // ab occurs 3 times, bc 2 times; then (ab, c) and (b, c) are left.
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
  EXPECT_THROW(train_bpe({"missing.txt"}, 300), ConfigError);
}

// The tokenizer is trained on the same text that `data tokenize` reads.
TEST(TrainBpe, ReadsWhatIsTokenized) {
  test::TemporaryFolder folder;
  const std::string text = "ab\nabc\nabc\nbcz\n",
                    lines = "{\"text\":\"ab\\nabc\",\"n\":1}\n{\"text\":\"abc\\nbcz\"}\n";
  write_file_atomically(folder / "a.txt", text);
  write_file_atomically(folder / "a.txt.gz", test::gzip(text));
  write_file_atomically(folder / "a.txt.zst", test::zstd(text));
  write_file_atomically(folder / "a.jsonl", lines);
  write_file_atomically(folder / "a.jsonl.gz", test::gzip(lines));
  const auto merges = train_on(text, 260).merges;
  for (const char* name : {"a.txt", "a.txt.gz", "a.txt.zst", "a.jsonl", "a.jsonl.gz"})
    EXPECT_EQ(train_bpe({folder / name}, 260).merges, merges) << name;
  EXPECT_THAT([&] { train_bpe({folder / "a.jsonl"}, 260, "body"); },
              testing::ThrowsMessage<IoError>(testing::HasSubstr("a.jsonl")));
}

TEST(TrainBpe, RefusesWhatIsNoText) {
  test::TemporaryFolder folder;
  write_file_atomically(folder / "weights.bin", std::string("abc\0abc", 7));
  EXPECT_THAT([&] { train_bpe({folder / "weights.bin"}, 300); },
              testing::ThrowsMessage<IoError>(testing::HasSubstr("weights.bin")));
}

}  // namespace
}  // namespace viaduct
