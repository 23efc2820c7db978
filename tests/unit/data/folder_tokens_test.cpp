// Added tokens that only the files beside a tokenizer.json name. The ids are those of Hugging
// Face's transformers 5.24.

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using Ids = std::vector<int32_t>;

class FolderTokens : public testing::Test {
 protected:
  // Tokens a 0, b 1, c 2, ab 3; <e> 4 is added.
  FolderTokens() {
    write("tokenizer.json", json::parse(R"({
      "added_tokens": [{"id": 4, "content": "<e>", "special": true}],
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})"));
  }
  void write(const char* name, const json& content) {
    write_file_atomically(folder_ / name, test::whole_tokenizer(content).dump());
  }
  Ids encode(std::string_view text) const { return load_tokenizer(folder_.path()).encode(text); }

  test::TemporaryFolder folder_;
};

TEST_F(FolderTokens, OfTheConfiguration) {
  write("tokenizer_config.json",
        {{"eos_token", "<end>"},
         {"added_tokens_decoder",
          {{"10", {{"content", "<tool>"}, {"special", false}}},
           {"4", {{"content", "<e>"}, {"special", true}, {"rstrip", true}}},
           {"11", {{"content", "ab"}, {"special", true}}}}}});
  // They follow the vocabulary whatever id is given; known ones change how they are recognised.
  EXPECT_THAT(encode("a<tool>ab<e>  b<end>"), ElementsAre(0, 5, 3, 4, 1, 6));
  const Tokenizer tokenizer = load_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer.special_ids().eos, 6);
  EXPECT_EQ(tokenizer.special_ids().eod, 6);
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  // "ab" is special, as the file says.
  EXPECT_THAT(tokenizer.encode("ab<tool>", {.special_as_text = true}), ElementsAre(3, 5));
}

TEST_F(FolderTokens, OfOlderFiles) {
  write("special_tokens_map.json", {{"eos_token", {{"content", "<end>"}, {"lstrip", true}}},
                                    {"additional_special_tokens", {"<x>", {{"content", "<y>"}}}}});
  write("added_tokens.json", {{"<tool>", 5}, {"<x>", 6}});
  EXPECT_THAT(encode("a <end><y><x><tool>"), ElementsAre(0, 7, 8, 6, 5));
  // With a list in the configuration the map is not read.
  write("tokenizer_config.json", {{"added_tokens_decoder", json::object()}});
  EXPECT_THAT(encode("<y>a"), ElementsAre(0));
  // Else it also takes names away.
  write("tokenizer_config.json", {{"pad_token", "<p>"}});
  EXPECT_THAT(encode("<p>a"), ElementsAre(8, 0));
  write("special_tokens_map.json", {{"pad_token", nullptr}});
  EXPECT_THAT(encode("<p>a"), ElementsAre(0));
}

TEST_F(FolderTokens, ExtraOnesAndThoseWithNamesOfTheirOwn) {
  write("tokenizer_config.json", {{"extra_special_tokens", {"<x>", "<y>"}}, {"pad_token", "<p>"}});
  EXPECT_THAT(encode("<x><y><p>"), ElementsAre(6, 7, 5));
  write("tokenizer_config.json", {{"extra_special_tokens", {{"image_token", "<i>"}}}});
  EXPECT_THAT(encode("<i>"), ElementsAre(5));
  write("tokenizer_config.json", {{"extra_special_tokens", 3}});
  EXPECT_THROW(encode("a"), IoError);
}

// Whatever a later file says of it.
TEST_F(FolderTokens, OnceSpecialAlwaysSpecial) {
  write("tokenizer_config.json",
        {{"added_tokens_decoder", {{"4", {{"content", "<e>"}, {"special", false}}}}}});
  const Tokenizer tokenizer = load_tokenizer(folder_.path());
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_FALSE(tokenizer.is_special(0));
}

