// Evaluations: validation sets, full validation, and the test at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "data/indexed_dataset_writer.h"
#include "run/launch.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Evaluation : public testing::Test {
 protected:
  Evaluation() {
    write_data("a", 100, 3);
    write_data("b", 23, 5);
    write_data("c", 31, 7);
  }

  void write_data(const std::string& name, int documents, int factor) {
    IndexedDatasetWriter writer(folder / name, TokenType::uint16);
    for (int d = 0; d < documents; ++d) {
      std::vector<int32_t> document;
      for (int i = 0; i < 40; ++i) document.push_back((d + i) * factor % 61);
      writer.add_document(document);
    }
    writer.finish();
  }
  std::string prefix(const std::string& name) const { return (folder / name).string(); }
  /// Three lists of data sets; "" for none.
  std::string blends(const std::vector<std::vector<std::string>>& lists) const {
    std::string text;
    for (const auto& list : lists) {
      std::string names;
      for (const auto& name : list) names += (names.empty() ? "" : ",") + prefix(name);
      text += (text.empty() ? "" : ",") + (list.empty() ? "null" : "[" + names + "]");
    }
    return "dataset.blend_per_split=[" + text + "]";
  }
  Overrides run(const std::string& save, const Overrides& more) const {
    return tiny_run() +
           Overrides{"checkpoint.save=" + prefix(save), "dataset.mock=false", "train.train_iters=4",
                     "validation.eval_iters=2", "validation.eval_interval=2"} +
           more;
  }
  std::vector<double> said(const std::string& save, const std::string& field) const {
    return metric(folder / save / "metrics.jsonl", field);
  }

  TemporaryFolder folder;
};

TEST_F(Evaluation, TestDataAreReadOnceAtTheEnd) {
  const Overrides settings = run("run", {blends({{"a"}, {"b"}, {"b"}})});
  const auto outcome = train_run(settings);
  const auto losses = said("run", "validation_loss");
  ASSERT_EQ(losses.size(), 3u);  // before, and after 2 and 4 steps
  EXPECT_THAT(said("run", "test_loss"), ElementsAre(losses.back()));
  EXPECT_EQ(outcome.validations.size(), 3u);  // the test is not a validation
  // A session that finds the run finished adds nothing.
  train_run(settings);
  EXPECT_EQ(said("run", "test_loss").size(), 1u);
  EXPECT_EQ(said("run", "validation_loss").size(), 3u);
}

TEST_F(Evaluation, TheTestIsSaidOnTheScreen) {
  RunProcess process(viaduct_binary(),
                     Overrides{"train"} + run("run", {blends({{"a"}, {}, {"b"}})}));
  EXPECT_EQ(process.finish(), 0) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("step 4 | test loss "));
  EXPECT_THAT(process.out(), HasSubstr("test loss: "));
  // A session that finds the run finished does not read the data again.
  RunProcess again(viaduct_binary(), Overrides{"train"} + run("run", {blends({{"a"}, {}, {"b"}})}));
  EXPECT_EQ(again.finish(), 0) << again.err();
  EXPECT_THAT(again.err(), Not(HasSubstr("test loss")));
}

TEST_F(Evaluation, ARunThatStopsEarlyIsNotTested) {
  const Overrides settings = run("run", {blends({{"a"}, {}, {"b"}})});
  train_run(settings + Overrides{"train.exit_interval=2"});
  EXPECT_THAT(said("run", "test_loss"), IsEmpty());
  train_run(settings);
  EXPECT_EQ(said("run", "test_loss").size(), 1u);
}

TEST_F(Evaluation, ValidationSetsAreReportedOneByOne) {
  train_run(run("b", {blends({{"a"}, {"b"}, {}})}));
  train_run(run("c", {blends({{"a"}, {"c"}, {}})}));
  const Overrides both =
      run("both", {blends({{"a"}, {"b", "c"}, {}}), "validation.multiple_validation_sets=true"});
  const auto outcome = train_run(both);
  EXPECT_THAT(said("both", "validation_set"), ElementsAre(0, 1, 0, 1, 0, 1));
  const auto b = said("b", "validation_loss"), c = said("c", "validation_loss");
  EXPECT_THAT(said("both", "validation_loss"), ElementsAre(b[0], c[0], b[1], c[1], b[2], c[2]));
  EXPECT_THAT(said("both", "test_loss"), IsEmpty());  // there is no data for it
  ASSERT_EQ(outcome.validations.size(), 3u);
  EXPECT_NEAR(outcome.validations[2].second, (b[2] + c[2]) / 2, 1e-9);
  EXPECT_THAT(read_file(folder / "both" / "metrics.jsonl"),
              HasSubstr("\"validation_data\":\"" + prefix("c") + "\""));
  train_run(both);  // the run is finished: nothing is logged twice
  EXPECT_EQ(said("both", "validation_loss").size(), 6u);
}

