// Standard output and error that are full, closed, or a pipe without a reader.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;

/// `viaduct ARGUMENTS`, whose redirections override those of run_command.
CommandResult redirected(const std::string& arguments, std::string_view input = "") {
  return run_command("{ " + viaduct_binary() + " " + arguments + "; }", input);
}

class StandardOutput : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* file : {"config.json", "model.safetensors"})
      std::filesystem::copy_file(test_data("golden/gpt2/model") / file, model_ / file);
    write_file_atomically(model_ / "text", "the cat and the hat and the rat");
    const CommandResult trained = run_viaduct("tokenizer train --vocab-size 262 --input " + path() +
                                              "/text --output " + path());
    ASSERT_EQ(trained.status, 0) << trained.err;
  }
  std::string path() const { return model_.path().string(); }

  /// One small command for each way of printing.
  std::vector<std::string> printing_commands() const {
    return {"version",
            "--help",
            "train --help",
            "knobs --json",
            "knobs --markdown",
            "knobs train.global_batch_size",
            "schedule --pp 2 --microbatches 3",
            "schedule --pp 8 --microbatches 64 --json",
            "generate --model " + path() + " --prompt a --max-new-tokens 2",
            "generate --json --model " + path() + " --prompt a --max-new-tokens 2",
            "tokenizer encode --tokenizer " + path(),
            "bench gemm --m 8 --n 8 --k 8 --rounds 1",
            "train --dry-run" + overrides(tiny_run())};
  }
  static std::string overrides(const Overrides& all) {
    std::string text;
    for (const std::string& override : all) text += " '" + override + "'";
    return text;
  }
  void expect_failure(const std::string& redirection) const {
    for (const std::string& command : printing_commands()) {
      const CommandResult result = redirected(command + redirection, "\"a\"\n");
      EXPECT_EQ(result.status, 1) << command << "\n" << result.err;
      EXPECT_THAT(result.err, HasSubstr("error: cannot write to standard output")) << command;
    }
  }

  TemporaryFolder model_;
};

TEST_F(StandardOutput, ThatIsFullMakesEveryCommandFail) {
  expect_failure(" >/dev/full");
}

TEST_F(StandardOutput, ThatIsClosedMakesEveryCommandFail) {
  expect_failure(" >&-");
}

/// Shell commands that make descriptor 8 a pipe without a reader.
std::string pipe_without_reader(const TemporaryFolder& folder) {
  const std::string fifo = (folder / "fifo").string();
  return "mkfifo " + fifo + "; exec 9<>" + fifo + " 8>" + fifo + " 9>&-; ";
}

TEST_F(StandardOutput, NobodyReadsIt) {
  const CommandResult result =
      run_command("{ " + pipe_without_reader(model_) + viaduct_binary() + " knobs --json >&8; }");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("error: cannot write to standard output: Broken pipe"));
}

TEST_F(StandardOutput, NoFileGetsTheNumberOfAClosedOne) {
  TemporaryFolder folder;
  const auto out = (folder / "s.svg").string();
  const CommandResult result =
      redirected("schedule --pp 2 --microbatches 3 --svg " + out + " >&- 2>&- <&-");
  EXPECT_EQ(result.status, 1);
  const CommandResult right = run_viaduct("schedule --pp 2 --microbatches 3 --svg " + out + "2");
  EXPECT_EQ(right.status, 0) << right.err;
  EXPECT_EQ(run_command("cmp " + out + " " + out + "2").status, 0);
}

class TrainingGoesOn : public testing::TestWithParam<const char*> {};

TEST_P(TrainingGoesOn, WhateverBecomesOfItsOutput) {
  TemporaryFolder folder;
  std::string arguments = "train";
  for (const std::string& override : tiny_run()) arguments += " '" + override + "'";
  arguments +=
      " train.train_iters=3 logger.log_interval=1 checkpoint.save=" + (folder / "run").string();
  const CommandResult result =
      run_command("{ " + pipe_without_reader(folder) + "(" + viaduct_binary() + " " + arguments +
                  ") " + GetParam() + "; }");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/step_00000003")) << result.err;
  EXPECT_EQ(metric(folder / "run/metrics.jsonl", "loss").size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(All, TrainingGoesOn,
                         testing::Values(">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full",
                                         ">&- 2>&-", ">&- 2>&- <&-", ">&8", "2>&8", ">&8 2>&8"));

TEST_F(StandardOutput, WhatARunCouldNotSayIsSaidElsewhere) {
  TemporaryFolder folder;
  std::string arguments = "train";
  for (const std::string& override : tiny_run()) arguments += " '" + override + "'";
  arguments += " train.train_iters=1 checkpoint.save=" + (folder / "run").string();
  EXPECT_THAT(redirected(arguments + " 2>/dev/full").out,
              HasSubstr("warning: standard error could not be written"));
  const CommandResult full = redirected(arguments + " train.train_iters=2 >/dev/full");
  EXPECT_THAT(full.err, HasSubstr("warning: standard output cannot be written: No space left"));
  EXPECT_THAT(full.err, HasSubstr("config.yaml are in"));
}

TEST(MetricsFiles, ThatCannotBeMadeCostTheirLinesOnly) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "run/metrics.jsonl");
  std::string arguments = "train";
  for (const std::string& override : tiny_run()) arguments += " '" + override + "'";
  arguments +=
      " train.train_iters=3 logger.log_interval=1 logger.tensorboard_dir=/dev/null/x "
      "checkpoint.save=" +
      (folder / "run").string();
  const CommandResult result = run_viaduct(arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/step_00000003"));
  EXPECT_THAT(result.err, HasSubstr("warning: no lines of metrics.jsonl written"));
  EXPECT_THAT(result.err, HasSubstr("warning: no TensorBoard events written"));
}

}  // namespace
}  // namespace viaduct
