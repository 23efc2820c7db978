// Which files of a tokenizer folder are used, and which ids end a text.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/llama_pipeline.h"
#include "data/tokenizer/qwen2_pipeline.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class LoadTokenizer : public testing::Test {
 protected:
  void copy(const char* from, const char* name) {
    std::filesystem::copy(test::test_data("tokenizer") / from / name, folder_ / name);
  }
  void write(const char* name, const json& content) {
    write_file_atomically(folder_ / name, test::whole_tokenizer(content).dump());
  }
  Tokenizer load() const { return load_tokenizer(folder_.path()); }

  test::TemporaryFolder folder_;
};

TEST_F(LoadTokenizer, NeedsFiles) {
  EXPECT_THROW(load(), IoError);
}

TEST_F(LoadTokenizer, NamesAModelThatItCannotRead) {
  write("tokenizer.json", {{"model", {{"type", "WordPiece"}, {"vocab", json::object()}}}});
  EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("WordPiece")));
}

TEST_F(LoadTokenizer, RefusesFurtherVersions) {
  copy("qwen2_style", "tokenizer.json");
  write("tokenizer_config.json", {{"fast_tokenizer_files", {"tokenizer.json"}}});
  EXPECT_EQ(load().vocab_size(), 903);
  write("tokenizer_config.json",
        {{"fast_tokenizer_files", {"tokenizer.4.0.0.json", "tokenizer.json", "x"}}});
  EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("tokenizer.4.0.0.json")));
}

// transformers changes the cuts of such a folder.
TEST_F(LoadTokenizer, RefusesToFixThePatternOfMistral) {
  json vocabulary = json::object();
  for (int id = 0; id < 100001; ++id) vocabulary["t" + std::to_string(id)] = id;
  json document = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  write("tokenizer.json", document);
  write("tokenizer_config.json", {{"fix_mistral_regex", true}});
  EXPECT_EQ(load().vocab_size(), 100001);
  write("config.json", {{"model_type", "mistral"}, {"transformers_version", "4.57.1"}});
  EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("fix_mistral_regex")));
  write("config.json", {{"model_type", "mistral"}, {"transformers_version", "5.0.0"}});
  EXPECT_NO_THROW(load());
  write("config.json", {{"model_type", "llama"}});
  EXPECT_NO_THROW(load());
}

TEST_F(LoadTokenizer, NamesTheStepThatItCannotRead) {
  json document = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}},
                   {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "xy"}}}};
  write("tokenizer.json", document);
  EXPECT_THAT([&] { load(); },
              ThrowsMessage<IoError>(HasSubstr("Metaspace of the pre_tokenizer: \"replacement\"")));
  document["pre_tokenizer"] = {{"type", "Punctuation"}, {"behavior", "Odd"}};
  write("tokenizer.json", document);
  EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("Punctuation: behavior")));
}

TEST_F(LoadTokenizer, LeavesAModelThatItCannotReadToOtherFiles) {
  json document = {
      {"model", {{"type", "WordPiece"}, {"vocab", json::object()}}},
      {"added_tokens", json::array({json{{"id", 900}, {"content", "<tool>"}, {"special", true}}})}};
  write("tokenizer.json", document);
  copy("spm_bpe", "tokenizer.model");
  EXPECT_EQ(load().vocab_size(), 901);
  EXPECT_EQ(load().encode("a<tool>").back(), 900);
  document = json::parse(read_file(test::test_data("tokenizer/spm_bpe/tokenizer.json")));
  document["normalizer"] = {{"type", "BertNormalizer"}};
  write("tokenizer.json", document);
  EXPECT_EQ(load().kind(), "BPE");
  // Byte-level BPE comes first, whatever is beside it.
  document["pre_tokenizer"] = {{"type", "ByteLevel"}};
  write("tokenizer.json", document);
  EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("BertNormalizer")));
}

