// The guarantees of docs/reliability.md: values that are not finite are not saved, only one run at
// a time writes, each step has one row, a deleted folder is recreated.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/safetensors_reader.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/save_folder.h"
#include "run/rank_device.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

/// A run of one rank that calls `stops` with the number of steps done wherever it checks for a
/// signal: after each step, and during an evaluation. Returns the steps it did.
int64_t train_until(const Overrides& overrides, const std::function<bool(int64_t)>& stops) {
  const RunSetup setup = setup_of(overrides);
  const RankDevice rank = make_rank_device(setup.config.dist);
  Trainer* trainer = nullptr;
  TrainerHooks hooks;
  hooks.stop_requested = [&] { return trainer != nullptr && stops(trainer->state().step); };
  Trainer made(setup, *rank.device, rank.ops, hooks);
  trainer = &made;
  made.run();
  return made.state().step;
}

/// A run of one rank that calls `between` after each step with the number of steps done.
void train_with(const Overrides& overrides, const std::function<void(int64_t)>& between) {
  train_until(overrides, [&](int64_t step) {
    between(step);
    return false;
  });
}

/// (step, kind) of each row.
std::multiset<std::pair<int64_t, std::string>> rows_of(const std::filesystem::path& metrics) {
  std::multiset<std::pair<int64_t, std::string>> rows;
  std::string text = read_file(metrics);
  for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    const auto row = nlohmann::json::parse(text.substr(0, end));
    rows.insert({row.at("step"), row.contains("stopped")           ? "stop"
                                 : row.contains("validation_loss") ? "validation"
                                                                   : "step"});
  }
  return rows;
}

std::multiset<std::pair<int64_t, std::string>> expected_rows(int64_t steps, int64_t eval_interval) {
  std::multiset<std::pair<int64_t, std::string>> rows;
  for (int64_t step = 1; step <= steps; ++step) rows.insert({step, "step"});
  for (int64_t step = 0; step <= steps; step += eval_interval) rows.insert({step, "validation"});
  return rows;
}

class Reliability : public testing::Test {
 protected:
  RunProcess started(const Overrides& more) {
    return RunProcess(viaduct_binary(), Overrides{"train"} + run + more);
  }

  TemporaryFolder save;
  const Overrides run =
      tiny_run() + Overrides{"checkpoint.save=" + save.path().string(),
                             "checkpoint.save_interval=4", "scheduler.lr_decay_style=constant",
                             "validation.eval_iters=1", "validation.eval_interval=4"};
};

TEST_F(Reliability, WeightsThatAreNotFiniteAreNoCheckpoint) {
  EXPECT_THAT(
      [&] {
        train_run(run + Overrides{"optimizer.lr=1e38", "optimizer.weight_decay=1e30",
                                  "checkpoint.save_interval=1"});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("step 1: "), HasSubstr("are not finite"),
                                 HasSubstr("there is no checkpoint of this run yet"))));
  EXPECT_FALSE(has_latest(save.path()));
  train_run(run + Overrides{"train.train_iters=8"});
  // Two steps of each save, and one that is retained: the newest good one must not be removed.
  for (const char* how : {"checkpoint.async_save=false", "checkpoint.async_save=true",
                          "checkpoint.continue_on_save_failure=true", "dist.ranks=2"}) {
    auto process = started({how, "optimizer.lr=1e38", "optimizer.weight_decay=1e30",
                            "checkpoint.save_interval=1", "checkpoint.most_recent_k=1",
                            "dist.threads_per_rank=1"});
    EXPECT_EQ(process.finish(), 1) << how;
    EXPECT_THAT(process.err(),
                AllOf(HasSubstr("step 9: "), HasSubstr("are not finite; it is not saved"),
                      HasSubstr("last good checkpoint: " + (save / "step_00000008").string())))
        << how;
    EXPECT_THAT(saved_steps(save.path()), ElementsAre(4, 8)) << how;
    EXPECT_EQ(latest_step(save.path()), 8) << how;
  }
  EXPECT_EQ(train_run(run).state.step, 20);
}

