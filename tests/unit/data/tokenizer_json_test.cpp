// Supported and refused contents of a tokenizer.json, with a vocabulary of a few letters.

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Throws;
using testing::ThrowsMessage;
using Ids = std::vector<int32_t>;

json small() {
  return json::parse(R"({
    "added_tokens": [{"id": 8, "content": "<e>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "model": {"type": "BPE",
      "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5, "\u0120a": 6, "bc": 7},
      "merges": ["a b", "ab c", "\u0120 a", "b c"]}})");
}

Tokenizer parse(const json& document) {
  return parse_tokenizer(test::whole_tokenizer(document).dump());
}

Ids ids_of(const json& document, std::string_view text, const EncodeOptions& options = {}) {
  return parse(document).encode(text, options);
}

json added(int id, const char* content, const char* flag, bool special) {
  json token{{"id", id}, {"content", content}, {"special", special}, {"normalized", false}};
  token[flag] = true;
  return token;
}

TEST(TokenizerJson, MergesByRank) {
  EXPECT_THAT(ids_of(small(), "abc a ab<e>"), ElementsAre(4, 6, 5, 3, 8));
  EXPECT_EQ(parse(small()).vocab_size(), 9);
}

TEST(TokenizerJson, TakesWholePiecesWhereMergesAreIgnored) {
  json document = small();
  document.erase("added_tokens");
  document["model"]["vocab"]["ca"] = 9;
  EXPECT_THAT(ids_of(document, "ca"), ElementsAre(2, 0));
  document["model"]["ignore_merges"] = true;
  EXPECT_THAT(ids_of(document, "ca"), ElementsAre(9));
}

TEST(TokenizerJson, AnAddedTokenThatWouldGetTheIdOfAnotherIsRefused) {
  json document = small();
  document["model"]["vocab"]["ca"] = 9;  // nothing has id 8 but the added token
  EXPECT_THAT([&] { ids_of(document, "ca"); },
              testing::ThrowsMessage<IoError>(HasSubstr("would give it id 9, which is token")));
}

// The ids of Hugging Face's tokenizers for these files.
TEST(TokenizerJson, BytesWithoutATokenAreLeftOutOrBecomeTheUnknownToken) {
  json document = small();
  EXPECT_THAT(ids_of(document, "axb"), ElementsAre(3)) << "its neighbours merge";
  EXPECT_THAT(ids_of(document, "x"), ElementsAre());
  document["model"]["unk_token"] = "bc";
  EXPECT_THAT(ids_of(document, "axxb"), ElementsAre(0, 7, 7, 1));
  document["model"]["fuse_unk"] = true;
  EXPECT_THAT(ids_of(document, "axxb xa"), ElementsAre(0, 7, 1, 5, 7, 0));

  const Tokenizer tokenizer = parse(document);
  EncodeCache cache = tokenizer.make_cache();
  for (int time = 0; time < 2; ++time) {  // the second time from the cache
    Ids ids;
    const UnknownBytes unknown = tokenizer.encode("ab yxxb x", {}, cache, ids);
    EXPECT_EQ(unknown.count, 4);
    EXPECT_EQ(unknown.first, 'y');
    EXPECT_EQ(tokenizer.encode("ab", {}, cache, ids).count, 0);
  }
  document["model"]["unk_token"] = "none";
  EXPECT_THAT([&] { parse(document); },
              ThrowsMessage<IoError>(HasSubstr("unk_token \"none\" is not in the vocabulary")));
}

TEST(TokenizerJson, NormalizesBeforeItCuts) {
  json document = small();
  document.erase("added_tokens");
  document["model"]["vocab"]["\u00c3"] = 10;  // the bytes of é
  document["model"]["vocab"]["\u00a9"] = 11;
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_THAT(ids_of(document, "\u00e9"), ElementsAre(10, 11));
  EXPECT_EQ(ids_of(document, "e\u0301"), ids_of(document, "\u00e9"));
  document["normalizer"] = {{"type", "NFKC"}};
  EXPECT_THAT(ids_of(document, "\uff41"), ElementsAre(0));  // a full-width a
}