// Also where tokenizer.json says otherwise, unless the configuration lists all tokens.
TEST_F(FolderTokens, ThoseWithANameAreSpecial) {
  write("tokenizer.json", json::parse(R"({
    "added_tokens": [{"id": 4, "content": "<e>", "special": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})"));
  const auto special = [&](const json& config) {
    write("tokenizer_config.json", config);
    return load_tokenizer(folder_.path()).added_tokens().find("<e>")->special;
  };
  EXPECT_FALSE(special(json::object()));
  EXPECT_TRUE(special({{"eos_token", "<e>"}}));
  EXPECT_TRUE(special({{"image_token", "<e>"}}));
  EXPECT_TRUE(special({{"extra_special_tokens", {{"image_token", "<e>"}}}}));
  EXPECT_TRUE(special({{"model_specific_special_tokens", {{"image_token", "<e>"}}}}));
  EXPECT_FALSE(special({{"extra_special_tokens", {"<e>"}}}));
  EXPECT_FALSE(special({{"eos_token", "<e>"}, {"added_tokens_decoder", json::object()}}));
  EXPECT_TRUE(
      special({{"image_token", "<e>"},
               {"added_tokens_decoder", {{"4", {{"content", "<e>"}, {"special", false}}}}}}));
}

TEST_F(FolderTokens, ThoseOfAListAreWhatTheirFlagsSay) {
  const auto token = [&](const json& one) {
    write("tokenizer_config.json", {{"additional_special_tokens", json::array({one})}});
    return *load_tokenizer(folder_.path()).added_tokens().find("<x>");
  };
  const AddedToken kept = token({{"__type", "AddedToken"}, {"content", "<x>"}});
  EXPECT_FALSE(kept.special);
  EXPECT_TRUE(kept.normalized);
  EXPECT_TRUE(token("<x>").special);
  EXPECT_TRUE(token({{"__type", "AddedToken"}, {"content", "<x>"}, {"special", true}}).special);
  // Those of the older file have no flag.
  write("tokenizer_config.json", json::object());
  write("special_tokens_map.json", {{"eos_token", {{"content", "<x>"}, {"rstrip", true}}}});
  const AddedToken mapped = *load_tokenizer(folder_.path()).added_tokens().find("<x>");
  EXPECT_TRUE(mapped.special && mapped.rstrip);
  EXPECT_FALSE(mapped.normalized);
}

TEST_F(FolderTokens, IdsFollowTheOrderOfTheFile) {
  write_file_atomically(
      folder_ / "tokenizer_config.json",
      R"({"extra_special_tokens": {"image_token": "<i>", "audio_token": "<a>"}, "z_token": "<z>"})");
  EXPECT_THAT(encode("<z><i><a>"), ElementsAre(5, 6, 7));
}

TEST_F(FolderTokens, ExtraOnesReplaceAdditionalOnes) {
  write("tokenizer_config.json", {{"additional_special_tokens", {"<x>", "<y>"}}});
  write("special_tokens_map.json", {{"additional_special_tokens", {"<z>", "<w>"}}});
  EXPECT_THAT(encode("<x><y>a<z>"), ElementsAre(5, 6, 0));
  write("tokenizer_config.json", {{"additional_special_tokens", {"<x>", "<y>"}},
                                  {"extra_special_tokens", {{"image_token", "<i>"}}}});
  write("special_tokens_map.json", json::object());
  EXPECT_THAT(encode("<i><x><y>"), ElementsAre(5, 6, 7));
}

TEST_F(FolderTokens, TheLastSpellingOfANewTokenCounts) {
  write("tokenizer_config.json", {{"unk_token", "<x>"},
                                  {"cls_token", {{"content", "<x>"}, {"single_word", true}}},
                                  {"extra_special_tokens", {"<x>"}}});
  EXPECT_THAT(encode("a<x>"), ElementsAre(0));
}

// A text repeats no object, whatever its flags.
TEST_F(FolderTokens, ATextAfterObjectsOfTheSameTokenCounts) {
  const json plain = {{"__type", "AddedToken"}, {"content", "<x>"}, {"special", true}};
  json other = plain;
  other.update({{"normalized", true}, {"rstrip", true}});
  write("added_tokens.json", {{"<y>", 7}});
  write("tokenizer_config.json", {{"eos_token", plain}, {"unk_token", other}});
  EXPECT_TRUE(load_tokenizer(folder_.path()).added_tokens().find("<x>")->rstrip);
  write("tokenizer_config.json",
        {{"eos_token", plain}, {"unk_token", other}, {"pad_token", "<x>"}});
  EXPECT_FALSE(load_tokenizer(folder_.path()).added_tokens().find("<x>")->rstrip);
}

class FolderTokensInLowerCase : public FolderTokens {
 protected:
  FolderTokensInLowerCase() {
    write("tokenizer.json", json::parse(R"({
      "added_tokens": [], "normalizer": {"type": "Lowercase"},
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
      "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}})"));
  }
  Tokenizer load() const { return load_tokenizer(folder_.path()); }

  const json object_ = {{"__type", "AddedToken"}, {"content", "<NEW>"}, {"special", true}};
};

// transformers reads it before it takes the objects of the configuration for tokens.
TEST_F(FolderTokensInLowerCase, TheOldestFileCountsBeforeObjectsOfTheConfiguration) {
  write("added_tokens.json", {{"<NEW>", 4}});
  write("tokenizer_config.json", {{"unk_token", object_}});
  const Tokenizer named = load();
  EXPECT_TRUE(named.added_tokens().find("<NEW>")->special);
  EXPECT_THAT(named.encode("<new>a"), ElementsAre(4, 0));
  EXPECT_EQ(named.decode_text(Ids{4}), "<new>");
  EXPECT_FALSE(named.is_left_out(4));  // "<new>" is not special
  for (const char* list : {"additional_special_tokens", "extra_special_tokens"}) {
    write("tokenizer_config.json", {{list, json::array({object_})}});
    EXPECT_FALSE(load().added_tokens().find("<NEW>")->special) << list;
    EXPECT_THAT(load().encode("<new>a"), ElementsAre(4, 0)) << list;
  }
  write("tokenizer_config.json", {{"unk_token", "<NEW>"}});
  EXPECT_THAT(load().encode("<new>a"), ElementsAre(0));
  write("tokenizer_config.json", json::object());
  write("special_tokens_map.json", {{"unk_token", object_}});
  EXPECT_THAT(load().encode("<new>a"), ElementsAre(0));
}

TEST_F(FolderTokensInLowerCase, DecodingShowsTheFirstSpelling) {
  json normalized = object_;
  normalized["normalized"] = true;
  write("tokenizer_config.json",
        {{"unk_token", normalized}, {"extra_special_tokens", json::array({"<NEW>"})}});
  const Tokenizer tokenizer = load();
  EXPECT_THAT(tokenizer.encode("<NEW><new>a"), ElementsAre(4, 0));
  EXPECT_EQ(tokenizer.decode_text(Ids{4}), "<new>");
  EXPECT_FALSE(tokenizer.is_left_out(4));
}

TEST_F(FolderTokensInLowerCase, MarkedObjectsOfTheOlderListKeepTheirFlags) {
  json object = object_;
  object["special"] = false;
  write("special_tokens_map.json", {{"additional_special_tokens", json::array({object})}});
  EXPECT_FALSE(load().is_special(4));
  object.erase("__type");
  write("special_tokens_map.json", {{"additional_special_tokens", json::array({object})}});
  EXPECT_TRUE(load().is_special(4));
}

TEST_F(FolderTokens, TheTemplateOfTheJsonDecidesOnBeginAndEnd) {
  write("tokenizer_config.json", {{"eos_token", "<e>"}, {"add_eos_token", true}});
  EXPECT_THAT(load_tokenizer(folder_.path()).encode("a", {.add_special_tokens = true}),
              ElementsAre(0));
}

TEST_F(FolderTokens, SentinelsOfT5GoDown) {
  test::TemporaryFolder t5;
  std::filesystem::copy(test::test_data("tokenizer/spm_unigram/tokenizer.model"),
                        t5 / "spiece.model");
  const int32_t size = load_tokenizer(t5.path()).vocab_size();
  write_file_atomically(t5 / "tokenizer_config.json",
                        R"({"tokenizer_class": "T5Tokenizer", "extra_ids": 2})");
  EXPECT_THAT(load_tokenizer(t5.path()).encode("<extra_id_0><extra_id_1>"),
              ElementsAre(size + 1, size));
}

}  // namespace
}  // namespace viaduct