/// A copy of the reference Llama with a NaN in one weight.
void write_model_with_nan(const std::filesystem::path& folder) {
  const SafetensorsFolder source(test_data("golden/llama/model"));
  std::map<std::string, Tensor> tensors;
  for (const TensorInfo& info : source.tensors()) {
    const Tensor copy = host_tensor(info.dtype, info.shape);
    const std::string bytes = bytes_of(source.tensor(info.name));
    std::memcpy(copy.raw(), bytes.data(), bytes.size());
    if (info.name == "lm_head.weight") copy.data<float>()[5] = std::nanf("");
    tensors.emplace(info.name, copy);
  }
  write_safetensors(folder / "model.safetensors", tensors);
  std::filesystem::copy(test_data("golden/llama/model/config.json"), folder / "config.json");
}

TEST(SkippedUpdates, HaveALimitInARowAndARate) {
  TemporaryFolder model;
  write_model_with_nan(model.path());
  const Overrides run{
      "dataset.mock=true",         "model.seq_length=32",
      "train.train_iters=40",      "train.global_batch_size=4",
      "train.micro_batch_size=2",  "scheduler.lr_warmup_iters=0",
      "validation.eval_iters=0",   "checkpoint.pretrained_checkpoint=" + model.path().string(),
      "train.nan_loss_action=skip"};
  const auto failure = [&](const Overrides& limits) -> std::string {
    try {
      train_run(run + limits);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(failure({}), AllOf(HasSubstr("step 11: 11 updates in a row"),
                                 HasSubstr("train.max_skipped_in_a_row=10")));
  EXPECT_THAT(failure({"train.max_skipped_in_a_row=3"}), HasSubstr("step 4: 4 updates in a row"));
  EXPECT_THAT(failure({"train.max_skipped_in_a_row=0"}),
              HasSubstr("step 1: 1 update in a row was"));
  EXPECT_THAT(failure({"train.max_skipped_in_a_row=null"}),
              AllOf(HasSubstr("step 21: 21 of the last 100 updates"),
                    HasSubstr("train.max_skipped_rate=0.2")));
  EXPECT_EQ(failure({"train.max_skipped_in_a_row=null", "train.max_skipped_rate=1"}), "none");
}

TEST_F(Reliability, ASecondRunInTheFolderIsRefusedAndTheFirstGoesOn) {
  int64_t tried = 0;
  train_with(run, [&](int64_t step) {
    if (step != 6 || tried++ > 0) return;
    auto second = started({});
    EXPECT_EQ(second.finish(), 1);
    EXPECT_THAT(second.err(), AllOf(HasSubstr("another run writes here"),
                                    HasSubstr("process " + std::to_string(getpid()))));
  });
  EXPECT_GT(tried, 0);
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(4, 8, 12, 16, 20));
  open_checkpoint(save.path())->verify();
  EXPECT_EQ(rows_of(save / "metrics.jsonl"), expected_rows(20, 4));
}

TEST_F(Reliability, ARunThatLostItsFolderToAnotherStops) {
  EXPECT_THAT(
      [&] {
        train_with(run, [&](int64_t step) {
          if (step == 6) write_file_atomically(save / "run.lock", "{\"token\": \"another\"}");
        });
      },
      ThrowsMessage<IoError>(HasSubstr("another run has taken this folder")));
  EXPECT_THAT(saved_steps(save.path()), ElementsAre(4));
  EXPECT_EQ(metric(save / "metrics.jsonl", "loss").size(), 6u)
      << "the file belongs to the other run";
}

TEST_F(Reliability, OneRowPerStepAndKindAfterAKill) {
  {
    auto process = started({"train.train_iters=1000000"});
    ASSERT_TRUE(process.wait_for_line(" 11/1000000")) << process.err();
    process.send(SIGKILL);
    EXPECT_EQ(process.finish(), -SIGKILL);
  }
  const std::string dead = (save / "config.yaml.tmp-").string() + "4194304";  // beyond pid_max
  std::filesystem::copy(save / "config.yaml", dead);
  const int64_t end = latest_step(save.path()) + 8;
  EXPECT_GE(end, 16);
  EXPECT_EQ(started({"train.train_iters=" + std::to_string(end)}).finish(), 0);
  EXPECT_EQ(rows_of(save / "metrics.jsonl"), expected_rows(end, 4));
  EXPECT_FALSE(std::filesystem::exists(dead));
}

TEST_F(Reliability, AKillBetweenValidationAndSaveRepeatsNothing) {
  train_run(run + Overrides{"train.train_iters=8"});
  // Simulates a process that died after the validation of step 8 and before its save.
  std::filesystem::remove_all(save / "step_00000008");
  write_file_atomically(save / "latest", "step_00000004\n");
  const RunOutcome outcome = train_run(run);
  EXPECT_EQ(rows_of(save / "metrics.jsonl"), expected_rows(20, 4));
  // A session knows the results that it does not repeat.
  EXPECT_EQ(outcome.validations.front().first, 4);
  TemporaryFolder other;
  const RunOutcome whole = train_run(run + Overrides{"checkpoint.save=" + other.path().string()});
  EXPECT_EQ(outcome.validations.front(), whole.validations[1]);
}

TEST_F(Reliability, AValidationThatASignalEndsIsRunByTheNextSession) {
  int asked = 0;  // at step 8: first after the step, then in its validation
  EXPECT_EQ(train_until(run, [&](int64_t step) { return step > 8 || (step == 8 && asked++ > 0); }),
            8);
  EXPECT_GT(asked, 1);
  auto rows = expected_rows(8, 4);
  rows.erase({8, "validation"});
  rows.insert({8, "stop"});
  EXPECT_EQ(rows_of(save / "metrics.jsonl"), rows);
  train_run(run);
  rows = expected_rows(20, 4);
  rows.insert({8, "stop"});
  EXPECT_EQ(rows_of(save / "metrics.jsonl"), rows);
}

TEST_F(Reliability, AFinishedRunStartedAgainAddsNothing) {
  EXPECT_EQ(started({}).finish(), 0);
  const auto contents = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(save.path())) {
      const std::string name = entry.path().lexically_relative(save.path()).string();
      if (entry.is_regular_file() && name != "run.lock") files[name] = read_file(entry.path());
    }
    return files;
  };
  const auto before = contents();
  auto again = started({});
  EXPECT_EQ(again.finish(), 0);
  EXPECT_THAT(again.err(), AllOf(HasSubstr("nothing to do"), HasSubstr("train.train_iters=20")));
  EXPECT_THAT(again.out(), HasSubstr(save.path().string()));
  EXPECT_TRUE(contents() == before);
}

TEST_F(Reliability, AFolderDeletedUnderTheRunIsMadeAgain) {
  int deleted = 0;
  for (const int64_t at : {6, 19, 20}) {
    bool done = false;
    train_with(run + Overrides{"checkpoint.load=null"}, [&](int64_t step) {
      if (step != at || done) return;
      done = true;
      std::filesystem::remove_all(save.path());
      ++deleted;
    });
    EXPECT_EQ(latest_step(save.path()), 20) << at;
    open_checkpoint(save.path())->verify();
    if (at == 6) {
      EXPECT_THAT(saved_steps(save.path()), ElementsAre(6, 8, 12, 16, 20)) << "saved at once";
    }
    EXPECT_EQ(rows_of(save / "metrics.jsonl"), expected_rows(20, 4)) << at;
    EXPECT_TRUE(std::filesystem::exists(save / "config.yaml")) << at;
    EXPECT_FALSE(std::filesystem::is_empty(save / "tensorboard")) << at;
    std::filesystem::remove_all(save.path());
  }
  EXPECT_EQ(deleted, 3);
}

}  // namespace
}  // namespace viaduct
