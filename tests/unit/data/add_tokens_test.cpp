// Tokens that are added to a tokenizer: the file that names them, and the files that get them.

#include "data/tokenizer/add_tokens.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/new_tokens.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/tokenizer_json_list.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Files = std::map<std::string, std::string>;

std::vector<std::string> contents_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::string> contents;
  for (const AddedToken& token : tokens) contents.push_back(token.content);
  return contents;
}

class NewTokenFile : public testing::Test {
 protected:
  NewTokens read(const std::string& text, const char* name = "words.txt") {
    write_file_atomically(folder_ / name, text);
    return read_new_tokens(folder_ / name);
  }
  void expect_refused(const std::string& text, const auto& message,
                      const char* name = "words.txt") {
    EXPECT_THAT(([&] { read(text, name); }), ThrowsMessage<ConfigError>(message));
  }

  test::TemporaryFolder folder_;
};

TEST_F(NewTokenFile, OneTokenALine) {
  const NewTokens plain = read(
      "\xEF\xBB\xBF"
      "foo\r\n bar \n\n{x}\nfoo\nlast");
  EXPECT_THAT(contents_of(plain.tokens), ElementsAre("foo", " bar ", "{x}", "last"));
  EXPECT_TRUE(plain.tokens[0].normalized);
  EXPECT_FALSE(plain.tokens[0].special);
  EXPECT_THAT(plain.notes,
              ElementsAre(HasSubstr("1 empty line is left out"), HasSubstr("\"foo\"")));
}

TEST_F(NewTokenFile, Objects) {
  const NewTokens objects = read(
      "{\"content\": \"a\\nb\"}\n{\"content\": \"<t>\", \"special\": true, \"lstrip\": true}\n",
      "tokens.jsonl");
  EXPECT_THAT(contents_of(objects.tokens), ElementsAre("a\nb", "<t>"));
  EXPECT_TRUE(objects.tokens[0].normalized);
  EXPECT_TRUE(objects.tokens[1].special && objects.tokens[1].lstrip);
  EXPECT_FALSE(objects.tokens[1].normalized);
  EXPECT_THAT(objects.notes, IsEmpty());
}

TEST_F(NewTokenFile, WhatIsWrongIsSaidWithItsLine) {
  expect_refused("a\n\xFF\n", AllOf(HasSubstr("words.txt:2: not UTF-8"), HasSubstr("byte 0")));
  expect_refused("\n\n", HasSubstr("has no tokens"));
  expect_refused("{\"content\": \"a\"}\n", HasSubstr("ends in .jsonl"));
  expect_refused("{\"content\": \"a\", \"specail\": true}", HasSubstr("nearest: special"),
                 "t.jsonl");
  expect_refused("\n{\"special\": true}", HasSubstr("t.jsonl:2: expected an object"), "t.jsonl");
  expect_refused("{\"content\": \"\"}", HasSubstr("has no content"), "t.jsonl");
  expect_refused("[1", HasSubstr("t.jsonl:1"), "t.jsonl");
  expect_refused("{\"content\": \"a\"}\n{\"content\": \"a\", \"special\": true}",
                 HasSubstr("t.jsonl:2: \"a\" stands in line 1 as well"), "t.jsonl");
  expect_refused(std::string(5000, 'x'), HasSubstr("5000 bytes"));
  EXPECT_THAT([&] { read_new_tokens(folder_ / "none.txt"); },
              ThrowsMessage<ConfigError>(HasSubstr("--add-tokens ")));
}

TEST(LongerList, KeepsAllOtherBytes) {
  const auto longer = [](const std::string& text) {
    return with_longer_list(text, "list", {"7", "{}"}, "x");
  };
  EXPECT_EQ(longer("{\"a\": \"]\\\"\", \"list\": [1, [2]], \"b\": 1.50}"),
            "{\"a\": \"]\\\"\", \"list\": [1, [2],\n    7,\n    {}\n  ], \"b\": 1.50}");
  EXPECT_EQ(longer("{\"list\":[ ]}"), "{\"list\":[\n    7,\n    {}\n  ]}");
  EXPECT_EQ(longer("{\"a\": {\"list\": [1]}}"),
            "{\n  \"list\": [\n    7,\n    {}\n  ],\"a\": {\"list\": [1]}}");
  EXPECT_EQ(json::parse(longer("{ }"))["list"].size(), 2u);
  EXPECT_THROW(longer("{\"list\": 3}"), IoError);
}

