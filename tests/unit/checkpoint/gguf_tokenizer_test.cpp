// Exports tokenizers to GGUF files and imports them: the same ids for the same texts.

#include "checkpoint/gguf_tokenizer.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using test::TemporaryFolder;
using test::test_data;
using testing::HasSubstr;
using testing::ThrowsMessage;

ModelConfig model_of(int64_t vocabulary) {
  ModelConfig model;
  model.vocabulary = vocabulary;
  return model;
}

/// The header of a file with this tokenizer, without the copy of tokenizer.json if `keys_alone`.
GgufKeys keys_of(const std::string& name, int64_t vocabulary, std::vector<std::string>& notes,
                 bool keys_alone, ModelConfig model = {}) {
  model.vocabulary = vocabulary;
  GgufHeadWriter head;
  notes = add_gguf_tokenizer(head, model, TokenizerFiles(test_data("tokenizer") / name));
  std::string bytes = head.head();
  if (keys_alone) {
    const std::string key = "tokenizer.huggingface.json";
    if (const size_t at = bytes.find(key); at != std::string::npos)
      bytes.replace(at, key.size(), "tokenizer.huggingface.none");
  }
  return parse_gguf(bytes, "F", GgufContent::head).keys;
}

constexpr const char* kTexts[] = {"The quick brown fox's 12345 jumps.\n\n  over\tit", "",
                                  "<|endoftext|>naïve café — 东京 🙂 don't WE'LL",
                                  "   x  y\r\n z"};

class GgufTokenizers : public testing::TestWithParam<std::pair<const char*, int64_t>> {};

