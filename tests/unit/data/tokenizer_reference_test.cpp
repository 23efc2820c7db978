// Every case of the reference encodings (tests/data/tokenizer/*/encodings.json).

#include <gmock/gmock.h>

#include <charconv>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/pipeline_model.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode.h"
#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::string from_hex(const json& value) {
  const auto& hex = value.get_ref<const std::string&>();
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    unsigned byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

class TokenizerReference : public testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path folder_ =
      test::test_data(std::filesystem::path("tokenizer") / GetParam());
  const Tokenizer tokenizer_ = load_tokenizer(folder_);
  const json expected_ = json::parse(read_file(folder_ / "encodings.json"));

  json list(const char* key) const { return expected_.value(key, json::array()); }
};

TEST_P(TokenizerReference, Encodes) {
  ASSERT_GE(list("encode").size(), 63u);
  EncodeCache cache = tokenizer_.make_cache();
  for (const json& item : list("encode")) {
    SCOPED_TRACE(item["note"]);
    const std::string text = from_hex(item["utf8_hex"]);
    EXPECT_EQ(tokenizer_.encode(text), item["ids"].get<Ids>());
    Ids cached;
    tokenizer_.encode(text, {}, cache, cached);
    EXPECT_EQ(cached, item["ids"].get<Ids>());
    if (item.contains("ids_with_template")) {
      EXPECT_EQ(tokenizer_.encode(text, {.add_special_tokens = true}),
                item["ids_with_template"].get<Ids>());
    }
    const char* spelled = item.contains("tokens") ? "tokens" : "pieces";
    if (tokenizer_.kind() == "Unigram") continue;  // pieces show the text of unknown tokens
    ASSERT_EQ(item[spelled].size(), cached.size());
    for (size_t i = 0; i < cached.size(); ++i) {
      EXPECT_EQ(tokenizer_.token(cached[i]), item[spelled][i].get<std::string>());
    }
  }
}

/// SentencePiece's library writes a sign of its own for the unknown token, transformers its name.
std::string with_unknown_named(std::string text) {
  constexpr std::string_view kSign = " \u2047 ";
  for (size_t at = 0; (at = text.find(kSign, at)) != std::string::npos;)
    text.replace(at, kSign.size(), "<unk>");
  return text;
}

TEST_P(TokenizerReference, DecodesWhatItEncoded) {
  for (const json& item : list("encode")) {
    SCOPED_TRACE(item["note"]);
    const char* result = item.contains("decoded_utf8_hex")      ? "decoded_utf8_hex"
                         : item.contains("normalized_utf8_hex") ? "normalized_utf8_hex"
                                                                : "utf8_hex";
    EXPECT_EQ(tokenizer_.decode(item["ids"].get<Ids>()),
              with_unknown_named(from_hex(item[result])));
  }
}

TEST_P(TokenizerReference, ReplacesIllFormedText) {
  for (const json& item : list("encode_invalid_utf8")) {
    SCOPED_TRACE(item["raw_hex"]);
    const std::string raw = from_hex(item["raw_hex"]);
    EXPECT_EQ(lossy_utf8(raw), from_hex(item["lossy_utf8_hex"]));
    EXPECT_EQ(tokenizer_.encode(raw), item["ids"].get<Ids>());
  }
}

TEST_P(TokenizerReference, MergesAnyBytes) {
  if (list("encode_piece").empty()) return;
  const auto* model = dynamic_cast<const PipelineModel*>(&tokenizer_.model());
  ASSERT_NE(model, nullptr);
  const auto scratch = model->make_scratch();
  for (const json& item : list("encode_piece")) {
    SCOPED_TRACE(item["hex"]);
    const std::string bytes = from_hex(item["hex"]);
    Ids ids;
    model->encode_piece(bytes, *scratch, ids);
    EXPECT_EQ(ids, item["ids"].get<Ids>());
    EXPECT_EQ(tokenizer_.decode(ids), bytes);
  }
}

TEST_P(TokenizerReference, DecodesToExactBytes) {
  for (const json& item : list("decode")) {
    SCOPED_TRACE(item["ids"].dump());
    const auto ids = item["ids"].get<Ids>();
    const std::string bytes = tokenizer_.decode(ids);
    EXPECT_EQ(bytes, from_hex(item["bytes_hex"]));
    EXPECT_EQ(lossy_utf8(bytes), from_hex(item["text_utf8_hex"]));
    DecodeStream stream(tokenizer_);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string text = stream.push(id);
      EXPECT_TRUE(is_valid_utf8(text));
      streamed += text;
    }
    EXPECT_EQ(streamed + stream.finish(), from_hex(item["text_utf8_hex"]));
  }
}

TEST_P(TokenizerReference, RecognisesSpecialTokens) {
  for (const json& item : list("special_tokens")) {
    SCOPED_TRACE(item["text"]);
    const std::string text = from_hex(item["utf8_hex"]);
    EXPECT_EQ(tokenizer_.encode(text), item["ids_special_parsed"].get<Ids>());
    EXPECT_EQ(tokenizer_.encode(text, {.special_as_text = true}),
              item["ids_special_as_text"].get<Ids>());
    // After an added token, BPE of characters keeps the space that it puts before a text.
    if (tokenizer_.kind() != "BPE") {
      EXPECT_EQ(tokenizer_.decode(tokenizer_.encode(text)), text);
    }
  }
  EXPECT_EQ(tokenizer_.vocab_size(), expected_["vocab_size"]);
  const json specials = expected_.value("special_token_ids", json::object());
  for (const auto& [token, id] : specials.items()) {
    EXPECT_EQ(tokenizer_.find(token), id.get<int32_t>());
    EXPECT_EQ(tokenizer_.token(id.get<int32_t>()), token);
  }
}

TEST_P(TokenizerReference, EncodesAWholeBook) {
  if (!expected_.contains("full_text")) return;
  const json& whole = expected_["full_text"];
  const std::string text = read_file(test::source_folder() / "data/tinyshakespeare.txt");
  ASSERT_EQ(text.size(), whole["n_bytes"]);
  const Ids ids = tokenizer_.encode(text);
  ASSERT_EQ(ids.size(), whole["n_tokens"]);
  EXPECT_EQ(Ids(ids.begin(), ids.begin() + 32), whole["first_32"].get<Ids>());
  EXPECT_EQ(Ids(ids.end() - 32, ids.end()), whole["last_32"].get<Ids>());
  std::string little_endian;
  for (const int32_t id : ids) {
    little_endian.push_back(static_cast<char>(id & 0xFF));
    little_endian.push_back(static_cast<char>(id >> 8));
  }
  EXPECT_EQ(test::sha256_hex(little_endian), whole["uint16_le_sha256"]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerReference,
                         testing::Values("gpt2", "bpe_shakespeare", "llama3_style", "qwen2_style",
                                         "spm_bpe", "spm_unigram"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Sha256, KnowsThePublishedExamples) {
  EXPECT_EQ(test::sha256_hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(test::sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace viaduct
