// The setup of a run, resolved from its configuration and the files that it names.

#include "run/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/model_from_fields.h"
#include "run/adapter_setup.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using Words = std::vector<std::string>;

const Words kTinyModel{"model.num_layers=2", "model.hidden_size=64", "model.num_attention_heads=4",
                       "model.seq_length=32", "dataset.mock=true"};

RunSetup prepared(const Words& overrides, Words base = kTinyModel) {
  base.insert(base.end(), overrides.begin(), overrides.end());
  return prepare_run(load_run_config({}, base));
}

const std::string kGpt2 = "tokenizer.tokenizer_model=" + test::test_data("tokenizer/gpt2").string();

TEST(Setup, ATokenizerWithoutFilesGivesVocabularyAndEndOfDocuments) {
  const RunSetup setup = prepared({"tokenizer.vocab_size=100"});
  EXPECT_EQ(setup.model.vocabulary, 101);
  EXPECT_EQ(setup.config.dataset.eod_id, 100);
  const RunSetup more = prepared({"tokenizer.vocab_size=100", "tokenizer.vocab_extra_ids=7"});
  EXPECT_EQ(more.model.vocabulary, 108);
  EXPECT_EQ(more.config.dataset.eod_id, 100);
  // Given settings of the model and the data are kept.
  const RunSetup said =
      prepared({"tokenizer.vocab_size=100", "model.vocab_size=128", "dataset.eod_id=3"});
  EXPECT_EQ(said.model.vocabulary, 128);
  EXPECT_EQ(said.config.dataset.eod_id, 3);
}

