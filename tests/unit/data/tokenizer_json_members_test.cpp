// Files that Hugging Face's tokenizers refuses for a member that is missing or of another type, and
// the few odd ones that it reads (0.23.3; `./viaduct.sh oracle tokenizers --files N` compares).

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_json.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::ThrowsMessage;

json whole() {
  return json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<e>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

json with(const char* pointer, const char* value) {
  json document = whole();
  document[json::json_pointer(pointer)] = json::parse(value);
  return document;
}

void expect_read(const json& document) {
  EXPECT_NO_THROW(parse_tokenizer(document.dump())) << document.dump();
}

void expect_refused(const json& document, const char* message) {
  EXPECT_THAT([&] { parse_tokenizer(document.dump()); }, ThrowsMessage<IoError>(HasSubstr(message)))
      << document.dump();
}

/// A step with all its members, which must all be there.
struct Step {
  const char *part, *value;
};

// The name of the test's parameter is that of the step.
class StepMembers : public testing::TestWithParam<Step> {};

TEST_P(StepMembers, MustBeThereAndOfTheirType) {
  const auto [part, text] = GetParam();
  const std::string pointer = std::string("/") + part;
  expect_read(with(pointer.c_str(), text));
  const json step = json::parse(text);
  const std::string type = step["type"].get<std::string>() + " of the " + part;
  for (const auto& [name, value] : step.items()) {
    if (name == "type") continue;
    json document = with(pointer.c_str(), text);
    document[part].erase(name);
    expect_refused(document, (type + ": \"" + name + "\" is missing").c_str());
    for (const char* other : {"null", "3.5", "-1"}) {
      document[part][name] = json::parse(other);
      expect_refused(document, (type + ": \"" + name + "\" must be").c_str());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, StepMembers,
    testing::Values(
        Step{"normalizer", R"({"type": "Strip", "strip_left": true, "strip_right": false})"},
        Step{"normalizer", R"({"type": "Prepend", "prepend": "x"})"},
        Step{"normalizer", R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})"},
        Step{"pre_tokenizer",
             R"({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated",
                                  "invert": false})"},
        Step{"pre_tokenizer", R"({"type": "Digits", "individual_digits": true})"},
        Step{"pre_tokenizer", R"({"type": "CharDelimiterSplit", "delimiter": "a"})"},
        Step{"pre_tokenizer", R"({"type": "Metaspace", "replacement": "_"})"},
        Step{"pre_tokenizer", R"({"type": "ByteLevel", "add_prefix_space": false,
                                  "trim_offsets": true})"},
        Step{"post_processor", R"({"type": "ByteLevel", "add_prefix_space": false,
                                   "trim_offsets": true})"},
        Step{"post_processor", R"({"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]})"},
        Step{"post_processor", R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                                   "single": [{"Sequence": {"id": "A", "type_id": 0}}]})"},
        Step{"decoder", R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})"},
        Step{"decoder", R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})"},
        Step{"decoder", R"({"type": "Replace", "pattern": {"String": "a"}, "content": ""})"},
        Step{"decoder", R"({"type": "Metaspace", "replacement": "_"})"}),
    [](const auto& info) {
      return json::parse(info.param.value)["type"].template get<std::string>() + "_" +
             info.param.part;
    });

TEST(TokenizerJsonMembers, OfTheFile) {
  json document = whole();
  for (const char* name : {"version", "truncation", "padding", "added_tokens", "normalizer"})
    document.erase(name);
  expect_read(document);
  expect_refused(with("/version", "\"2.0\""), "\"version\" must be \"1.0\"");
  expect_refused(with("/more", "1"), "a member \"more\"");
  expect_refused(with("/added_tokens", "null"), "\"added_tokens\" must be a list");
  document.erase("model");
  expect_refused(document, "\"model\" is missing");
}

// They have no effect, but a file in which they are broken is none.
TEST(TokenizerJsonMembers, OfTruncationAndPadding) {
  const char* truncation = R"({"max_length": 4, "strategy": "OnlyFirst", "stride": 1})";
  const char* padding = R"({"strategy": {"Fixed": 8}, "direction": "Left", "pad_id": 0,
    "pad_type_id": 0, "pad_token": "a", "pad_to_multiple_of": null})";
  expect_read(with("/truncation", truncation));
  expect_read(with("/padding", padding));
  const auto changed = [](const char* part, const char* text, const char* name, const char* value) {
    json document = with((std::string("/") + part).c_str(), text);
    document[part][name] = json::parse(value);
    return document;
  };
  expect_refused(changed("truncation", truncation, "strategy", "\"Odd\""), "truncation: \"strat");
  expect_refused(changed("truncation", truncation, "max_length", "-1"), "truncation: \"max_length");
  expect_refused(changed("truncation", truncation, "direction", "null"), "truncation: \"direction");
  expect_refused(changed("padding", padding, "direction", "\"Up\""), "padding: \"direction\"");
  expect_refused(changed("padding", padding, "strategy", R"({"Fixed": "8"})"), "padding");
  expect_refused(changed("padding", padding, "strategy", "\"Fixed\""), "padding: \"strategy\"");
  expect_refused(changed("padding", padding, "pad_id", "4294967296"), "padding: \"pad_id\"");
}