TEST_P(GgufTokenizers, GiveTheSameIds) {
  const auto& [name, vocabulary] = GetParam();
  const Tokenizer original = load_tokenizer(test_data("tokenizer") / name);
  for (const bool keys_alone : {false, true}) {
    std::vector<std::string> notes;
    const GgufKeys keys = keys_of(name, vocabulary, notes, keys_alone);
    EXPECT_THAT(notes, testing::IsEmpty());
    EXPECT_EQ(keys.texts("tokenizer.ggml.tokens").size(), static_cast<size_t>(vocabulary));
    const auto files = tokenizer_of_gguf(keys, notes);
    ASSERT_TRUE(files.contains("tokenizer.json"));
    const Tokenizer back = parse_tokenizer(files.at("tokenizer.json"));
    EXPECT_EQ(back.vocab_size(), original.vocab_size());
    for (const char* text : kTexts) {
      EXPECT_EQ(back.encode(text), original.encode(text)) << name << ": " << text;
      EXPECT_EQ(back.decode(back.encode(text)), original.decode(original.encode(text)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, GgufTokenizers,
                         testing::Values(std::pair{"bpe_shakespeare", int64_t{1024}},
                                         std::pair{"llama3_style", int64_t{912}},
                                         std::pair{"qwen2_style", int64_t{960}},
                                         std::pair{"gpt2", int64_t{50257}}));

// Tokens that only the files beside tokenizer.json name, as those of many chat models.
TEST(GgufTokenizer, TokensOfTheConfiguration) {
  TemporaryFolder folder;
  write_file_atomically(folder / "tokenizer.json",
                        read_file(test_data("tokenizer/bpe_shakespeare/tokenizer.json")));
  write_file_atomically(folder / "tokenizer_config.json",
                        R"({"eos_token": "<|im_end|>", "extra_special_tokens": ["<|im_start|>"]})");
  const TokenizerFiles files(folder.path());
  const Tokenizer original = load_tokenizer(files);
  const std::string text = "<|im_start|>user hello<|im_end|>";
  ASSERT_TRUE(original.find("<|im_start|>") && original.find("<|im_end|>"));
  for (const bool keys_alone : {false, true}) {
    GgufHeadWriter head;
    EXPECT_THAT(add_gguf_tokenizer(head, model_of(1030), files), testing::IsEmpty());
    std::string bytes = head.head();
    const std::string key = "tokenizer.huggingface.json";
    if (keys_alone) bytes.replace(bytes.find(key), key.size(), "tokenizer.huggingface.none");
    std::vector<std::string> notes;
    const auto back = tokenizer_of_gguf(parse_gguf(bytes, "F", GgufContent::head).keys, notes);
    EXPECT_EQ(parse_tokenizer(back.at("tokenizer.json")).encode(text), original.encode(text));
  }
}

// Templates of conversations ask for them by name.
TEST(GgufTokenizer, NamedTokensOfTheConfiguration) {
  TemporaryFolder folder;
  write_file_atomically(folder / "tokenizer.json",
                        read_file(test_data("tokenizer/bpe_shakespeare/tokenizer.json")));
  write_file_atomically(
      folder / "tokenizer_config.json",
      R"({"unk_token": "<|unk|>", "sep_token": {"content": "<|sep|>", "lstrip": false,
                            "normalized": false, "rstrip": false, "single_word": false},
                            "mask_token": "<|mask|>", "cls_token": null})");
  const TokenizerFiles files(folder.path());
  const Tokenizer original = load_tokenizer(files);
  GgufHeadWriter head;
  EXPECT_THAT(add_gguf_tokenizer(head, model_of(1030), files), testing::IsEmpty());
  const GgufKeys keys = parse_gguf(head.head(), "F", GgufContent::head).keys;
  EXPECT_EQ(keys.integer("tokenizer.ggml.unknown_token_id"), original.find("<|unk|>"));
  EXPECT_EQ(keys.integer("tokenizer.ggml.seperator_token_id"), original.find("<|sep|>"));
  EXPECT_FALSE(keys.has("tokenizer.ggml.cls_token_id"));
  std::vector<std::string> notes;
  const auto config =
      nlohmann::json::parse(tokenizer_of_gguf(keys, notes).at("tokenizer_config.json"));
  EXPECT_EQ(config, (nlohmann::json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                    {"model_input_names", {"input_ids", "attention_mask"}},
                                    {"eos_token", "<|endoftext|>"},
                                    {"unk_token", "<|unk|>"},
                                    {"sep_token", "<|sep|>"},
                                    {"mask_token", "<|mask|>"}}));
}

// SmolLM splits digits.
TEST(GgufTokenizer, DigitsApart) {
  auto json =
      nlohmann::json::parse(read_file(test_data("tokenizer/bpe_shakespeare/tokenizer.json")));
  const auto bytes = json["pre_tokenizer"];
  json["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, bytes}}};
  TemporaryFolder folder;
  write_file_atomically(folder / "tokenizer.json", json.dump());
  GgufHeadWriter head;
  EXPECT_THAT(add_gguf_tokenizer(head, model_of(1024), TokenizerFiles(folder.path())),
              testing::IsEmpty());
  std::string text = head.head();
  text.replace(text.find("tokenizer.huggingface.json"), 26, "tokenizer.huggingface.none");
  const GgufKeys keys = parse_gguf(text, "F", GgufContent::head).keys;
  EXPECT_EQ(keys.text("tokenizer.ggml.pre"), "smollm");
  std::vector<std::string> notes;
  const auto files = tokenizer_of_gguf(keys, notes);
  const Tokenizer original = load_tokenizer(folder.path());
  const Tokenizer back = parse_tokenizer(files.at("tokenizer.json"));
  for (const char* one : kTexts) EXPECT_EQ(back.encode(one), original.encode(one)) << one;
}

TEST(GgufTokenizer, TypesAndBeginning) {
  std::vector<std::string> notes;
  ModelConfig model;
  model.begin_token = 901;
  model.end_tokens = {902};
  const GgufKeys keys = keys_of("llama3_style", 912, notes, true, model);
  EXPECT_EQ(keys.text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(keys.text("tokenizer.ggml.pre"), "llama-bpe");
  const auto& types = keys.integers("tokenizer.ggml.token_type");
  EXPECT_EQ(types.at(0), 1);
  EXPECT_EQ(types.at(901), 3);
  EXPECT_EQ(types.at(911), 5);
  EXPECT_EQ(keys.texts("tokenizer.ggml.tokens").at(911), "[PAD911]");
  EXPECT_TRUE(keys.flag("tokenizer.ggml.add_bos_token", false));
  const auto files = tokenizer_of_gguf(keys, notes);
  const Tokenizer back = parse_tokenizer(files.at("tokenizer.json"));
  auto cache = back.make_cache();
  std::vector<int32_t> ids;
  back.encode("a", {.add_special_tokens = true}, cache, ids);
  EXPECT_EQ(ids.front(), 901);
}

// Llama 2's kind: pieces, scores and types give a tokenizer.model that encodes the same.
TEST(GgufTokenizer, SentencePieceGivesTheSameIds) {
  const Tokenizer original = load_tokenizer(test_data("tokenizer/spm_bpe"));
  for (const bool keys_alone : {false, true}) {
    std::vector<std::string> notes;
    ModelConfig model;
    model.begin_token = 1;
    model.end_tokens = {2};
    const GgufKeys keys = keys_of("spm_bpe", 912, notes, keys_alone, model);
    EXPECT_THAT(notes, testing::IsEmpty());
    EXPECT_EQ(keys.text("tokenizer.ggml.model"), "llama");
    EXPECT_EQ(keys.numbers("tokenizer.ggml.scores").size(), 912u);
    EXPECT_EQ(keys.integers("tokenizer.ggml.token_type").at(0), 2);
    EXPECT_EQ(keys.integers("tokenizer.ggml.token_type").at(1), 3);
    EXPECT_EQ(keys.integers("tokenizer.ggml.token_type").at(911), 5);
    EXPECT_EQ(keys.integer("tokenizer.ggml.unknown_token_id"), 0);
    const auto files = tokenizer_of_gguf(keys, notes);
    TemporaryFolder folder;
    for (const auto& [name, text] : files) write_file_atomically(folder / name, text);
    EXPECT_EQ(files.contains("tokenizer.json"), !keys_alone);
    const Tokenizer back = load_tokenizer(folder.path());
    EXPECT_EQ(back.vocab_size(), original.vocab_size());
    EXPECT_EQ(back.special_ids().bos, original.special_ids().bos);
    EXPECT_EQ(back.special_ids().eos, original.special_ids().eos);
    for (const char* text : kTexts) {
      EXPECT_EQ(back.encode(text), original.encode(text)) << text;
      EXPECT_EQ(back.decode(back.encode(text)), original.decode(original.encode(text)));
    }
  }
}

/// The keys of a folder that holds a file and a tokenizer_config.json.
GgufKeys keys_with(const char* from, const char* name, const std::string& config,
                   std::vector<std::string>& notes) {
  GgufHeadWriter head;
  notes =
      add_gguf_tokenizer(head, model_of(1000),
                         TokenizerFiles("folder", {{name, read_file(test_data("tokenizer") / from)},
                                                   {"tokenizer_config.json", config}}));
  return parse_gguf(head.head(), "F", GgufContent::head).keys;
}

// llama.cpp puts a space before each text and after each special token, or never.
TEST(GgufTokenizer, SaysWhichTextsAClassCutsInAnotherWay) {
  const char* model = "spm_bpe/tokenizer.model";
  std::vector<std::string> notes;
  GgufKeys keys =
      keys_with(model, "tokenizer.model", R"({"tokenizer_class": "LlamaTokenizer"})", notes);
  EXPECT_TRUE(keys.flag("tokenizer.ggml.add_space_prefix", false));
  EXPECT_THAT(notes, testing::Contains(HasSubstr("texts that begin with a space: llama.cpp")));
  EXPECT_THAT(notes, testing::Contains(HasSubstr("text right after a special token: llama.cpp")));
  EXPECT_THAT(notes, testing::Not(testing::Contains(HasSubstr("begin with a word"))));
  keys = keys_with(model, "tokenizer.model",
                   R"({"tokenizer_class": "GemmaTokenizer", "add_bos_token": true})", notes);
  EXPECT_FALSE(keys.flag("tokenizer.ggml.add_space_prefix", true));
  EXPECT_TRUE(keys.flag("tokenizer.ggml.add_bos_token", false));
  EXPECT_THAT(notes, testing::Not(testing::Contains(HasSubstr("begin with a"))));
}

/// The configuration beside the tokenizer that comes back of these files.
nlohmann::json configuration_back(const ModelConfig& model,
                                  std::map<std::string, std::string> files) {
  GgufHeadWriter head;
  add_gguf_tokenizer(head, model, TokenizerFiles("folder", std::move(files)));
  std::vector<std::string> notes;
  return nlohmann::json::parse(
      tokenizer_of_gguf(parse_gguf(head.head(), "F", GgufContent::head).keys, notes)
          .at("tokenizer_config.json"));
}

// Also of a tokenizer that only the copy of tokenizer.json holds.
TEST(GgufTokenizer, RolesOfATokenizerWithoutKeys) {
  ModelConfig model = model_of(1000);
  model.begin_token = 1;
  model.end_tokens = {2};
  const std::string unigram = test::whole_tokenizer(nlohmann::json::parse(R"({
      "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                       {"id": 1, "content": "<s>", "special": true},
                       {"id": 2, "content": "</s>", "special": true}],
      "model": {"type": "Unigram", "unk_id": 0,
                "vocab": [["<unk>", 0], ["<s>", 0], ["</s>", 0], ["a", -1]]}})"))
                                  .dump();
  const auto config = configuration_back(
      model, {{"tokenizer.json", unigram},
              {"tokenizer_config.json", R"({"unk_token": "<unk>", "mask_token": "<mask>"})"}});
  EXPECT_EQ(config, (nlohmann::json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                    {"model_input_names", {"input_ids", "attention_mask"}},
                                    {"bos_token", "<s>"},
                                    {"eos_token", "</s>"},
                                    {"unk_token", "<unk>"},
                                    {"mask_token", "<mask>"}}));
}

// Those that a class has where no file names them; and the padding token of a family that has no
// row for it.
TEST(GgufTokenizer, RolesOfAClass) {
  ModelConfig model = model_of(10);
  model.family = "gpt2";
  const auto config = configuration_back(
      model, {{"vocab.json", R"({"a": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "<unk>": 4,
                                 "<mask>": 5})"},
              {"merges.txt", ""},
              {"tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})"}});
  EXPECT_EQ(config, (nlohmann::json{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                    {"model_input_names", {"input_ids", "attention_mask"}},
                                    {"bos_token", "<s>"},
                                    {"eos_token", "</s>"},
                                    {"pad_token", "<pad>"},
                                    {"unk_token", "<unk>"},
                                    {"sep_token", "</s>"},
                                    {"cls_token", "<s>"},
                                    {"mask_token", "<mask>"}}));
}

