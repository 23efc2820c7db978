#include "data/tokenizer/text_ids.h"

#include <gmock/gmock.h>

#include <numeric>

#include "support/paths.h"

namespace viaduct {
namespace {

using test::test_data;

TEST(TextIds, BeginAsTheTokenizerBeginsATextAndHaveNoEnd) {
  for (const char* name : {"bpe_shakespeare", "llama3_style", "spm_bpe", "spm_unigram"}) {
    const Tokenizer tokenizer = load_tokenizer(test_data("tokenizer") / name);
    EncodeOptions with_special;
    with_special.add_special_tokens = true;
    const std::string text = "First Citizen: speak, speak.";
    const auto ids = text_ids(tokenizer, text), plain = tokenizer.encode(text),
               around = tokenizer.encode(text, with_special);
    ASSERT_GE(ids.size(), plain.size()) << name;
    EXPECT_TRUE(std::equal(plain.rbegin(), plain.rend(), ids.rbegin())) << name;
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), around.begin())) << name;
  }
}

TEST(TextIds, BytesOfTokensAddUpToTheText) {
  for (const char* name : {"bpe_shakespeare", "llama3_style"}) {
    const Tokenizer tokenizer = load_tokenizer(test_data("tokenizer") / name);
    const auto bytes = token_text_bytes(tokenizer);
    const std::string text = "Speak, große Königin!\n\n  They're here: 1234.";
    int64_t sum = 0;
    for (const int32_t id : tokenizer.encode(text)) sum += bytes[static_cast<size_t>(id)];
    EXPECT_EQ(sum, static_cast<int64_t>(text.size())) << name;
    if (const auto eod = tokenizer.special_ids().eod) {
      EXPECT_EQ(bytes[static_cast<size_t>(*eod)], 0);
    }
  }
}

}  // namespace
}  // namespace viaduct