TEST_F(LoadTokenizer, PrefersTheJsonFile) {
  copy("spm_bpe", "tokenizer.model");
  copy("gpt2", "vocab.json");
  copy("gpt2", "merges.txt");
  EXPECT_EQ(load().kind(), "BPE");
  copy("qwen2_style", "tokenizer.json");
  EXPECT_EQ(load().vocab_size(), 903);
}

TEST_F(LoadTokenizer, ReadsASentencePieceModelFromTheJson) {
  copy("spm_bpe", "tokenizer.model");
  json document = json::parse(read_file(test::test_data("tokenizer/spm_bpe/tokenizer.json")));
  document["added_tokens"].push_back({{"id", 900}, {"content", "<tool>"}, {"special", true}});
  write("tokenizer.json", document);
  const Tokenizer tokenizer = load();
  EXPECT_EQ(tokenizer.kind(), "BPE");
  EXPECT_EQ(tokenizer.vocab_size(), 901);
  const auto ids = tokenizer.encode("a<tool>b</s>", {.add_special_tokens = true});
  EXPECT_EQ(ids.front(), 1);  // the template in the file
  EXPECT_EQ(ids[2], 900);
  EXPECT_EQ(ids.back(), 2);
  EXPECT_EQ(tokenizer.decode_text(ids), "<s> a<tool> b</s>");  // as Hugging Face's tokenizers
  document["added_tokens"].back()["id"] = 899;
  write("tokenizer.json", document);
  EXPECT_THROW(load(), IoError);
}

TEST_F(LoadTokenizer, ASentencePieceModelAloneKnowsItsControlTokens) {
  copy("spm_bpe", "tokenizer.model");
  const Tokenizer llama = load();
  EXPECT_EQ(llama.special_ids().bos, 1);
  EXPECT_EQ(llama.special_ids().eos, 2);
  EXPECT_EQ(llama.encode("</s>", {.add_special_tokens = true}), std::vector<int32_t>{2});
  EXPECT_GT(llama.encode("</s>", {.special_as_text = true}).size(), 1u);
  write("tokenizer_config.json", {{"add_bos_token", false}, {"add_eos_token", true}});
  EXPECT_EQ(load().encode("", {.add_special_tokens = true}), std::vector<int32_t>{2});
}

TEST_F(LoadTokenizer, IdsOfTheModelDoNotRenameWhatBeginsTexts) {
  copy("spm_bpe", "tokenizer.model");
  write("config.json", {{"model_type", "llama"}, {"bos_token_id", 5}});
  const auto around = [&](const json& bos) {
    json config = {{"tokenizer_class", "LlamaTokenizer"}, {"add_bos_token", true}};
    if (bos != "default") config["bos_token"] = bos;
    write("tokenizer_config.json", config);
    return load().encode("", {.add_special_tokens = true});
  };
  EXPECT_THAT(around("default"), ElementsAre(1));
  EXPECT_THAT(around(nullptr), ElementsAre());
}

TEST_F(LoadTokenizer, NamesOfFilesThatTheClassDoesNotLookFor) {
  copy("spm_bpe", "tokenizer.model");
  std::filesystem::rename(folder_ / "tokenizer.model", folder_ / "spiece.model");
  EXPECT_EQ(load().kind(), "BPE");
  for (const char* name : {"GemmaTokenizer", "LlamaTokenizer", "XLMRobertaTokenizer"}) {
    write("tokenizer_config.json", {{"tokenizer_class", name}});
    EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("rename the file"))) << name;
  }
}

TEST_F(LoadTokenizer, T5EndsItsTexts) {
  copy("spm_unigram", "tokenizer.model");
  write("config.json", {{"model_type", "t5"}});
  EXPECT_EQ(load().encode("", {.add_special_tokens = true}), std::vector<int32_t>{1});
}