// llama.cpp's keys have no flags of added tokens.
TEST(GgufTokenizer, SaysWhichFlagsOfAddedTokensAreLost) {
  std::vector<std::string> notes;
  const GgufKeys keys = keys_with("spm_bpe/tokenizer.model", "tokenizer.model", R"({
      "added_tokens_decoder": {
        "900": {"content": "Foo bar", "special": false, "normalized": false},
        "901": {"content": "<x>", "special": true, "normalized": false, "lstrip": true}}})",
                                  notes);
  EXPECT_THAT(notes,
              testing::Contains(HasSubstr("text around the added token \"<x>\": llama.cpp")));
  EXPECT_THAT(notes, testing::Not(testing::Contains(HasSubstr("Foo bar"))));
  // A token with a space inside is found again.
  const auto files = tokenizer_of_gguf(keys, notes);
  const Tokenizer back = load_tokenizer(TokenizerFiles("F", files));
  const auto token = back.find("Foo bar");
  ASSERT_TRUE(token);
  EXPECT_THAT(back.encode("a Foo bar"), testing::Contains(*token));
}

TEST(GgufTokenizer, SaysThatPiecesOfUnigramsAreLeftOut) {
  for (const auto& [file, name] : {std::pair{"spiece.model", "T5Tokenizer"},
                                   std::pair{"sentencepiece.bpe.model", "XLMRobertaTokenizer"}}) {
    std::vector<std::string> notes;
    const GgufKeys keys = keys_with("spm_unigram/tokenizer.model", file,
                                    fmt::format(R"({{"tokenizer_class": "{}"}})", name), notes);
    EXPECT_EQ(keys.text("tokenizer.ggml.model"), "none");
    EXPECT_THAT(notes, testing::Contains(HasSubstr("written without a tokenizer"))) << file;
  }
}