TEST(TokenizerJson, AddedTokensTakeSpaceAndWordsAsTheySay) {
  json document = small();
  document["added_tokens"].push_back(added(9, "<l>", "lstrip", false));
  document["added_tokens"].push_back(added(10, "<r>", "rstrip", true));
  document["added_tokens"].push_back(added(11, "cab", "single_word", false));
  EXPECT_THAT(ids_of(document, "a  <l> a"), ElementsAre(0, 9, 6));
  EXPECT_THAT(ids_of(document, "a <r>  a"), ElementsAre(0, 5, 10, 0));
  EXPECT_THAT(ids_of(document, "cab acab"), ElementsAre(11, 6, 2, 3));
  // Only special tokens become text; the vocabulary has no token for '<'.
  EXPECT_THAT(ids_of(document, "a<l>", {.special_as_text = true}), ElementsAre(0, 9));
  EXPECT_THAT(ids_of(document, "a<r>", {.special_as_text = true}), ElementsAre(0));
}

TEST(TokenizerJson, TheLongestAddedTokenWins) {
  json document = small();
  document["added_tokens"].push_back(added(9, "aa", "special", true));
  document["added_tokens"].push_back(added(10, "aab", "special", true));
  EXPECT_THAT(ids_of(document, "aabaac"), ElementsAre(10, 9, 2));
}

TEST(TokenizerJson, LooksForNormalizedTokensInTheNormalizedText) {
  json document = small();
  document["normalizer"] = {{"type", "NFKC"}};
  document["added_tokens"].push_back(added(9, "cc", "normalized", false));
  EXPECT_THAT(ids_of(document, "a\uff43\uff43"), ElementsAre(0, 9));
  document["added_tokens"].back()["normalized"] = false;
  EXPECT_THAT(ids_of(document, "a\uff43\uff43"), ElementsAre(0, 2, 2));
}

// As the library: by the text that is shown, here of NFKC.
TEST(TokenizerJson, TextWithoutSpecialTokensLeavesOutWhatIsShownAsOne) {
  json document = small();
  document["normalizer"] = {{"type", "NFKC"}};
  document["added_tokens"].push_back(added(9, "\uff43", "normalized", true));
  EXPECT_TRUE(parse(document).is_special(9));
  EXPECT_FALSE(parse(document).is_left_out(9));
  EXPECT_TRUE(parse(document).is_left_out(8));
  EXPECT_FALSE(parse(document).is_left_out(0));
  document["added_tokens"].push_back(added(2, "c", "normalized", true));
  EXPECT_TRUE(parse(document).is_left_out(9)) << "shown as the special token c";
}

TEST(TokenizerJson, PutsTheTemplateAroundOnDemand) {
  json document = small();
  document["post_processor"] = json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<e>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [],
     "special_tokens": {"<e>": {"id": "<e>", "ids": [8], "tokens": ["<e>"]}}}]})");
  EXPECT_THAT(ids_of(document, "c"), ElementsAre(2));
  EXPECT_THAT(ids_of(document, "c", {.add_special_tokens = true}), ElementsAre(8, 2));
  document["post_processor"] =
      json::parse(R"({"type": "RobertaProcessing", "cls": ["a", 0], "sep": ["b", 1]})");
  EXPECT_THAT(ids_of(document, "c", {.add_special_tokens = true}), ElementsAre(0, 2, 1));
}

TEST(TokenizerJson, CutsByDigitsAndPunctuation) {
  json document = small();
  for (int digit = 0; digit < 3; ++digit) {
    document["model"]["vocab"][std::to_string(digit)] = 20 + digit;
  }
  document["model"]["vocab"]["12"] = 23;
  document["model"]["vocab"]["a1"] = 24;
  document["model"]["merges"] = {"1 2", "a 1"};
  const auto ids_with = [&](const char* step) {
    document["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {json::parse(step),
          {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}}}}};
    return ids_of(document, "a12");
  };
  EXPECT_THAT(ids_with(R"({"type": "Digits", "individual_digits": true})"), ElementsAre(0, 21, 22));
  EXPECT_THAT(ids_with(R"({"type": "Digits", "individual_digits": false})"), ElementsAre(0, 23));
  EXPECT_THAT(ids_with(R"({"type": "Split", "pattern": {"String": "2"}, "behavior": "Removed",
                         "invert": false})"),
              ElementsAre(24));
  EXPECT_THAT(ids_with(R"({"type": "Punctuation", "behavior": "Isolated"})"), ElementsAre(0, 23));
}