TEST_F(LoadTokenizer, NamesAClassThatItDoesNotBuild) {
  copy("spm_unigram", "tokenizer.model");
  write("tokenizer_config.json", {{"tokenizer_class", "NllbTokenizer"}});
  EXPECT_THAT([&] { load(); }, ThrowsMessage<ConfigError>(HasSubstr("NllbTokenizer")));
  std::filesystem::remove(folder_ / "tokenizer.model");
  copy("gpt2", "vocab.json");
  copy("gpt2", "merges.txt");
  for (const char* name : {"CLIPTokenizer", "PreTrainedTokenizerFast"}) {
    write("tokenizer_config.json", {{"tokenizer_class", name}});
    EXPECT_THAT([&] { load(); },
                ThrowsMessage<ConfigError>(HasSubstr(fmt::format("tokenizer_class {} is", name))));
  }
}

TEST_F(LoadTokenizer, SaysWhatTransformersTakesAsQwen2s) {
  const auto warning = [&] { return qwen2_pipeline_warning(TokenizerFiles(folder_.path())); };
  EXPECT_EQ(warning(), "");
  copy("qwen2_style", "tokenizer.json");
  EXPECT_EQ(warning(), "");
  std::filesystem::remove(folder_ / "tokenizer.json");
  copy("llama3_style", "tokenizer.json");
  EXPECT_THAT(warning(), HasSubstr("is not the tokenizer of Qwen2"));
  std::filesystem::remove(folder_ / "tokenizer.json");
  copy("gpt2", "vocab.json");
  copy("gpt2", "merges.txt");
  EXPECT_THAT(warning(), HasSubstr("is not the tokenizer of Qwen2"));
  write("config.json", {{"model_type", "qwen2"}});
  EXPECT_EQ(warning(), "");
}

TEST_F(LoadTokenizer, SaysWhatTransformersMakesOfLlamas) {
  const auto warning = [&] { return llama_pipeline_warning(TokenizerFiles(folder_.path())); };
  EXPECT_EQ(warning(), "");
  copy("spm_bpe", "tokenizer.json");  // Prepend and Replace, as in Llama 2's
  EXPECT_EQ(warning(), "");
  write("tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}});
  EXPECT_THAT(warning(), HasSubstr("before the first words of a text alone"));
  write("config.json", {{"model_type", "mistral"}});  // transformers follows the file
  EXPECT_EQ(warning(), "");
  write("config.json", {{"model_type", "llama"}});
  json document = json::parse(read_file(folder_ / "tokenizer.json"));
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"prepend_scheme", "first"}, {"split", false}};
  write("tokenizer.json", document);
  EXPECT_EQ(warning(), "");
  write("tokenizer_config.json", {{"tokenizer_class", "LlamaTokenizer"}, {"legacy", true}});
  EXPECT_THAT(warning(), HasSubstr("behind special tokens"));
  std::filesystem::remove(folder_ / "tokenizer.json");
  copy("llama3_style", "tokenizer.json");
  EXPECT_EQ(warning(), "");
}

TEST_F(LoadTokenizer, RobertaHasATemplateAndSpecialTokens) {
  copy("gpt2", "vocab.json");
  copy("gpt2", "merges.txt");
  write("config.json", {{"model_type", "roberta"}});
  const Tokenizer roberta = load();
  const auto begin = roberta.find("<s>"), end = roberta.find("</s>");
  ASSERT_TRUE(begin && end);
  EXPECT_EQ(roberta.encode("", {.add_special_tokens = true}), (std::vector{*begin, *end}));
  EXPECT_EQ(roberta.encode("<s>"), std::vector{*begin});
}

TEST_F(LoadTokenizer, SplitsSpecialTokensIfTheConfigurationSaysSo) {
  copy("llama3_style", "tokenizer.json");
  EXPECT_EQ(load().encode("<|eot_id|>").size(), 1u);
  write("tokenizer_config.json", {{"split_special_tokens", true}});
  EXPECT_GT(load().encode("<|eot_id|>").size(), 1u);
}

TEST_F(LoadTokenizer, SaysWhatAFolderHasInstead) {
  write("vocab.txt", "x");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<IoError>(HasSubstr("vocab.txt, the vocabulary of a")));
  write_file_atomically(folder_ / "tokenizer.model", "IQ== 0\nIg== 1\n");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<IoError>(HasSubstr("a vocabulary of tiktoken")));
  write_file_atomically(folder_ / "tokenizer.model", "x");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<IoError>(HasSubstr("not a SentencePiece model")));
}

