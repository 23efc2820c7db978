// Spaces before punctuation in decoded text.

#include "data/tokenizer/space_cleanup.h"

#include <gtest/gtest.h>

#include <random>

#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;

TEST(SpaceCleanup, LeavesOutTheSpacesThatTransformersDoes) {
  // What transformers 5.24 makes of each.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a , b . c ! d ?", "a, b. c! d?"},
      {"do n't I 'm he 's we 've they 're", "don't I'm he's we've they're"},
      {"rock ' n ' roll", "rock'n'roll"},
      {" ' .", " '."},
      {" ' .", " '."},
      {"a  .  ", "a .  "},
      {" 'm ' s", "'m's"},
      {" n 't", " n 't"}};
  std::mt19937 random(3);
  for (const auto& [text, clean] : cases) {
    for (int round = 0; round < 20; ++round) {
      SpaceCleanup cleanup;
      std::string out;
      for (size_t at = 0; at < text.size();) {
        const size_t bytes = round == 0 ? text.size() : 1 + random() % 3;
        out += cleanup.push(text.substr(at, bytes));
        at += bytes;
      }
      EXPECT_EQ(out + cleanup.finish(), clean) << text;
    }
  }
}

TEST(SpaceCleanup, IsAskedForByTheConfiguration) {
  const test::TemporaryFolder folder;
  const json file =
      json::parse(read_file(test::test_data("tokenizer/pipelines/unigram.json")))["tokenizer"];
  json bpe = file;
  bpe["model"] = {
      {"type", "BPE"}, {"merges", json::array()}, {"vocab", {{"a", 0}, {"\u2581", 1}, {".", 2}}}};
  bpe["added_tokens"] = json::array();
  json unigram = file;
  unigram["model"]["vocab"].push_back({"\u2581.", -3.0});
  unigram["added_tokens"] = json::array();
  const auto text_of = [&](const json& document, const json& configuration,
                           const std::vector<int32_t>& ids) {
    write_file_atomically(folder / "tokenizer.json", document.dump());
    write_file_atomically(folder / "tokenizer_config.json", configuration.dump());
    return load_tokenizer(folder.path()).decode_text(ids);
  };
  const json clean = {{"clean_up_tokenization_spaces", true}};
  EXPECT_EQ(text_of(unigram, json::object(), {9, 16}), "a .");
  EXPECT_EQ(text_of(unigram, clean, {9, 16}), "a.");
  EXPECT_EQ(text_of(bpe, clean, {0, 1, 2}), "a .");
  json insists = clean;
  insists["clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"] = true;
  EXPECT_EQ(text_of(bpe, insists, {0, 1, 2}), "a.");
}

}  // namespace
}  // namespace viaduct
