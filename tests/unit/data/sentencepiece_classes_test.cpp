// Tokenizers that Hugging Face's transformers makes of SentencePiece models
// (tests/data/tokenizer/sentencepiece_classes.json).

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/sentencepiece_pieces.h"
#include "data/tokenizer/stored_configuration.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
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

// Gemma's <mask> is a piece that the user defined.
TEST(SentencePieceClasses, SpecialTokensOfTheClassAreSpecial) {
  const std::string text = read_file(test::test_data("tokenizer/spm_bpe/tokenizer.model"));
  SentencePieces pieces = read_sentencepieces(text, "model");
  const std::pair<const char*, int32_t> first[] = {
      {"<pad>", 3}, {"<eos>", 3}, {"<bos>", 3}, {"<unk>", 2}, {"<mask>", 4}};
  for (size_t id = 0; id < std::size(first); ++id)
    pieces.pieces[id] = {first[id].first, 0, first[id].second};
  pieces.begin = "<bos>";
  pieces.end = "<eos>";
  const Tokenizer gemma = load_tokenizer(TokenizerFiles(
      "folder", {{"tokenizer.model", write_sentencepieces(pieces)},
                 {"tokenizer_config.json", R"({"tokenizer_class": "GemmaTokenizer"})"}}));
  EXPECT_EQ(gemma.encode("a<mask>b<pad>c"), (Ids{772, 4, 789, 0, 785}));
  EXPECT_EQ(gemma.encode("a<mask>b<pad>c", {.special_as_text = true}),
            (Ids{772, 873, 781, 375, 796, 65, 789, 873, 790, 361, 65, 785}));
}

TEST(SentencePieceClasses, TakeNullAsTransformersDoes) {
  const std::string model = read_file(test::test_data("tokenizer/spm_unigram/tokenizer.model"));
  const auto load = [&](const char* config) {
    return load_tokenizer(
        TokenizerFiles("folder", {{"tokenizer.model", model}, {"tokenizer_config.json", config}}));
  };
  // False, where other classes take it as the default.
  EXPECT_EQ(
      load(R"({"tokenizer_class": "XLMRobertaTokenizer", "add_prefix_space": null})").encode("a b"),
      (Ids{23, 59}));
  EXPECT_EQ(load(R"({"tokenizer_class": "XLMRobertaTokenizer", "unk_token": null})").token(3),
            "None");
}

// A checkpoint keeps a tokenizer's files and not the model's config.json.
TEST(SentencePieceClasses, AreStoredWithoutTheModelsConfiguration) {
  const auto folder = test::test_data("tokenizer");
  int changed = 0;
  for (const json& given : json::parse(read_file(folder / "sentencepiece_classes.json"))) {
    SCOPED_TRACE(given["model"].dump() + given["tokenizer_config"].dump() + given["config"].dump());
    std::map<std::string, std::string> texts{
        {given["file"].get<std::string>(),
         read_file(folder / given["model"].get<std::string>() / "tokenizer.model")}};
    for (const char* name : {"tokenizer_config", "config"}) {
      if (!given[name].empty()) texts[std::string(name) + ".json"] = given[name].dump();
    }
    const auto stored = stored_tokenizer_configuration({"folder", texts});
    if (stored) texts["tokenizer_config.json"] = *stored;
    changed += stored.has_value();
    texts.erase("config.json");
    const Tokenizer tokenizer = load_tokenizer(TokenizerFiles("folder", texts));
    for (const json& item : given["texts"])
      EXPECT_EQ(tokenizer.encode(item["text"].get<std::string>()), item["ids"].get<Ids>())
          << item["text"].dump();
    EXPECT_EQ(stored_tokenizer_configuration({"folder", texts}), std::nullopt);
  }
  EXPECT_GT(changed, 0);
}

