// Fields of packed rows, and Megatron-Bridge's names of them.

#include "run/packing_settings.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/output_file.h"
#include "data/indexed_dataset_writer.h"
#include "support/conversations.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PackingSettingsTest : public testing::Test {
 protected:
  PackingSettingsTest() {
    chat = write_conversations(folder / "chat", conversations_of(random_lengths(40, 5, 30)));
    IndexedDatasetWriter writer(folder / "plain", TokenType::uint16);
    for (int i = 0; i < 20; ++i) writer.add_document(std::vector<int32_t>(100, 9));
    writer.finish();
    plain = (folder / "plain").string();
  }
  RunSetup setup(const Overrides& more, const std::string& blend = "") const {
    return setup_of(tiny_run() +
                    Overrides{"dataset.mock=false", "dataset.split=80,20,0",
                              "dataset.blend=[" + (blend.empty() ? chat : blend) + "]"} +
                    more);
  }
  std::string notes(const Overrides& more, const std::string& blend = "") const {
    return fmt::format("{}", fmt::join(setup(more, blend).notes, "\n"));
  }
  std::string error(const Overrides& more) const {
    try {
      setup(more);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  TemporaryFolder folder;
  std::string chat, plain;
};

TEST_F(PackingSettingsTest, LengthsThatWereGivenAreNamedInAdvice) {
  const auto limits = [&](const Overrides& more) {
    return setup(more).config.dataset.packing.limits;
  };
  const ConversationLimits of_model = limits({"model.seq_length=32"});
  EXPECT_EQ(of_model.length_given_by, "model.seq_length=");
  EXPECT_EQ(of_model.also_given.size(), 1u);
  const ConversationLimits both = limits({"model.seq_length=32", "dataset.sequence_length=32"});
  EXPECT_EQ(both.length_given_by, "dataset.sequence_length=");
  EXPECT_EQ(both.also_given.size(), 2u);
  EXPECT_EQ(limits({"dataset.packed_sequence_size=64"}).length_given_by, "");
  EXPECT_EQ(limits({"dataset.offline_packing_specs={packed_sequence_size: 64}"}).length_given_by,
            "dataset.offline_packing_specs.packed_sequence_size=");
}

TEST_F(PackingSettingsTest, TheSizeIsTheLengthOfRows) {
  const RunSetup run = setup({"dataset.packed_sequence_size=64", "model.seq_length=auto"});
  EXPECT_EQ(run.config.model.seq_length.value(), 64);
  EXPECT_EQ(run.config.dataset.sequence_length.value(), 64);
  EXPECT_FALSE(run.config.dataset.packing.limits.longest);
  const RunSetup limited = setup({"dataset.packed_sequence_size=64"});
  EXPECT_EQ(limited.config.model.seq_length.value(), 64);
  EXPECT_EQ(limited.config.dataset.packing.limits.longest, 32);
  EXPECT_THAT(notes({"dataset.packed_sequence_size=64"}),
              HasSubstr("rows have that many tokens, and model.seq_length = 32 is the most"));
  EXPECT_EQ(setup({"dataset.packed_sequence_size=31"}).config.model.seq_length.value(), 31);
}

TEST_F(PackingSettingsTest, RowsOfRotaryModelsMayBeLongerThanTheirPositions) {
  const Overrides positions{"dataset.packed_sequence_size=128", "model.seq_length=auto",
                            "model.max_position_embeddings=32"};
  EXPECT_EQ(setup(positions).config.dataset.packing.limits.longest, 32);
  EXPECT_THAT(error(positions + Overrides{"model.family=gpt2"}), HasSubstr("128 is longer than"));
  EXPECT_THAT(error(positions + Overrides{"dataset.packing_split=true"}),
              HasSubstr("128 is longer than"));
}

TEST_F(PackingSettingsTest, MegatronBridgesNamesMeanTheSame) {
  const auto size_of = [&](const Overrides& more) {
    return setup(more + Overrides{"model.seq_length=auto"}).config.dataset.packing;
  };
  const PackingConfig specs =
      size_of({"dataset.enable_offline_packing=true",
               "dataset.offline_packing_specs={packed_sequence_size: 64, packing_algorithm: "
               "first_fit_shuffle, pad_seq_to_mult: 4, pad_cu_seqlens: true}"});
  EXPECT_EQ(specs.packed_sequence_size, 64);
  EXPECT_EQ(specs.packing_algorithm, PackingAlgorithm::first_fit_shuffle);
  EXPECT_EQ(specs.pad_seq_to_mult, 4);
  EXPECT_TRUE(specs.pad_cu_seqlens);
  for (const char* name :
       {"dataset.offline_packing_specs.packed_sequence_size=48",
        "dataset.packed_sequence_specs.packed_sequence_size=48",
        "recipe.data.packed_sequence_specs.packed_sequence_size=48",
        "GPTSFTDatasetConfig.offline_packing_specs={packed_sequence_size: 48}",
        "FinetuningDatasetConfig.packed_sequence_specs={packed_sequence_size: 48}",
        "dataset.packed_sequence_specs={packed_sequence_size: 48}"})
    EXPECT_EQ(size_of({name}).packed_sequence_size, 48) << name;
  EXPECT_FALSE(setup({"dataset.packed_sequence_specs={packed_sequence_size: -1}"})
                   .config.dataset.packing.packed_sequence_size);
}

TEST_F(PackingSettingsTest, WhatCannotBeIsRefusedWithTheReason) {
  for (const char* path :
       {"packed_train_data_path", "packed_val_data_path", "packed_metadata_path"}) {
    EXPECT_THAT(error({std::string("dataset.offline_packing_specs={packed_sequence_size: 64, ") +
                       path + ": /data/x.parquet}"}),
                AllOf(HasSubstr(path), HasSubstr("Parquet"), HasSubstr("pickled"),
                      HasSubstr("viaduct data chat --input FILE --tokenizer FOLDER")));
  }
  EXPECT_THAT(error({"dataset.enable_offline_packing=true"}), HasSubstr("needs the size of rows"));
  EXPECT_THAT(error({"dataset.enable_offline_packing=false", "dataset.packed_sequence_size=64"}),
              HasSubstr("dataset.enable_offline_packing: false, but"));
  EXPECT_THAT(error({"dataset.packed_sequence_size=64",
                     "dataset.offline_packing_specs={packed_sequence_size: 48}"}),
              HasSubstr("give one of them"));
  EXPECT_THAT(error({"dataset.offline_packing_specs={packed_sequence_sise: 48}"}),
              AllOf(HasSubstr("no entry 'packed_sequence_sise'"),
                    HasSubstr("expected packed_sequence_size")));
  EXPECT_THAT(error({"dataset.offline_packing_specs={packed_sequence_size: many}"}),
              HasSubstr("dataset.offline_packing_specs.packed_sequence_size: expected int"));
  EXPECT_THAT(error({"dataset.packing_algorithm=best_fit"}), HasSubstr("first_fit_decreasing"));
  EXPECT_THAT(error({"dataset.fim_rate=0.5"}), HasSubstr("fim_rate"));
}

TEST_F(PackingSettingsTest, PaddingIsWhatTheLayoutCuts) {
  const Overrides cp{"dist.ranks=2", "model.context_parallel_size=2",
                     "dataset.packed_sequence_size=48", "model.seq_length=auto"};
  EXPECT_EQ(error(cp + Overrides{"dataset.pad_seq_to_mult=8"}), "no error");
  EXPECT_THAT(error(cp + Overrides{"dataset.pad_seq_to_mult=6"}),
              HasSubstr("dataset.pad_seq_to_mult: 6 is not a multiple of 4"));
  EXPECT_THAT(error(cp + Overrides{"dataset.pad_seq_to_mult=32"}),
              HasSubstr("32 does not divide the 48 tokens of a row"));
  const Overrides tp{"dist.ranks=4", "model.context_parallel_size=2",
                     "model.tensor_model_parallel_size=2"};
  EXPECT_EQ(layout_multiple(setup(tp).config), 4);
  EXPECT_EQ(layout_multiple(setup({}).config), 1);
  EXPECT_EQ(layout_multiple(setup({"dist.ranks=2", "model.tensor_model_parallel_size=2"}).config),
            2);
  EXPECT_THAT(error({"dist.ranks=2", "model.hybrid_context_parallel=true",
                     "model.max_seqlen_per_dp_cp_rank=32", "dataset.packed_sequence_size=32",
                     "dataset.pad_cu_seqlens=true"}),
              HasSubstr("dataset.pad_cu_seqlens: true"));
}

TEST_F(PackingSettingsTest, WhatHasNoEffectIsSaid) {
  EXPECT_THAT(notes({"dataset.answer_only_loss=true"}, plain),
              HasSubstr("dataset.answer_only_loss = true has no effect on " + plain));
  EXPECT_THAT(notes({"dataset.answer_only_loss=false"}, plain),
              HasSubstr("no data set has a mask"));
  EXPECT_THAT(notes({"dataset.answer_only_loss=false"}), HasSubstr("the mask of " + chat));
  EXPECT_THAT(notes({"dataset.answer_only_loss=true"}), Not(HasSubstr("answer_only_loss")));
  EXPECT_THAT(notes({"dataset.packed_sequence_size=32"}, plain),
              HasSubstr("dataset.packed_sequence_size has no effect here: no data set has a mask"));
  EXPECT_THAT(notes({"dataset.packed_sequence_size=32"}, chat + "," + plain),
              HasSubstr(plain + " has no mask and is not packed"));
  EXPECT_THAT(notes({"dataset.packing_algorithm=sequential"}),
              HasSubstr("dataset.packed_sequence_size is null"));
  // They act on packed rows alone.
  for (const char* field :
       {"dataset.packing_split=true", "dataset.pad_cu_seqlens=true", "dataset.pad_seq_to_mult=8"}) {
    const std::string name(field, std::string_view(field).find('='));
    const std::string reason = name + " has no effect here: ";
    EXPECT_THAT(notes({field}), HasSubstr(reason + "dataset.packed_sequence_size is null"));
    EXPECT_THAT(notes({field, "dataset.packed_sequence_size=32"}, plain), HasSubstr(name));
  }
  EXPECT_THAT(notes({"dataset.pad_seq_to_mult=5"}),  // nor has it to divide a row
              HasSubstr("dataset.pad_seq_to_mult has no effect here"));
  EXPECT_THAT(notes({"dataset.packing_split=true", "dataset.packed_sequence_size=32"}),
              Not(HasSubstr("packing_split")));
  EXPECT_THAT(notes({"dataset.packed_sequence_size=32", "train.micro_batch_size=2"}),
              HasSubstr("Megatron-Bridge demands 1"));
  EXPECT_THAT(notes({"dataset.enable_offline_packing=false",
                     "dataset.offline_packing_specs={packed_sequence_size: 48}"}),
              HasSubstr("offline_packing_specs has no effect here"));
  EXPECT_THAT(notes({"dataset.offline_packing_specs={packed_sequence_size: 32, "
                     "tokenizer_model_name: x}"}),
              AllOf(HasSubstr("tokenizer_model_name has no effect here"),
                    HasSubstr("sets dataset.packed_sequence_size=32")));
}

TEST_F(PackingSettingsTest, WhatARunWritesIsReadBack) {
  for (const Overrides& more :
       {Overrides{}, Overrides{"dataset.packed_sequence_size=48"},
        Overrides{
            "dataset.enable_offline_packing=true",
            "dataset.offline_packing_specs={packed_sequence_size: 48, pad_seq_to_mult: 2}"}}) {
    for (const std::string& blend : {chat, plain}) {
      const RunSetup run = setup(more, blend);
      const auto file = folder / "config.yaml";
      write_file_atomically(file, to_yaml(run.config));
      const LoadedRunConfig again = load_run_config(file, {});
      EXPECT_EQ(again.config.dataset.packing.packed_sequence_size,
                run.config.dataset.packing.packed_sequence_size);
      EXPECT_EQ(again.config.model.seq_length, run.config.model.seq_length);
      for (const std::string& note : again.outcome.notes)
        EXPECT_THAT(note, Not(HasSubstr("answer_only_loss")));
    }
  }
}

TEST_F(PackingSettingsTest, RowsHaveDocumentsInEveryRule) {
  EXPECT_EQ(cause_of_documents(setup({}).config.dataset), "data sets of conversations");
  EXPECT_EQ(cause_of_documents(setup({"dataset.packed_sequence_size=32"}).config.dataset),
            "dataset.packed_sequence_size = 32");
  EXPECT_EQ(cause_of_documents(setup({}, plain).config.dataset), "");
  const RunSetup packed = setup({"dataset.packed_sequence_size=32"});
  ASSERT_TRUE(packed.conversations);
  EXPECT_GT(packed.conversations->row_documents.size(), 1u);
  EXPECT_FALSE(setup({}, plain).conversations);
}

}  // namespace
}  // namespace viaduct
