// Bytes that are no UTF-8, encoded as they are and decoded to what they were.

#include <gtest/gtest.h>

#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;

constexpr const char* kMark = "\u2581";

/// What puts a space before words, and takes the first one away again.
struct Spacing {
  const char* name;
  json parts;
};

json metaspace(const char* scheme) {
  const json step = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", scheme}, {"split", false}};
  return {{"pre_tokenizer", step},
          {"decoder", json::parse(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": false}
            ]})")}};
}

const Spacing kSpacings[] = {{"llama2", json::parse(R"({
       "normalizer": {"type": "Sequence", "normalizers": [
         {"type": "Prepend", "prepend": "\u2581"},
         {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
       "decoder": {"type": "Sequence", "decoders": [
         {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
         {"type": "ByteFallback"}, {"type": "Fuse"},
         {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})")},
                             {"always", metaspace("always")},
                             {"first", metaspace("first")}};

class ExactBytes : public testing::TestWithParam<bool> {};

// What follows such a byte is the middle of a text.
TEST_P(ExactBytes, AreRestoredWithTheTextAroundThem) {
  json words = json::array({"<unk>", kMark, "a", "b"});
  for (int byte = 0; byte < 256; ++byte) {
    char spelling[8];
    std::snprintf(spelling, sizeof spelling, "<0x%02X>", byte);
    words.push_back(spelling);
  }
  json model = {{"type", "BPE"},
                {"unk_token", "<unk>"},
                {"byte_fallback", true},
                {"fuse_unk", true},
                {"merges", json::array()}};
  if (GetParam()) model = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}};
  for (size_t id = 0; id < words.size(); ++id) {
    if (GetParam()) {
      model["vocab"].push_back(json::array({words[id], -1.0}));
    } else {
      model["vocab"][words[id].get<std::string>()] = id;
    }
  }
  for (const Spacing& spacing : kSpacings) {
    json whole = spacing.parts;
    whole["model"] = model;
    const test::TemporaryFolder folder;
    write_file_atomically(folder / "tokenizer.json", test::whole_tokenizer(whole).dump());
    const Tokenizer tokenizer = load_tokenizer(folder.path());
    for (const std::string text : {"a\xff"
                                   "b",
                                   "\xff"
                                   "b a",
                                   "a\xff b",
                                   "a b\xff\xfe"
                                   "b\xe2\x96"
                                   "ab\xff",
                                   "b"}) {
      const auto ids = tokenizer.encode(text, {.exact_bytes = true});
      EXPECT_EQ(tokenizer.decode(ids), text) << spacing.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfBothKinds, ExactBytes, testing::Bool());

}  // namespace
}  // namespace viaduct