// RoBERTa puts tokens around texts, and Qwen2 cuts them in its own way.
TEST(GgufTokenizer, ClassesOfVocabularies) {
  const auto keys_of_class = [](const char* name, std::vector<std::string>& notes) {
    std::string vocabulary = R"({"a": 0, "<s>": 1, "</s>": 2, "<pad>": 3, "<unk>": 4,
                                 "<mask>": 5, "<|endoftext|>": 6, "<|padding|>": 7})";
    GgufHeadWriter head;
    notes = add_gguf_tokenizer(
        head, model_of(10),
        TokenizerFiles("folder", {{"vocab.json", vocabulary},
                                  {"merges.txt", ""},
                                  {"tokenizer_config.json",
                                   fmt::format(R"({{"tokenizer_class": "{}"}})", name)}}));
    return parse_gguf(head.head(), "F", GgufContent::head).keys;
  };
  std::vector<std::string> notes;
  GgufKeys keys = keys_of_class("RobertaTokenizer", notes);
  EXPECT_THAT(notes, testing::IsEmpty());
  EXPECT_EQ(keys.text("tokenizer.ggml.pre"), "gpt-2");
  const Tokenizer back = load_tokenizer(TokenizerFiles("F", tokenizer_of_gguf(keys, notes)));
  EXPECT_THAT(back.encode("a", {.add_special_tokens = true}), testing::ElementsAre(1, 0, 2));
  keys = keys_of_class("Qwen2Tokenizer", notes);
  EXPECT_EQ(keys.text("tokenizer.ggml.pre"), "qwen2");
  EXPECT_FALSE(keys.flag("tokenizer.ggml.add_bos_token", true));
}

