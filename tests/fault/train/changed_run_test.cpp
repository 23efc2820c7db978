// A run that resumes with other settings or data than it was saved with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/save_folder.h"
#include "data/indexed_dataset_writer.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class ChangedRun : public testing::Test {
 protected:
  ChangedRun() {
    write_data(1000, 3);
    train_run(run + Overrides{"train.train_iters=4"});
  }

  void write_data(int tokens, int factor, const std::string& name = "data") {
    IndexedDatasetWriter writer(folder / name, TokenType::uint16);
    std::vector<int32_t> document;
    for (int i = 0; i < tokens; ++i) {
      document.push_back(i * factor % 61);
      if (document.size() < 100) continue;
      writer.add_document(document);
      document.clear();
    }
    writer.finish();
  }
  std::string prefix(const std::string& name = "data") const { return (folder / name).string(); }

  /// The messages of a session with these settings; "" if none.
  std::string refusal(const Overrides& changes) {
    try {
      train_run(run + changes);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  std::string warnings(const Overrides& changes) {
    RunProcess process(viaduct_binary(), Overrides{"train"} + run + changes);
    EXPECT_EQ(process.finish(), 0) << process.err();
    return process.err();
  }

  TemporaryFolder folder;
  const Overrides run =
      tiny_run() + Overrides{"checkpoint.save=" + (folder / "run").string(), "dataset.mock=false",
                             "dataset.blend=[" + prefix() + "]", "dataset.split=1,0,0",
                             "train.train_iters=6"};
};

TEST_F(ChangedRun, AnotherArchitectureIsRefused) {
  for (const char* change :
       {"model.num_attention_heads=2", "model.rotary_base=5000", "model.activation_func=gelu",
        "model.seq_length=16", "model.layernorm_epsilon=1e-3", "model.window_size=8"}) {
    const std::string name(change, std::string_view(change).find('='));
    EXPECT_THAT(refusal({change}), AllOf(HasSubstr(name + ": was "), HasSubstr("step_00000004"),
                                         HasSubstr("; checkpoint.allow_changes=[" + name)))
        << change;
  }
  // A change of shapes cannot be allowed: the tensors would not fit.
  EXPECT_THAT(refusal({"model.ffn_hidden_size=128"}),
              AllOf(HasSubstr("model.ffn_hidden_size: was "), Not(HasSubstr("allow_changes"))));
  // Nor one that needs tensors that the checkpoint lacks, or that have other shapes there.
  for (const char* change :
       {"model.num_layers=3", "model.add_qkv_bias=true", "model.num_query_groups=2",
        "model.share_embeddings_and_output_weights=true"}) {
    EXPECT_THAT(refusal({change}), AllOf(HasSubstr("the checkpoint: "), HasSubstr(" not fit the "),
                                         HasSubstr("start anew with another checkpoint.save"),
                                         Not(HasSubstr("allow_changes"))))
        << change;
  }
  EXPECT_THAT(refusal({"optimizer.optimizer=sgd"}),
              HasSubstr("; checkpoint.allow_changes=[optimizer.optimizer] and "
                        "checkpoint.load_optim=false continue anyway"));
  EXPECT_EQ(latest_step(folder / "run"), 4);
  EXPECT_EQ(refusal({"optimizer.optimizer=sgd", "checkpoint.allow_changes=[optimizer.optimizer]",
                     "checkpoint.load_optim=false", "train.train_iters=4"}),
            "");
  // All changes are reported at once, with one list of fields that would allow them, and exit
  // status 2.
  RunProcess process(viaduct_binary(),
                     Overrides{"train"} + run +
                         Overrides{"model.rotary_base=5000", "model.num_attention_heads=2"});
  EXPECT_EQ(process.finish(), 2);
  EXPECT_THAT(process.err(),
              AllOf(HasSubstr("model.rotary_base: was 10000, is 5000"),
                    HasSubstr("model.num_attention_heads: was 4, is 2"),
                    HasSubstr("allow_changes=[model.num_attention_heads, model.num_query_groups, "
                              "model.kv_channels, model.rotary_base]")));
}

// Only rank 0 compares; all ranks end with its result, and each problem is reported once.
TEST_F(ChangedRun, OneOfManyRanksCompares) {
  RunProcess process(viaduct_binary(),
                     Overrides{"train"} + run +
                         Overrides{"dist.ranks=2", "dist.threads_per_rank=1",
                                   "model.rotary_base=5000", "model.num_attention_heads=2"});
  EXPECT_EQ(process.finish(), 2);
  EXPECT_THAT(process.err(), AllOf(HasSubstr("rank 0: model.rotary_base: was 10000, is 5000"),
                                   HasSubstr("rank 0: model.num_attention_heads: was 4, is 2"),
                                   Not(HasSubstr("rank 1")), Not(HasSubstr("rank 0: rank 0"))));
  RunProcess said(viaduct_binary(),
                  Overrides{"train"} + run +
                      Overrides{"dist.ranks=2", "dist.threads_per_rank=1", "train.train_iters=20"});
  EXPECT_EQ(said.finish(), 0) << said.err();
  const std::string text = said.err(), warning = "train.train_iters: was 4, is 20";
  const size_t at = text.find(warning);
  ASSERT_NE(at, text.npos) << text;
  EXPECT_EQ(text.find(warning, at + 1), text.npos) << "once";
}

// An epoch has 31 rows: 16 and 24 of them are parts of it; 80 rows need three epochs, shuffled
// together.
TEST_F(ChangedRun, ALengthThatNeedsOtherEpochsIsSaid) {
  EXPECT_THAT(warnings({}), Not(HasSubstr("train.train_iters")));
  EXPECT_THAT(
      warnings({"train.train_iters=20"}),
      HasSubstr("warning: train.train_iters: was 6, is 20 (the run reads 80 rows of data, was "
                "24): documents and samples are shuffled over all epochs"));
}

TEST_F(ChangedRun, WhoKnowsMayChangeIt) {
  EXPECT_THAT(warnings({"model.rotary_base=5000", "checkpoint.allow_changes=[model.rotary_base]"}),
              HasSubstr("warning: model.rotary_base: was 10000, is 5000"));
  EXPECT_EQ(latest_step(folder / "run"), 6);
}

TEST_F(ChangedRun, WhatIsAllowedIsAChangeThatWouldBeRefused) {
  EXPECT_THAT(refusal({"checkpoint.allow_changes=[model.rotary_bas]"}),
              HasSubstr("model.rotary_bas is not a setting whose change is refused"));
  EXPECT_THAT(refusal({"checkpoint.allow_changes=[optimizer.lr]"}), HasSubstr("it may change"));
  EXPECT_THAT(refusal({"checkpoint.allow_changes=[model.hidden_size]"}),
              HasSubstr("model.hidden_size cannot be allowed to change: the checkpoint's tensors "
                        "have other shapes"));
}

TEST_F(ChangedRun, ThePlaceInTheDataIsSaid) {
  EXPECT_THAT(
      warnings({"dataset.random_seed=7"}),
      HasSubstr("warning: dataset.random_seed: was 1234, is 7: rows come in a different order"));
}

TEST_F(ChangedRun, TheBatchIsSaid) {
  EXPECT_THAT(
      warnings({"train.global_batch_size=2"}),
      HasSubstr("warning: train.global_batch_size: was 4, is 2: the run continues at the same "
                "row of the data"));
}

TEST_F(ChangedRun, WhatMayChangeIsNotSaid) {
  const std::string said =
      warnings({"optimizer.lr=2e-3", "dist.ranks=2", "dist.threads_per_rank=1",
                "checkpoint.save_interval=1", "logger.log_interval=2", "train.micro_batch_size=1"});
  EXPECT_THAT(said, Not(HasSubstr("warning")));
}

TEST_F(ChangedRun, DataOfTheSameNameAndOtherContentAreRefused) {
  for (const auto& [tokens, factor] : {std::pair(900, 3), {1000, 5}}) {
    write_data(tokens, factor);
    EXPECT_THAT(refusal({}), AllOf(HasSubstr("dataset.content: " + prefix()),
                                   HasSubstr("checkpoint.allow_changes=[dataset.content]")));
  }
  EXPECT_EQ(latest_step(folder / "run"), 4);
  EXPECT_THAT(warnings({"checkpoint.allow_changes=[dataset.content]"}),
              HasSubstr("warning: dataset.content: " + prefix()));
}

TEST_F(ChangedRun, ASettingWithSeveralDifferencesIsNamedOnceInTheAdvice) {
  write_data(1000, 7, "two");
  const Overrides both{"checkpoint.save=" + (folder / "both").string(),
                       "dataset.blend=[" + prefix() + "," + prefix("two") + "]"};
  train_run(run + both);
  write_data(1000, 5);
  write_data(1000, 9, "two");
  EXPECT_THAT(refusal(both), AllOf(HasSubstr("dataset.content: " + prefix() + "."),
                                   HasSubstr("dataset.content: " + prefix("two") + "."),
                                   HasSubstr("checkpoint.allow_changes=[dataset.content] ")));
}

TEST_F(ChangedRun, DataMayMove) {
  for (const char* end : {".bin", ".idx"})
    std::filesystem::rename(prefix() + end, prefix("moved") + end);
  EXPECT_THAT(warnings({"dataset.blend=[" + prefix("moved") + "]"}),
              AllOf(HasSubstr("warning: dataset.blend: was"), Not(HasSubstr("dataset.content"))));
}

}  // namespace
}  // namespace viaduct