TEST_F(Evaluation, AnyNumberOfValidationSets) {
  const Overrides one_by_one{"validation.multiple_validation_sets=true", "train.train_iters=2"};
  train_run(run("four", Overrides{blends({{"a"}, {"b", "c", "b", "c"}, {}})} + one_by_one));
  EXPECT_THAT(said("four", "validation_set"), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  train_run(run("one", Overrides{blends({{"a"}, {"b"}, {}})} + one_by_one));
  const auto four = said("four", "validation_loss");
  EXPECT_THAT(said("one", "validation_loss"), ElementsAre(four[0], four[4]));
}

// 23 documents of 40 tokens are 28 samples of 32 tokens and a remainder; no batch here divides
// them.
TEST_F(Evaluation, AWholeSetIsReadOnceInAnyLayout) {
  const Overrides whole{blends({{"a"}, {"b"}, {"c"}}), "validation.full_validation=true",
                        "validation.eval_iters=0", "model.seq_length=32",
                        "train.global_batch_size=6"};
  train_run(run("one", whole + Overrides{"train.micro_batch_size=1"}));
  train_run(run("three", whole + Overrides{"train.micro_batch_size=3"}));
  RunProcess ranks(
      viaduct_binary(),
      Overrides{"train"} + run("ranks", whole + Overrides{"dist.ranks=2", "dist.threads_per_rank=1",
                                                          "train.micro_batch_size="
                                                          "3"}));
  EXPECT_EQ(ranks.finish(), 0) << ranks.err();
  const auto losses = said("one", "validation_loss"), tests = said("one", "test_loss");
  ASSERT_EQ(losses.size(), 3u);
  ASSERT_EQ(tests.size(), 1u);
  for (const char* save : {"one", "three", "ranks"}) {
    EXPECT_THAT(said(save, "validation_tokens"), ElementsAre(28 * 32, 28 * 32, 28 * 32)) << save;
    EXPECT_THAT(said(save, "test_tokens"), ElementsAre(38 * 32)) << save;
    // Weights are equal only at the start, because layouts round differently.
    EXPECT_NEAR(said(save, "validation_loss")[0], losses[0], 1e-6) << save;
    EXPECT_NEAR(said(save, "test_loss")[0], tests[0], 1e-4) << save;
  }
}

// The ranks synchronize once for eight micro-batches, not after each.
TEST(EvaluationOnStages, MicroBatchesFollowEachOtherThroughTheStages) {
  const Overrides run = tiny_run() + Overrides{"train.skip_train=true", "validation.eval_iters=4",
                                               "train.micro_batch_size=1"};
  const double one = train_run(run).validations.at(0).second;
  const RunSetup setup = setup_of(run + Overrides{"dist.ranks=2", "dist.threads_per_rank=1",
                                                  "model.pipeline_model_parallel_size=2"});
  run_ranks(setup.config.dist, Launch(), [&](std::shared_ptr<Communicator> world) {
    const RankDevice rank = make_rank_device(setup.config.dist);
    StepRecord record;
    rank.device->set_record(&record);
    Trainer trainer(setup, *rank.device, rank.ops, {}, world);
    trainer.run();
    rank.device->set_record(nullptr);
    EXPECT_NEAR(trainer.validations().at(0).second, one, 1e-6);
    EXPECT_EQ(std::ranges::count(record.host_reads(), "validation loss", &HostReadRecord::reason),
              2);
  });
}

TEST_F(Evaluation, WhatCannotBeIsRefused) {
  const auto problem = [&](const Overrides& more) {
    try {
      setup_of(run("x", more));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string several = "validation.multiple_validation_sets=true",
                    whole = "validation.full_validation=true";
  const std::string weighted = "dataset.blend_per_split=[[a],[0.5,b,0.5,c],null]";
  EXPECT_THAT(problem({"dataset.blend=[a,b]", several}),
              HasSubstr("multiple_validation_sets: true needs a list"));
  EXPECT_THAT(problem({weighted, several}), HasSubstr("multiple_validation_sets"));
  EXPECT_THAT(problem({weighted, whole}), HasSubstr("full_validation: true reads each sample"));
  EXPECT_THAT(problem({"dataset.mock=true", whole}), HasSubstr("mock data"));
  EXPECT_EQ(problem({"dataset.blend_per_split=[[a],[b,c],null]", several, whole}), "");
}

}  // namespace
}  // namespace viaduct