TEST(TokenizerJsonMembers, OfAddedTokens) {
  const json token = whole()["added_tokens"][0];
  for (const auto& [name, value] : token.items()) {
    json document = whole();
    document["added_tokens"][0].erase(name);
    expect_refused(document, ("added token 0: \"" + name + "\" is missing").c_str());
    document["added_tokens"][0][name] = nullptr;
    expect_refused(document, ("added token 0: \"" + name + "\" must be").c_str());
  }
}

TEST(TokenizerJsonMembers, OfModels) {
  expect_read(with("/model/fuse_unk", "null"));
  expect_refused(with("/model/fuse_unk", "1"), "the model: \"fuse_unk\"");
  expect_refused(with("/model/unk_token", "0"), "the model: \"unk_token\"");
  expect_refused(with("/model/type", "null"), "the model: \"type\"");
  expect_refused(with("/model/merges", R"([["a", "b"], "a b"])"), "merge 1 is no list");
  expect_refused(with("/model/merges", R"(["a b", ["a", "b"]])"), "merge 1 is no string");
  const auto unigram = [](const char* name, const char* value) {
    json document = with("/model", R"({"type": "Unigram", "unk_id": 0, "vocab": [["a", -1]]})");
    document["added_tokens"] = json::array();
    document["model"][name] = json::parse(value);
    return document;
  };
  expect_read(unigram("byte_fallback", "true"));
  expect_refused(unigram("byte_fallback", "null"), "the model: \"byte_fallback\"");
  expect_refused(unigram("unk_id", "-1"), "the model: \"unk_id\"");
}

TEST(TokenizerJsonMembers, OfTemplates) {
  const json good = json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"x": {"id": "x", "ids": [1], "tokens": ["x"]}}})");
  const auto changed = [&](const char* pointer, const char* value) {
    json document = whole();
    document["post_processor"] = good;
    document["post_processor"][json::json_pointer(pointer)] = json::parse(value);
    return document;
  };
  expect_read(changed("/pair", R"([{"Sequence": {"id": "B", "type_id": 1}}])"));
  expect_refused(changed("/single/0", R"({"SpecialToken": {"id": "x"}})"),
                 "\"type_id\" is missing");
  expect_refused(changed("/single/1", R"({"Sequence": {"id": "C", "type_id": 0}})"), "A or B");
  expect_refused(changed("/single/1", R"("$A")"), "a piece of the template");
  expect_refused(changed("/pair", R"([{"Other": {}}])"), "a piece of the template");
  expect_refused(changed("/special_tokens/x/tokens", "[1]"), "special token \"x\"");
  expect_refused(changed("/special_tokens/x/ids", "1"), "\"ids\" must be a list");
}

TEST(TokenizerJsonMembers, PrefixesOfMetaspaceAgree) {
  for (const char* part : {"/pre_tokenizer", "/decoder"}) {
    const auto metaspace = [&](const char* more) {
      return with(
          part, (R"({"type": "Metaspace", "replacement": "_")" + std::string(more) + "}").c_str());
    };
    expect_read(metaspace(R"(, "add_prefix_space": false, "prepend_scheme": "never")"));
    expect_read(metaspace(R"(, "add_prefix_space": true, "prepend_scheme": "first")"));
    expect_refused(metaspace(R"(, "add_prefix_space": false)"), "prepend_scheme \"always\"");
    expect_refused(metaspace(R"(, "prepend_scheme": null)"), "\"prepend_scheme\" must be a string");
  }
}

// The library tries RobertaProcessing, then BertProcessing, whatever the type says.
TEST(TokenizerJsonMembers, BordersTrimByTheirMembers) {
  const auto trims = [](const char* value) {
    return parse_post_processor(json::parse(value), "F").trims.size();
  };
  EXPECT_EQ(trims(R"({"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]})"), 0u);
  EXPECT_EQ(trims(R"({"type": "RobertaProcessing", "sep": ["a", 0], "cls": ["b", 1]})"), 0u);
  EXPECT_EQ(trims(R"({"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1],
                      "trim_offsets": true, "add_prefix_space": false})"),
            1u);
}

}  // namespace
}  // namespace viaduct