TEST(TokenizerJson, ServesManyThreads) {
  const Tokenizer tokenizer = parse(small());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += i % 3 == 0 ? " abc" : i % 3 == 1 ? "cab" : " bca";
  const Ids expected = tokenizer.encode(text);
  std::vector<Ids> found(4);
  std::vector<std::thread> threads;
  for (Ids& ids : found) {
    threads.emplace_back([&] {
      EncodeCache cache = tokenizer.make_cache();
      for (int round = 0; round < 5; ++round) {
        ids.clear();
        tokenizer.encode(text, {}, cache, ids);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Ids& ids : found) EXPECT_EQ(ids, expected);
}

TEST(TokenizerJson, RefusesIdsThatAreNoTokens) {
  const Tokenizer tokenizer = parse(small());
  EXPECT_THROW(tokenizer.decode(Ids{9}), IoError);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), IoError);
  DecodeStream stream(tokenizer);
  EXPECT_EQ(stream.push(100), "\uFFFD");
  EXPECT_EQ(shown_text(tokenizer, Ids{100}), "\uFFFD") << "a model's choice";
}

template <class E>
void expect_refused(const json& document, const char* message) {
  EXPECT_THAT([&] { parse(document); }, ThrowsMessage<E>(HasSubstr(message))) << document.dump();
}

TEST(HostileTokenizerJson, MalformedContentIsAnIoError) {
  const auto with = [](const char* pointer, const json& value) {
    json document = small();
    document[json::json_pointer(pointer)] = value;
    return document;
  };
  expect_refused<IoError>(with("/model", nullptr), "model");
  expect_refused<IoError>(with("/model", json::array()), "model");
  expect_refused<IoError>(with("/model/vocab", nullptr), "vocab");
  expect_refused<IoError>(with("/model/vocab", json::array({"a"})), "vocabulary");
  expect_refused<IoError>(with("/model/vocab", json::object()), "empty");
  expect_refused<IoError>(with("/model/merges", 3), "merges");
  expect_refused<IoError>(with("/model/merges/0", "ab"), "merge 0");
  expect_refused<IoError>(with("/model/merges/0", "a b c"), "merge 0");
  expect_refused<IoError>(with("/model/merges/0", json::array({"a"})), "merge 0");
  expect_refused<IoError>(with("/model/merges/0", "a x"), "no token \"x\"");
  expect_refused<IoError>(with("/model/merges/0", "a c"), "no token \"ac\"");
  expect_refused<IoError>(with("/model/vocab/a", 2147483647), "expected 0 to");
  expect_refused<IoError>(with("/model/vocab/a", 2000000000), "expected 0 to");
  expect_refused<IoError>(with("/model/vocab/a", -1), "expected 0 to");
  expect_refused<IoError>(with("/model/vocab/a", uint64_t{1} << 63), "expected 0 to");
  expect_refused<IoError>(with("/model/vocab/a", 1.5), "integer");
  expect_refused<IoError>(with("/model/vocab/a", 1), "twice");
  expect_refused<IoError>(with("/model/ignore_merges", "yes"), "ignore_merges");
  expect_refused<IoError>(with("/added_tokens", json::object()), "added_tokens");
  expect_refused<IoError>(with("/added_tokens/0", "x"), "added token");
  expect_refused<IoError>(with("/added_tokens/0/content", ""), "content");
  expect_refused<IoError>(with("/added_tokens/0/id", 3), "\"ab\"");
  expect_refused<IoError>(with("/added_tokens/0/id", 2000000000), "expected 0 to");
  expect_refused<IoError>(with("/normalizer", "NFC"), "normalizer");
  expect_refused<IoError>(with("/post_processor", json::parse(R"({"type": "RobertaProcessing",
    "cls": ["x", 70], "sep": ["y", 71]})")),
                          "not a token");
}

TEST(HostileTokenizerJson, AnAddedTokenHasTheIdOfTheVocabulary) {
  json document = small();
  document["added_tokens"].push_back({{"id", 3}, {"content", "ab"}});
  EXPECT_EQ(parse(document).find("ab"), 3);
  document["added_tokens"].back()["id"] = 9;
  expect_refused<IoError>(document,
                          "added token \"ab\" has id 9, and the vocabulary has it with id 3");
}

TEST(HostileTokenizerJson, WhatIsNotSupportedIsNamed) {
  const auto with = [](const char* pointer, const json& value) {
    json document = small();
    document[json::json_pointer(pointer)] = value;
    return document;
  };
  expect_refused<ConfigError>(with("/model/type", "WordPiece"), "WordPiece");
  expect_refused<ConfigError>(with("/model/type", "WordLevel"), "WordLevel");
  expect_refused<ConfigError>(with("/model/dropout", 0.1), "dropout");
  expect_refused<ConfigError>(with("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix");
  expect_refused<ConfigError>(with("/normalizer", {{"type", "BertNormalizer"}}), "BertNormalizer");
  expect_refused<ConfigError>(with("/post_processor", {{"type", "Odd"}}), "Odd");
  expect_refused<ConfigError>(with("/normalizer", {{"type", "Prepend"}, {"prepend", ""}}),
                              "Prepend of nothing");
  for (const char* empty : {"\\b", "x*", "a|", "(?=a)"}) {
    expect_refused<ConfigError>(
        with("/normalizer",
             {{"type", "Replace"}, {"pattern", {{"Regex", empty}}}, {"content", " "}}),
        "matches the empty text");
  }
  const json border = {{"type", "RobertaProcessing"}, {"cls", {"<e>", 8}}, {"sep", {"<e>", 8}}};
  expect_refused<ConfigError>(
      with("/post_processor", {{"type", "Sequence"}, {"processors", {border, border}}}),
      "after another template");
  expect_refused<ConfigError>(with("/model/vocab", {{std::string(70000, 'a'), 0}}),
                              "has 70000 bytes");
  json spaces =
      with("/normalizer", {{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  spaces["added_tokens"][0] = {{"id", 8}, {"content", " "}, {"normalized", true}};
  expect_refused<ConfigError>(spaces, "leaves nothing of added token");
  json steps = json::array({{{"type", "ByteLevel"}}, {{"type", "Whitespace"}}});
  expect_refused<ConfigError>(
      with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}), "Whitespace");
  steps[1] = {{"type", "ByteLevel"}};
  steps[0] = {{"type", "Split"},
              {"pattern", {{"Regex", "("}}},
              {"behavior", "Isolated"},
              {"invert", false}};
  expect_refused<ConfigError>(
      with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}), "(");
  expect_refused<ConfigError>(with("/added_tokens/0/content", std::string(5000, 'x')), "5000");
}

TEST(HostileTokenizerJson, TruncatedAndNestedTextIsAnIoError) {
  const std::string text = test::whole_tokenizer(small()).dump();
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_tokenizer(text.substr(0, length)), IoError) << length;
  }
  EXPECT_THROW(parse_tokenizer(std::string(1 << 20, '[')), IoError);
  std::string nested = R"({"model":)";
  for (int i = 0; i < 100000; ++i) nested += R"({"a":)";
  EXPECT_THROW(parse_tokenizer(nested), IoError);
}

TEST(HostileTokenizerJson, RandomChangesNeverCrash) {
  const std::string text = test::whole_tokenizer(small()).dump();
  std::mt19937 random(7);
  int loaded = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string changed = text;
    for (int change = 0; change <= round % 3; ++change)
      changed[random() % changed.size()] = static_cast<char>(random());
    try {
      const Tokenizer tokenizer = parse_tokenizer(changed);
      ++loaded;
      tokenizer.decode(tokenizer.encode("abc a <e> cab"));
    } catch (const Error&) {
    }
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace viaduct