/// Tokens a 0, b 1, c 2, ab 3; <e> 4 is added.
class AddTokens : public testing::Test {
 protected:
  AddTokens() {
    files_[kTokenizerFile] = whole(R"({
  "added_tokens": [{"id": 4, "content": "<e>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})");
  }
  static std::string whole(const char* text) {
    return test::whole_tokenizer(json::parse(text)).dump();
  }
  static AddedToken token(const std::string& content, bool special = false) {
    AddedToken made;
    made.content = content;
    made.special = special;
    made.normalized = !special;
    return made;
  }
  GrownTokenizer add(const std::vector<AddedToken>& tokens) const {
    return add_tokens(load_tokenizer(TokenizerFiles("model", files_)), files_, "model", tokens);
  }
  static std::vector<int32_t> encode(const GrownTokenizer& grown, std::string_view text) {
    return load_tokenizer(TokenizerFiles("model", grown.files)).encode(text);
  }
  static json of(const GrownTokenizer& grown, const char* name) {
    return json::parse(grown.files.at(name));
  }
  static void copy(Files& files, const char* from, const char* name) {
    files[name] = read_file(test::test_data("tokenizer") / from / name);
  }

  Files files_;
};

TEST_F(AddTokens, FollowAllIds) {
  const GrownTokenizer grown = add({token("cab"), token("<t>", true), token("ab"), token("<e>")});
  EXPECT_THAT(contents_of(grown.fresh), ElementsAre("cab", "<t>"));
  EXPECT_EQ(grown.fresh[0].id, 5);
  EXPECT_EQ(grown.vocab_size, 7);
  EXPECT_THAT(grown.notes,
              ElementsAre(AllOf(HasSubstr("added tokens already"), HasSubstr("<e>")),
                          AllOf(HasSubstr("in the vocabulary already"), HasSubstr("ab"))));
  EXPECT_THAT(encode(grown, "cab<t>ab<e>"), ElementsAre(5, 6, 3, 4));
  // As the tokenizers package writes them.
  EXPECT_EQ(of(grown, kTokenizerFile)["added_tokens"][1],
            json::parse(R"({"id": 5, "content": "cab", "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": true, "special": false})"));
  EXPECT_EQ(grown.files.size(), 1u);  // nothing else was there
}

// In a byte-level vocabulary "é" is the byte E9, and "Ã©" the bytes C3 A9, which are the text é.
TEST_F(AddTokens, LettersThatSpellBytesAreNamed) {
  files_[kTokenizerFile] = whole(R"({
  "added_tokens": [],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "é": 2, "Ã©": 3}, "merges": []}})");
  const GrownTokenizer grown = add(
      {token("Ägypten"), token("日本"), token("Ägyp ten"), token("é"), token("a"), token("plain")});
  EXPECT_THAT(grown.notes,
              ElementsAre(AllOf(HasSubstr("in the vocabulary already, and"), HasSubstr("\"a\"")),
                          AllOf(HasSubstr("spell other bytes"), HasSubstr("(1 token): \"é\"")),
                          AllOf(HasSubstr("not decoded to their text"),
                                HasSubstr("(1 token): \"Ägypten\""))));
  const Tokenizer after = load_tokenizer(TokenizerFiles("model", grown.files));
  for (const AddedToken& fresh : grown.fresh)
    EXPECT_EQ(after.decode_text({&fresh.id, 1}) == fresh.content, fresh.content != "Ägypten")
        << fresh.content;
}