TEST_F(LoadTokenizer, ReadsTheEndsOfTexts) {
  copy("qwen2_style", "tokenizer.json");
  EXPECT_EQ(load().special_ids().eos, 900);  // <|endoftext|>
  EXPECT_THAT(load().special_ids().stop, ElementsAre(900));
  write("config.json", {{"eos_token_id", 901}, {"bos_token_id", 100000}});
  EXPECT_EQ(load().special_ids().eos, 901);
  EXPECT_EQ(load().special_ids().bos, std::nullopt);  // no token of this vocabulary
  write("generation_config.json", {{"eos_token_id", {902, 900}}, {"pad_token_id", 900}});
  EXPECT_EQ(load().special_ids().eos, 902);
  EXPECT_THAT(load().special_ids().stop, ElementsAre(902, 900));
  write("tokenizer_config.json", {{"eos_token", {{"content", "<|im_start|>"}}}});
  EXPECT_EQ(load().special_ids().eos, 901);
  // A token of a chat template ends messages; documents end with the token for the end of a text.
  EXPECT_EQ(load().special_ids().eod, 900);
  EXPECT_THAT(load().special_ids().stop, ElementsAre(902, 900, 901));
  EXPECT_EQ(load().special_ids().pad, 900);
  write("config.json", {{"eos_token_id", "x"}});
  EXPECT_THROW(load(), IoError);
}

TEST_F(LoadTokenizer, ReadsAddedTokensOfOlderFolders) {
  copy("gpt2", "vocab.json");
  copy("gpt2", "merges.txt");
  write("added_tokens.json", {{"<sep>", 50257}});
  EXPECT_THAT(load().encode("<sep><|endoftext|>"), ElementsAre(50257, 50256));
  // The list of the configuration replaces the file.
  write("tokenizer_config.json",
        {{"tokenizer_class", "GPT2Tokenizer"},
         {"added_tokens_decoder", {{"50258", {{"content", "<pad>"}, {"special", true}}}}}});
  const Tokenizer tokenizer = load();
  // transformers closes the gap before it.
  EXPECT_EQ(tokenizer.vocab_size(), 50258);
  EXPECT_THAT(tokenizer.encode("<pad><|endoftext|>"), ElementsAre(50257, 50256));
  EXPECT_EQ(tokenizer.find("<sep>"), std::nullopt);
  write("tokenizer_config.json", {{"added_tokens_decoder", {{"5x", json::object()}}}});
  EXPECT_THROW(load(), IoError);
}

TEST_F(LoadTokenizer, RefusesBrokenFiles) {
  copy("gpt2", "vocab.json");
  write_file_atomically(folder_ / "merges.txt", "#version: 0.2\n\xc4\xa0 t\nxyz\n");
  EXPECT_THAT([&] { load(); }, ThrowsMessage<IoError>(HasSubstr("line 3")));
  write_file_atomically(folder_ / "merges.txt", "#version: 0.2\n\n\xc4\xa0 t\r\n");
  EXPECT_EQ(load().vocab_size(), 50257);
  const std::string model = read_file(test::test_data("tokenizer/spm_bpe/tokenizer.model"));
  for (const size_t length : {size_t{0}, size_t{1}, size_t{100}, model.size() - 1}) {
    write_file_atomically(folder_ / "tokenizer.model", model.substr(0, length));
    EXPECT_THROW(load(), IoError) << length;
  }
}

TEST_F(LoadTokenizer, ListsItsFiles) {
  copy("spm_bpe", "tokenizer.model");
  copy("spm_bpe", "tokenizer.json");
  write("config.json", json::object());
  EXPECT_THAT(tokenizer_files(folder_.path()),
              ElementsAre(folder_ / "tokenizer.json", folder_ / "tokenizer.model"));
}

}  // namespace
}  // namespace viaduct