// The ids that end texts may stand there alone.
TEST(StoredConfiguration, KeepsIdsOfTheModelsConfiguration) {
  std::map<std::string, std::string> texts{
      {"config.json", R"({"eos_token_id": [2, 7], "bos_token_id": 1, "pad_token_id": -1})"}};
  EXPECT_EQ(json::parse(stored_generation_configuration({"folder", texts}).value()),
            json({{"eos_token_id", {2, 7}}, {"bos_token_id", 1}}));
  texts["generation_config.json"] = R"({"eos_token_id": 3, "top_k": 5})";
  EXPECT_EQ(json::parse(stored_generation_configuration({"folder", texts}).value()),
            json({{"eos_token_id", 3}, {"top_k", 5}, {"bos_token_id", 1}}));
  texts.erase("config.json");
  EXPECT_EQ(stored_generation_configuration({"folder", texts}), std::nullopt);
}

TEST(VocabularyClasses, AreStoredWithoutTheModelsConfiguration) {
  std::map<std::string, std::string> texts{{"vocab.json", "{}"}, {"merges.txt", ""}};
  const auto stored = [&](const char* config) {
    texts["config.json"] = config;
    return stored_tokenizer_configuration({"folder", texts});
  };
  EXPECT_EQ(json::parse(stored(R"({"model_type": "roberta"})").value()),
            json({{"tokenizer_class", "RobertaTokenizer"}}));
  EXPECT_EQ(stored(R"({"model_type": "llama"})"), std::nullopt);    // no class
  EXPECT_EQ(stored(R"({"model_type": "whisper"})"), std::nullopt);  // not supported
  texts["tokenizer_config.json"] = R"({"tokenizer_class": "Qwen2Tokenizer"})";
  EXPECT_EQ(stored(R"({"model_type": "qwen2"})"), std::nullopt);
  texts["tokenizer.json"] = "{}";
  texts.erase("tokenizer_config.json");
  EXPECT_EQ(stored(R"({"model_type": "roberta"})"), std::nullopt);  // it is read first
}

// GPT-2's token is among RoBERTa's words, where it is a text.
TEST(VocabularyClasses, HaveTheirOwnSpecialTokens) {
  json vocabulary = {{"<|endoftext|>", 0}, {"<s>", 1},   {"</s>", 2},
                     {"<pad>", 3},         {"<unk>", 4}, {"<mask>", 5}};
  for (const char* letter : {"<", "|", ">", "e", "n", "d", "o", "f", "t", "x"})
    vocabulary[letter] = vocabulary.size();
  const auto ids = [&](const char* name) {
    return load_tokenizer(TokenizerFiles("folder", {{"vocab.json", vocabulary.dump()},
                                                    {"merges.txt", ""},
                                                    {"tokenizer_config.json",
                                                     json({{"tokenizer_class", name}}).dump()}}))
        .encode("<|endoftext|>");
  };
  EXPECT_EQ(ids("GPT2Tokenizer"), Ids{0});
  EXPECT_EQ(ids("RobertaTokenizer").size(), 13u);
}

TEST(VocabularyClasses, Qwen2DropsTheFlagsOfSpecialTokens) {
  const Tokenizer tokenizer = load_tokenizer(
      TokenizerFiles("folder", {{"vocab.json", R"({"a": 0, "\u0120": 1, "<|endoftext|>": 2})"},
                                {"merges.txt", ""},
                                {"tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer",
      "eos_token": {"__type": "AddedToken", "content": "<e>", "lstrip": true}})"}}));
  EXPECT_EQ(tokenizer.encode("a <e>"), (Ids{0, 1, 3}));
}

TEST(VocabularyClasses, Qwen2BeginsNoTexts) {
  const Tokenizer tokenizer = load_tokenizer(TokenizerFiles(
      "folder", {{"vocab.json", R"({"a": 0, "<|endoftext|>": 1})"},
                 {"merges.txt", ""},
                 {"config.json", R"({"bos_token_id": 1})"},
                 {"tokenizer_config.json",
                  R"({"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": true})"}}));
  EXPECT_EQ(tokenizer.encode("a", {.add_special_tokens = true}), Ids{0});
}

TEST(VocabularyClasses, RefuseAPrefixThatTransformersPutsElsewhere) {
  EXPECT_THROW(
      load_tokenizer(TokenizerFiles(
          "folder", {{"vocab.json", R"({"a": 0, "<|endoftext|>": 1})"},
                     {"merges.txt", ""},
                     {"tokenizer_config.json",
                      R"({"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": true})"}})),
      ConfigError);
}

}  // namespace
}  // namespace viaduct