TEST(Setup, SizesOfQuantizedProductsAreCheckedWhenTheyAreKnown) {
  const Words fp4{"mixed_precision=bf16_with_nvfp4_mixed", "model.ffn_hidden_size=128",
                  "train.micro_batch_size=1", "train.global_batch_size=4", "model.vocab_size=64"};
  EXPECT_NO_THROW(prepared(fp4));
  // The head size follows from other sizes.
  EXPECT_THAT(
      [&] {
        prepared({"mixed_precision=bf16_with_fp8_subchannel_scaling_mixed", "model.hidden_size=80",
                  "model.num_attention_heads=2", "model.tensor_model_parallel_size=2",
                  "dist.ranks=2", "model.ffn_hidden_size=128", "model.vocab_size=64"});
      },
      ThrowsMessage<ConfigError>(HasSubstr(
          "num_attention_heads * kv_channels / tensor_model_parallel_size on a rank = 40")));
  // The sizes are in a folder that the configuration names.
  const RunSetup wide = prepared({"model.hidden_size=80", "model.num_attention_heads=2",
                                  "model.ffn_hidden_size=128", "model.vocab_size=64"});
  test::TemporaryFolder folder;
  write_file_atomically(folder / "config.json", wide.hf_config);
  EXPECT_THAT(
      [&] {
        prepared({"model.hf_config=" + folder.path().string(), "model.seq_length=32",
                  "mixed_precision=bf16_with_fp8_subchannel_scaling_mixed", "dataset.mock=true",
                  "model.tensor_model_parallel_size=2", "dist.ranks=2"},
                 {});
      },
      ThrowsMessage<ConfigError>(HasSubstr("on a rank = 40")));
  // Rows are cut over tensor ranks unless the configuration says no.
  Words cut = fp4;
  cut.insert(cut.end(),
             {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.seq_length=48"});
  EXPECT_THAT([&] { prepared(cut); },
              ThrowsMessage<ConfigError>(HasSubstr(
                  "tokens of a micro-batch / tensor_model_parallel_size on a rank = 24")));
  cut.push_back("model.sequence_parallel=false");
  EXPECT_NO_THROW(prepared(cut));
}

TEST(Setup, AVocabularyIsTheTokenizersOrLargerAndHasTheAdditionalIds) {
  EXPECT_EQ(prepared({kGpt2}).model.vocabulary, 50257);
  EXPECT_EQ(prepared({kGpt2, "tokenizer.vocab_extra_ids=3"}).model.vocabulary, 50260);
  const RunSetup larger = prepared({kGpt2, "tokenizer.vocab_size=50304"});
  EXPECT_EQ(larger.model.vocabulary, 50304);
  EXPECT_EQ(larger.config.dataset.eod_id, 50256);
  EXPECT_THAT(
      [] {
        prepared({kGpt2, "tokenizer.vocab_size=50000"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("tokenizer.vocab_size: 50000, but the tokenizer")));
  EXPECT_THAT(
      [] {
        prepared({kGpt2, "tokenizer.vocab_extra_ids=3", "model.vocab_size=50259"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("its vocabulary of 50260 is larger")));
  EXPECT_THAT(
      [] {
        prepared({"tokenizer.vocab_extra_ids=3", "model.vocab_size=100"});
      },
      ThrowsMessage<ConfigError>(HasSubstr("tokenizer.vocab_extra_ids: 3 without a vocabulary")));
  for (const char* wrong : {"tokenizer.vocab_size=0", "tokenizer.vocab_extra_ids=-1"})
    EXPECT_THROW(prepared({wrong, "model.vocab_size=100"}), ConfigError) << wrong;
}

TEST(Setup, RotaryPairsAreAMatterOfTheModel) {
  const Words model{"model.vocab_size=100", "model.rotary_interleaved=true"};
  const RunSetup setup = prepared(model);
  EXPECT_TRUE(setup.model.rotary.interleaved);
  EXPECT_FALSE(prepared({"model.vocab_size=100"}).model.rotary.interleaved);
  // Its config.json has Viaduct's field for it and gives the same model.
  EXPECT_TRUE(nlohmann::json::parse(setup.hf_config).at("rotary_interleaved").get<bool>());
  test::TemporaryFolder folder;
  write_file_atomically(folder / "config.json", setup.hf_config);
  const std::string from = "model.hf_config=" + folder.path().string();
  EXPECT_TRUE(
      prepared({from, "model.seq_length=8", "dataset.mock=true"}, {}).model.rotary.interleaved);

  const auto refused = [&](const std::string& word, const char* why) {
    Words words = model;
    words.push_back(word);
    EXPECT_THAT([&] { prepared(words); }, ThrowsMessage<ConfigError>(HasSubstr(why)));
  };
  refused("model.apply_rope_fusion=false", "supports only pairs of halves");
  refused("model.family=gpt2", "learned_absolute, which have no pairs");

  ModelConfig halves = setup.model;
  halves.rotary.interleaved = false;
  EXPECT_NO_THROW(check_rotary_order(setup.model, setup.model));
  EXPECT_THAT([&] { check_rotary_order(halves, setup.model); },
              ThrowsMessage<ConfigError>(HasSubstr("trained with pairs of halves")));
}

TEST(Setup, AHeadIsNotDropped) {
  const std::string tied = "model.share_embeddings_and_output_weights=true";
  const auto weights = [](const char* model) {
    return "checkpoint.pretrained_checkpoint=" +
           test::test_data("golden/" + std::string(model) + "/model").string();
  };
  EXPECT_TRUE(
      prepared({weights("llama_tied"), tied, "dataset.mock=true"}, {}).model.tied_embeddings);
  EXPECT_THAT(
      [&] {
        prepared({weights("llama"), tied, "dataset.mock=true"}, {});
      },
      ThrowsMessage<ConfigError>(
          HasSubstr("model.share_embeddings_and_output_weights: true, but the weights")));
}

// What the weights cannot be is known before the ranks start, by the names of the settings.
TEST(Setup, SettingsThatDoNotFitTheWeightsAreNamed) {
  const std::string from =
      "checkpoint.pretrained_checkpoint=" + test::test_data("golden/llama/model").string();
  EXPECT_NO_THROW(prepared({from, "dataset.mock=true", "model.attention_dropout=0.1"}, {}));
  for (const char* change :
       {"model.num_layers=1", "model.add_qkv_bias=true", "model.family=phi3"}) {
    const std::string name(change, std::string_view(change).find('='));
    EXPECT_THAT(
        [&] {
          // Settings that the weights have, and those of adapters, are not why.
          prepared({from, "dataset.mock=true", "model.seq_length=32", "model.hidden_size=64",
                    "peft.scheme=lora", "peft.dim=4", change},
                   {});
        },
        ThrowsMessage<ConfigError>(testing::AllOf(
            HasSubstr("checkpoint.pretrained_checkpoint: with " + name + " the model"),
            HasSubstr("not fit the configuration"))))
        << change;
  }
}

TEST(Setup, TheModelUnderAdaptersIsNamedByAnAbsolutePath) {
  const std::filesystem::path model = test::test_data("golden/llama/model");
  const RunSetup setup = prepared(
      {"checkpoint.pretrained_checkpoint=./" + std::filesystem::relative(model).string() + "/",
       "dataset.mock=true", "model.seq_length=32", "peft.scheme=lora"},
      {});
  const auto config = nlohmann::json::parse(adapter_config_of(setup));
  const std::filesystem::path base = config.at("base_model_name_or_path").get<std::string>();
  EXPECT_TRUE(base.is_absolute()) << base;
  EXPECT_TRUE(std::filesystem::equivalent(base, model)) << base;
}

TEST(Setup, PositionsAreCounted) {
  EXPECT_THAT(
      [&] {
        prepared({"model.vocab_size=100", "model.max_position_embeddings=1"});
      },
      ThrowsMessage<ConfigError>(
          HasSubstr("model.seq_length: 32 is longer than the 1 position that the model allows")));
}

TEST(Setup, WeightsKeepTheOrderOfTheirPairs) {
  const std::string from =
      "checkpoint.pretrained_checkpoint=" + test::test_data("golden/llama/model").string();
  const Words words{from, "dataset.mock=true", "model.seq_length=8"};
  EXPECT_FALSE(prepared(words, {}).model.rotary.interleaved);
  Words other = words;
  other.push_back("model.rotary_interleaved=true");
  EXPECT_THAT([&] { prepared(other, {}); },
              ThrowsMessage<ConfigError>(HasSubstr("weights that are read were trained with pairs "
                                                   "of halves (expected false)")));
}

TEST(Setup, DataAreThoseOfTheWholeRun) {
  const auto data_of = [](const Words& overrides) {
    return prepare_data(load_run_config({}, overrides).config);
  };
  const std::string from =
      "checkpoint.pretrained_checkpoint=" + test::test_data("golden/llama/model").string();
  for (const Words& words :
       {Words{from, "dataset.mock=true", kGpt2, "dataset.eod_mask_loss=true",
              "model.vocab_size=50257"},
        Words{from, "dataset.mock=true", "dataset.sequence_length=8"},
        Words{from, "dataset.mock=true", "model.seq_length=9", "dataset.eod_id=1"}}) {
    const DataSetup data = data_of(words);
    const RunSetup run = prepared(words, {});
    EXPECT_EQ(data.dataset.sequence_length.value(), run.config.dataset.sequence_length.value());
    EXPECT_EQ(data.dataset.eod_id, run.config.dataset.eod_id);
    EXPECT_EQ(data.vocabulary_size, run.model.vocabulary);
  }
}

}  // namespace
}  // namespace viaduct