TEST_F(AddTokens, NothingNewIsAnError) {
  EXPECT_THAT([&] { add({token("<e>")}); },
              ThrowsMessage<ConfigError>(AllOf(HasSubstr("already"), HasSubstr("\"<e>\""))));
}

TEST_F(AddTokens, AllFilesThatAreThere) {
  files_[kTokenizerConfigurationFile] = R"({"tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<e>", "additional_special_tokens": ["<x>"],
    "added_tokens_decoder": {"4": {"content": "<e>", "special": true},
                             "5": {"content": "<x>", "special": true}}})";
  files_[kSpecialTokensFile] = R"({"eos_token": "<e>", "additional_special_tokens": ["<x>"]})";
  files_[kAddedTokensFile] = R"({"<e>": 4, "<x>": 5})";
  const GrownTokenizer grown = add({token("<t>", true), token("word")});
  EXPECT_EQ(grown.fresh[0].id, 6);
  // Also the token that only the configuration had: ids follow from the order of the list.
  EXPECT_EQ(of(grown, kTokenizerFile)["added_tokens"].size(), 4u);
  const json config = of(grown, kTokenizerConfigurationFile);
  EXPECT_EQ(config["added_tokens_decoder"]["6"]["content"], "<t>");
  EXPECT_EQ(config["added_tokens_decoder"]["7"]["special"], false);
  const json named = json::array({"<x>", "<t>"});
  EXPECT_EQ(config["additional_special_tokens"], named);
  EXPECT_EQ(of(grown, kSpecialTokensFile)["additional_special_tokens"], named);
  EXPECT_EQ(of(grown, kAddedTokensFile),
            json::parse(R"({"<e>": 4, "<x>": 5, "<t>": 6, "word": 7})"));
  EXPECT_THAT(encode(grown, "a<t>word<e><x>"), ElementsAre(0, 6, 7, 4, 5));
}

TEST_F(AddTokens, OfAVocabularyWithoutTokenizerJson) {
  files_.clear();
  copy(files_, "bpe_shakespeare", "vocab.json");
  copy(files_, "bpe_shakespeare", "merges.txt");
  const Tokenizer before = load_tokenizer(TokenizerFiles("model", files_));
  const GrownTokenizer grown = add({token("zounds"), token("<t>", true)});
  EXPECT_EQ(grown.fresh[0].id, before.vocab_size());
  EXPECT_EQ(of(grown, kAddedTokensFile).at("zounds"), before.vocab_size());
  const Tokenizer after = load_tokenizer(TokenizerFiles("model", grown.files));
  EXPECT_TRUE(after.is_special(before.vocab_size() + 1));
  EXPECT_EQ(after.special_ids().eos, before.special_ids().eos);
}

TEST_F(AddTokens, OfASentencePieceModel) {
  files_.clear();
  copy(files_, "spm_bpe", "tokenizer.model");
  for (const char* kind : {"PreTrainedTokenizerFast", "LlamaTokenizer"}) {
    SCOPED_TRACE(kind);
    files_[kTokenizerConfigurationFile] = json{{"tokenizer_class", kind}}.dump();
    const Tokenizer before = load_tokenizer(TokenizerFiles("model", files_));
    const GrownTokenizer grown = add({token("zounds"), token("<t>", true)});
    const Tokenizer after = load_tokenizer(TokenizerFiles("model", grown.files));
    EXPECT_EQ(after.find("zounds"), before.vocab_size());
    EXPECT_TRUE(after.is_special(before.vocab_size() + 1));
    for (const AddedToken& token : before.added_tokens().tokens())
      EXPECT_NE(after.added_tokens().find(token.content), nullptr) << token.content;
  }
  // added_tokens.json has ids alone.
  AddedToken word = token("forsooth");
  word.single_word = true;
  EXPECT_THAT(
      [&] {
        add({token("zounds"), word});
      },
      ThrowsMessage<ConfigError>(HasSubstr("single_word of the token \"forsooth\"")));
}

}  // namespace
}  // namespace viaduct
