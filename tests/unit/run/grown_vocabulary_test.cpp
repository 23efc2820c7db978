// A run with more tokens than the model that it starts from.

#include "run/grown_vocabulary.h"

#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/model_folder.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/whole_tokenizer.h"

namespace viaduct {
namespace {

using nlohmann::json;
using test::bytes_of;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr const char *kTable = "model.embed_tokens.weight", *kHead = "lm_head.weight";

std::filesystem::path golden() {
  return test::test_data("golden/olmo2/model");  // 59 tokens
}

RunSetup setup_of(const std::vector<std::string>& more, const std::filesystem::path& model) {
  std::vector<std::string> overrides{"checkpoint.pretrained_checkpoint=" + model.string(),
                                     "dataset.mock=true", "model.seq_length=16",
                                     "train.micro_batch_size=1", "train.global_batch_size=1"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return prepare_run(load_run_config({}, overrides));
}

/// A tokenizer of single characters from 'A' on, with these added tokens after them.
void write_tokenizer(const std::filesystem::path& folder, int letters,
                     const std::vector<std::string>& added) {
  json vocabulary = json::object(), tokens = json::array();
  for (int i = 0; i < letters; ++i) vocabulary[std::string(1, static_cast<char>('A' + i))] = i;
  for (size_t i = 0; i < added.size(); ++i)
    tokens.push_back({{"id", letters + static_cast<int>(i)}, {"content", added[i]}});
  const json tokenizer{
      {"added_tokens", tokens},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
  write_file_atomically(folder / "tokenizer.json", test::whole_tokenizer(tokenizer).dump());
}

std::vector<float> row_of(const Tensor& table, int64_t row) {
  const float* begin = table.data<float>() + row * table.dim(1);
  return {begin, begin + table.dim(1)};
}

std::vector<float> mean_of(const Tensor& table, const std::vector<int64_t>& rows) {
  std::vector<float> mean;
  for (int64_t i = 0; i < table.dim(1); ++i) {
    double sum = 0;
    for (const int64_t row : rows) sum += table.data<float>()[row * table.dim(1) + i];
    mean.push_back(static_cast<float>(sum / static_cast<double>(rows.size())));
  }
  return mean;
}

TEST(GrownVocabulary, RowsWithoutATokenAreTheMeanOfAll) {
  const RunSetup same = setup_of({}, golden());
  EXPECT_TRUE(same.new_rows.empty());
  const RunSetup setup = setup_of({"model.vocab_size=70"}, golden());
  EXPECT_EQ(setup.model.vocabulary, 70);
  EXPECT_THAT(setup.notes, Contains(AllOf(HasSubstr("model.vocab_size: 70"), HasSubstr("has 59"),
                                          HasSubstr("11 new rows"),
                                          HasSubstr("start as the mean of all rows"))));
  json expected = json::parse(read_file(golden() / "config.json"));
  expected["vocab_size"] = 70;
  EXPECT_EQ(json::parse(setup.hf_config), expected);
  std::vector<int64_t> all;
  for (int64_t row = 0; row < 59; ++row) all.push_back(row);
  const auto before = open_weights(*setup.pretrained), now = open_pretrained(setup);
  for (const char* name : {kTable, kHead}) {
    const Tensor table = before->tensor(name), grown = now->tensor(name);
    ASSERT_EQ(grown.dim(0), 70) << name;
    EXPECT_EQ(row_of(grown, 58), row_of(table, 58));
    EXPECT_EQ(row_of(grown, 59), mean_of(table, all));
    EXPECT_EQ(row_of(grown, 69), row_of(grown, 59));
  }
}

TEST(GrownVocabulary, TensorsThatDoNotGrowKeepTheirBlocks) {
  const test::TemporaryFolder folder;
  const ModelFolder from = resolve_model_folder(test::test_data("golden/llama/model"));
  write_gguf(folder / "m.gguf", "name", read_model_config(from), *open_weights(from), {},
             ExportFormat::q8_0);
  const RunSetup setup = setup_of({"model.vocab_size=530"}, folder / "m.gguf");
  const auto before = open_weights(*setup.pretrained), now = open_pretrained(setup);
  const char* layer = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_EQ(now->block_type(layer), GgufTensorType::q8_0);
  std::byte expected[34] = {}, block[34] = {};
  before->read_blocks(layer, 3, 32, 32, expected);
  now->read_blocks(layer, 3, 32, 32, block);
  EXPECT_EQ(std::memcmp(block, expected, sizeof block), 0);
  EXPECT_TRUE(before->block_type(kTable));
  EXPECT_FALSE(now->block_type(kTable));
  EXPECT_THROW(now->read_blocks(kTable, 0, 0, 32, block), ShapeError);
}

TEST(GrownVocabulary, TokensOfTheRunsTokenizerAreCutByTheModels) {
  test::TemporaryFolder model, more;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(golden() / name, model / name);
  write_tokenizer(model.path(), 58, {"<e>"});
  write_tokenizer(more.path(), 58, {"<e>", "ABC"});
  const std::string tokenizer = "tokenizer.tokenizer_model=" + more.path().string();
  const RunSetup setup = setup_of({tokenizer, "model.vocab_size=61"}, model.path());
  EXPECT_THAT(setup.notes, Contains(AllOf(HasSubstr("cuts the text of their token"),
                                          HasSubstr("and 1 row without a token as the mean"))));
  const Tensor table = open_weights(*setup.pretrained)->tensor(kTable);
  const Tensor grown = open_pretrained(setup)->tensor(kTable);
  EXPECT_EQ(row_of(grown, 59), mean_of(table, {0, 1, 2}));
  // Without more rows the tokenizer does not fit, and the setting that would help is named.
  EXPECT_THAT([&] { setup_of({tokenizer}, model.path()); },
              ThrowsMessage<ConfigError>(HasSubstr("model.vocab_size=60 gives the model rows")));
}

TEST(GrownVocabulary, TokensInRowsThatTheModelHasAreNamed) {
  test::TemporaryFolder model, more;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(golden() / name, model / name);
  write_tokenizer(model.path(), 56, {"<e>"});  // 57 tokens for 59 rows
  write_tokenizer(more.path(), 56, {"<e>", "ABC"});
  const std::string tokenizer = "tokenizer.tokenizer_model=" + more.path().string();
  EXPECT_THAT(setup_of({tokenizer}, model.path()).notes,
              Contains(AllOf(HasSubstr("1 token that the tokenizer of"), HasSubstr("\"ABC\""),
                             HasSubstr("likely untrained"))));
  write_tokenizer(more.path(), 56, {"<e>"});
  EXPECT_THAT(setup_of({tokenizer}, model.path()).notes,
              Not(Contains(HasSubstr("likely untrained"))));
}

TEST(GrownVocabulary, FewerTokensAreRefused) {
  EXPECT_THAT([] { setup_of({"model.vocab_size=58"}, golden()); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("model.vocab_size: 58"), HasSubstr("expected 59 or more"))));
}

TEST(GrownVocabulary, FrozenRowsAreSaid) {
  const RunSetup frozen =
      setup_of({"model.vocab_size=60", "peft.scheme=lora", "peft.dim=4"}, golden());
  EXPECT_THAT(frozen.notes, Contains(HasSubstr("; they do not train: peft.train")));
  const RunSetup half = setup_of(
      {"model.vocab_size=60", "peft.scheme=lora", "peft.dim=4", "peft.train=[embed_tokens]"},
      golden());
  EXPECT_THAT(half.notes, Contains(HasSubstr("; those of the head do not train: peft.train")));
}

}  // namespace
}  // namespace viaduct