// Ids that only generation_config.json has.
TEST(GgufTokenizer, TwoIdsEndTexts) {
  GgufHeadWriter head;
  auto notes = add_gguf_tokenizer(
      head, model_of(4),
      TokenizerFiles("folder", {{"vocab.json", R"({"a": 0, "<|endoftext|>": 1, "b": 2, "c": 3})"},
                                {"merges.txt", ""},
                                {"generation_config.json", R"({"eos_token_id": [1, 2, 3]})"}}));
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("the others are left out: 3")));
  const GgufKeys keys = parse_gguf(head.head(), "F", GgufContent::head).keys;
  EXPECT_EQ(keys.integer("tokenizer.ggml.eos_token_id"), 1);
  EXPECT_EQ(keys.integer("tokenizer.ggml.eot_token_id"), 2);
  notes.clear();
  const Tokenizer back = load_tokenizer(TokenizerFiles("F", tokenizer_of_gguf(keys, notes)));
  EXPECT_THAT(back.special_ids().stop, testing::ElementsAre(1, 2));
}

// Programs that generate look for them there first.
TEST(GgufTokenizer, GenerationHasTheIdsThatTheFileNames) {
  GgufHeadWriter head;
  head.add_text("tokenizer.ggml.model", "gpt2");
  head.add_texts("tokenizer.ggml.tokens", {"<s>", "</s>", "<pad>", "<turn>"});
  head.add_u32("tokenizer.ggml.bos_token_id", 0);
  head.add_u32("tokenizer.ggml.eos_token_id", 1);
  head.add_u32("tokenizer.ggml.padding_token_id", 2);
  const auto ids = [&] {
    std::vector<std::string> notes;
    const auto files =
        tokenizer_of_gguf(parse_gguf(head.head(), "F", GgufContent::head).keys, notes);
    return nlohmann::json::parse(files.at("generation_config.json"));
  };
  EXPECT_EQ(ids(), (nlohmann::json{{"bos_token_id", 0}, {"eos_token_id", 1}, {"pad_token_id", 2}}));
  head.add_u32("tokenizer.ggml.eot_token_id", 3);
  EXPECT_EQ(ids().at("eos_token_id"), nlohmann::json({1, 3}));
}

TEST(GgufTokenizer, SaysWhatItCannotDo) {
  std::vector<std::string> notes;
  const GgufKeys keys = keys_of("spm_unigram", 2000, notes, true);
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("neither byte-level BPE nor")));
  EXPECT_EQ(keys.text("tokenizer.ggml.model"), "none");
  notes.clear();
  auto files = tokenizer_of_gguf(keys, notes);
  files.erase("generation_config.json");  // the ids are known
  EXPECT_TRUE(files.empty());
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("F: has no tokenizer")));

  GgufHeadWriter head;
  head.add_text("tokenizer.ggml.model", "bert");
  notes.clear();
  EXPECT_TRUE(
      tokenizer_of_gguf(parse_gguf(head.head(), "F", GgufContent::head).keys, notes).empty());
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("(bert, default) is not supported")));

  GgufHeadWriter none;
  EXPECT_THAT(add_gguf_tokenizer(none, model_of(10), {}),
              testing::ElementsAre(HasSubstr("has no tokenizer")));
  EXPECT_THAT(
      [] {
        GgufHeadWriter small;
        add_gguf_tokenizer(small, model_of(1000),
                           TokenizerFiles(test_data("tokenizer") / "bpe_shakespeare"));
      },
      ThrowsMessage<IoError>(HasSubstr("token 1023, but the model has a vocabulary of 1000")));
}

}  // namespace
}  // namespace viaduct
