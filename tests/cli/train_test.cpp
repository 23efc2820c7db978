// `viaduct train` as people and scripts use it: what it prints, what it refuses, how it stops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_reader.h"
#include "support/command.h"
#include "support/temporary_folder.h"
#include "support/tensor_bytes.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using Result = test::CommandResult;

Result train(const Overrides& arguments, const Overrides& environment = {}) {
  RunProcess process(viaduct_binary(), Overrides{"train"} + arguments, environment);
  const int status = process.finish();
  return {status, process.out(), process.err()};
}

/// Refused as bad usage before anything is written.
void expect_refused(const Overrides& arguments, const testing::Matcher<std::string>& message,
                    const Overrides& environment = {}) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  const Result result =
      train(arguments + Overrides{"checkpoint.save=" + save.string()}, environment);
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, message);
  EXPECT_THAT(result.err, HasSubstr("viaduct: error: "));
  EXPECT_EQ(result.out, "");
  EXPECT_FALSE(std::filesystem::exists(save));
}

std::string data(const std::string& name) {
  return test_data(name).string();
}

TEST(TrainCommand, TrainsAndWritesItsFolder) {
  TemporaryFolder folder;
  const Result result =
      train(tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(),
                                   "validation.eval_iters=1", "validation.eval_interval=8"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(testing::StartsWith("1 rank: tp 1, cp 1, dp 1, pp 1; micro-batch"),
                                HasSubstr("step 20/20"), HasSubstr("memory of a step")));
  // The table of memory is printed once: at the end only if the plan was not kept.
  EXPECT_EQ(result.err.find("at its fullest"), result.err.rfind("at its fullest")) << result.err;
  EXPECT_THAT(result.out, HasSubstr("validation loss: "));
  for (const char* name : {"latest", "config.yaml", "tensorboard", "step_00000020/config.json",
                           "step_00000020/config.yaml", "step_00000020/index.json"})
    EXPECT_TRUE(std::filesystem::exists(folder / name)) << name;
  EXPECT_EQ(metric(folder / "metrics.jsonl", "loss").size(), 20u);
  EXPECT_EQ(metric(folder / "metrics.jsonl", "validation_loss").size(), 4u);
  // The resolved configuration is itself a run: it resumes at the end and does nothing more.
  const Result again = train({(folder / "config.yaml").string()});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(metric(folder / "metrics.jsonl", "loss").size(), 20u);
}

TEST(TrainCommand, RunsInFp64HaveRatesWithoutAPeak) {
  const TemporaryFolder folder;
  const auto save = folder / "run";
  const Result result = train(
      tiny_run() + Overrides{"mixed_precision=fp64", "logger.log_interval=1",
                             "logger.log_throughput=true", "checkpoint.save=" + save.string()});
  EXPECT_EQ(result.status, 0) << result.err;
  const auto line = nlohmann::json::parse(last_line(save / "metrics.jsonl"));
  EXPECT_GT(line["tokens_per_second"], 0) << line;
  EXPECT_TRUE(line["mfu"].is_null()) << line;
}

TEST(TrainCommand, OnlyEvaluates) {
  TemporaryFolder folder;
  const Result result =
      train(tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(),
                                   "validation.eval_iters=1", "train.skip_train=true"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("step 0 | validation loss"));
  EXPECT_EQ(metric(folder / "metrics.jsonl", "loss").size(), 0u);
  EXPECT_FALSE(std::filesystem::exists(folder / "latest"));
}

TEST(TrainCommand, ExitsAfterAnIntervalOrATime) {
  for (const char* how : {"train.exit_interval=3", "train.exit_duration_in_mins=1e-9"}) {
    TemporaryFolder folder;
    const Overrides run = tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(), how};
    EXPECT_EQ(train(run).status, 0);
    EXPECT_THAT(last_line(folder / "metrics.jsonl"), HasSubstr("\"stopped\":\"train.exit_"));
    const auto steps = metric(folder / "metrics.jsonl", "loss").size();
    EXPECT_EQ(steps, how == std::string("train.exit_interval=3") ? 3u : 1u);
    EXPECT_TRUE(std::filesystem::exists(folder / "latest"));
    // The next session continues from there.
    EXPECT_EQ(train(run).status, 0);
    EXPECT_EQ(metric(folder / "metrics.jsonl", "loss").size(), 2 * steps);
  }
}

// Fine-tune a Hugging Face folder, export the result, read it back.
TEST(TrainCommand, SaysThatALossOfOtherRowsIsComparedAnew) {
  TemporaryFolder folder;
  const Overrides run =
      tiny_run() + Overrides{"checkpoint.save=" + folder.path().string(), "train.train_iters=4",
                             "optimizer.lr=1e-30", "validation.eval_interval=1",
                             "train.early_stopping_patience=8"};
  const std::string said = "evaluations are compared anew from here on";
  const Result first = train(run + Overrides{"validation.eval_iters=1", "train.exit_interval=1"});
  EXPECT_EQ(first.status, 0) << first.err;
  const Result same = train(run + Overrides{"validation.eval_iters=1", "train.exit_interval=2"});
  EXPECT_EQ(same.status, 0) << same.err;
  EXPECT_THAT(same.err, Not(HasSubstr(said)));
  EXPECT_THAT(same.err, Not(HasSubstr("step 1 | validation loss")));
  const Result other = train(run + Overrides{"validation.eval_iters=2"});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr("of step 1, was measured on other validation data"),
                               HasSubstr(said), HasSubstr("step 2 | validation loss"),
                               HasSubstr("step 2 | best validation_loss so far")));
}

TEST(TrainCommand, FineTunesAndExports) {
  TemporaryFolder folder;
  const auto save = folder / "run", exported = folder / "exported", again = folder / "again";
  const std::filesystem::path model = data("golden/llama/model");
  const auto convert = [](const std::filesystem::path& from, const std::filesystem::path& to,
                          const std::string& format) {
    RunProcess process(viaduct_binary(), {"convert", "--from", from.string(), "--to", to.string(),
                                          "--to-format", format});
    const int status = process.finish();
    EXPECT_EQ(status, 0) << process.err();
  };
  const Overrides tune{"checkpoint.pretrained_checkpoint=" + model.string(),
                       "dataset.blend=[" + data("indexed_dataset/bytes_uint8") + "]",
                       "dataset.split=1,0,0",
                       "model.seq_length=16",
                       "train.train_iters=5",
                       "train.global_batch_size=4",
                       "train.micro_batch_size=4",
                       "scheduler.lr_warmup_iters=0",
                       "validation.eval_iters=0",
                       "checkpoint.save=" + save.string()};
  ASSERT_EQ(train(tune).status, 0);
  convert(save, exported, "hf");
  const SafetensorsFolder before(model), after(exported);
  const auto checkpoint = open_checkpoint(save);
  EXPECT_EQ(after.tensors().size(), before.tensors().size());
  for (const TensorInfo& info : before.tensors()) {
    ASSERT_NE(after.find(info.name), nullptr) << info.name;
    EXPECT_EQ(after.find(info.name)->shape, info.shape) << info.name;
    EXPECT_FALSE(bytes_of(after.tensor(info.name)) == bytes_of(before.tensor(info.name)))
        << info.name << " was not trained";
    EXPECT_TRUE(bytes_of(after.tensor(info.name)) == bytes_of(checkpoint->tensor(info.name)))
        << info.name;
  }
  EXPECT_EQ(read_file(exported / "config.json"), read_file(model / "config.json"));
  convert(exported, again, "viaduct");
  const auto back = open_weights(resolve_model_folder(again));
  for (const TensorInfo& info : after.tensors())
    EXPECT_TRUE(bytes_of(back->tensor(info.name)) == bytes_of(after.tensor(info.name)))
        << info.name;
}

class TrainCommandSignal : public testing::TestWithParam<int> {};

TEST_P(TrainCommandSignal, SavesExitsAndResumesBitwise) {
  TemporaryFolder stopped, whole;
  const Overrides run =
      tiny_run() + Overrides{"model.hidden_dropout=0.1", "scheduler.lr_decay_style=constant"};
  const auto into = [](const TemporaryFolder& folder) {
    return Overrides{"checkpoint.save=" + folder.path().string()};
  };
  RunProcess process(viaduct_binary(), Overrides{"train"} + run + into(stopped) +
                                           Overrides{"train.train_iters=1000000"});
  ASSERT_TRUE(process.wait_for_line("step       4/1000000")) << process.err();
  process.send(GetParam());
  EXPECT_EQ(process.finish(), 0) << process.err();
  const auto line = nlohmann::json::parse(last_line(stopped / "metrics.jsonl"));
  EXPECT_EQ(line["stopped"], "signal");
  const int64_t step = line["step"];
  EXPECT_GE(step, 4);
  EXPECT_EQ(static_cast<size_t>(step), metric(stopped / "metrics.jsonl", "loss").size());

  const Overrides end{"train.train_iters=" + std::to_string(step + 3)};
  ASSERT_EQ(train(run + into(stopped) + end).status, 0);
  ASSERT_EQ(train(run + into(whole) + end).status, 0);
  const std::string last = read_file(whole / "latest");
  EXPECT_EQ(read_file(stopped / "latest"), last);
  const std::string shard = last.substr(0, last.find('\n')) + "/rank_00000.bin";
  EXPECT_TRUE(read_file(stopped / shard) == read_file(whole / shard));
  EXPECT_EQ(metric(stopped / "metrics.jsonl", "loss"), metric(whole / "metrics.jsonl", "loss"));
}

TEST_P(TrainCommandSignal, AnEvaluationIsGivenUp) {
  TemporaryFolder folder;
  // An evaluation that would take hours, before the first step.
  RunProcess process(viaduct_binary(), Overrides{"train"} + tiny_run() +
                                           Overrides{"checkpoint.save=" + folder.path().string(),
                                                     "validation.eval_iters=10000000"});
  process.wait_until_caught(GetParam());
  process.send(GetParam());
  EXPECT_EQ(process.finish(), 0) << process.err();
  EXPECT_THAT(last_line(folder / "metrics.jsonl"),
              AllOf(HasSubstr("\"step\":0"), HasSubstr("\"stopped\":\"signal\"")));
  EXPECT_TRUE(std::filesystem::exists(folder / "step_00000000/index.json"));
}

// GNU `timeout` and some schedulers send a signal twice within milliseconds.
TEST_P(TrainCommandSignal, ARepeatCountsAsTheSameOne) {
  TemporaryFolder folder;
  RunProcess process(viaduct_binary(), Overrides{"train"} + tiny_run() +
                                           Overrides{"checkpoint.save=" + folder.path().string(),
                                                     "train.train_iters=1000000"});
  ASSERT_TRUE(process.wait_for_line("step       4/1000000")) << process.err();
  for (int i = 0; i < 3; ++i) {
    process.send(GetParam());
    process.wait_until_delivered();
  }
  EXPECT_EQ(process.finish(), 0) << process.err();
  EXPECT_TRUE(std::filesystem::exists(folder / "latest"));
  EXPECT_THAT(process.err(), HasSubstr("the run stops after this step and saves a checkpoint; a "
                                       "second Ctrl-C or SIGTERM, 3 seconds or more"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, TrainCommandSignal, testing::Values(SIGTERM, SIGINT),
                         [](const auto& info) {
                           return std::string(info.param == SIGTERM ? "Term" : "Int");
                         });

TEST(TrainCommand, AWarningOfTheBatchSystemSavesAndStops) {
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2}) {
    TemporaryFolder folder;
    RunProcess process(viaduct_binary(), Overrides{"train"} + tiny_run() +
                                             Overrides{"checkpoint.save=" + folder.path().string(),
                                                       "train.train_iters=1000000"});
    ASSERT_TRUE(process.wait_for_line("step       4/1000000")) << process.err();
    process.send(signal);
    process.send(signal);  // again: it is a warning, not a request to end
    EXPECT_EQ(process.finish(), 0) << signal << process.err();
    EXPECT_THAT(last_line(folder / "metrics.jsonl"), HasSubstr("\"stopped\":\"signal\""));
    EXPECT_TRUE(std::filesystem::exists(folder / "latest"));
  }
}

TEST(TrainCommand, AWarningThatIsNotAskedForEndsTheProcess) {
  RunProcess process(viaduct_binary(),
                     Overrides{"train"} + tiny_run() +
                         Overrides{"train.train_iters=1000000", "train.exit_signals=[SIGHUP]"});
  ASSERT_TRUE(process.wait_for_line("step       4/1000000")) << process.err();
  process.send(SIGUSR1);
  EXPECT_EQ(process.finish(), -SIGUSR1);
}

TEST(TrainCommand, ARunThatKeepsNothingSaysSoBeforeItsFirstStep) {
  const auto says = HasSubstr("warning: checkpoint.save is not set: nothing of this run is kept");
  EXPECT_THAT(train(tiny_run() + Overrides{"--dry-run"}).out, says);
  const Overrides one_step = tiny_run() + Overrides{"train.train_iters=1"};
  const Result run = train(one_step);
  EXPECT_THAT(run.err, says);
  EXPECT_LT(run.err.find("checkpoint.save is not set"), run.err.find("step 1/1"));
  TemporaryFolder folder;
  EXPECT_THAT(train(one_step + Overrides{"checkpoint.save=" + (folder / "run").string()}).err,
              Not(says));
}

TEST(TrainCommand, DryRunPrintsAndWritesNothing) {
  TemporaryFolder folder;
  const auto save = folder / "run";
  const Overrides run = tiny_run() + Overrides{"checkpoint.save=" + save.string(), "--dry-run"};
  const Result brief = train(run + Overrides{"optimizer.lr=2"});
  EXPECT_EQ(brief.status, 0) << brief.err;
  EXPECT_TRUE(brief.out.starts_with("set:\n"));
  EXPECT_THAT(brief.out,
              AllOf(HasSubstr("  optimizer.lr: 2\n"), HasSubstr("where the default is auto;"),
                    HasSubstr("num_query_groups=4,"), HasSubstr("warning: optimizer.lr = 2"),
                    HasSubstr("memory of a step at its fullest, each rank: "),
                    Not(HasSubstr("layer map")), Not(HasSubstr("main gradients")),
                    Not(HasSubstr("adam_beta1")), HasSubstr("nothing was started (--full:")));
  const Result text = train(run + Overrides{"--full"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("num_query_groups: 4"), HasSubstr("layer map"), HasSubstr("groups"),
                    HasSubstr("main gradients"), HasSubstr("nothing was started")));
  const Result json = train(run + Overrides{"--json"});
  EXPECT_EQ(json.status, 0) << json.err;
  const auto document = nlohmann::json::parse(json.out);
  // Attention, gated feed-forward and two norms a block; embedding, head and the last norm.
  const int64_t block = 4 * 32 * 32 + 3 * 32 * 64 + 2 * 32;
  EXPECT_EQ(document["parameters"], 2 * 64 * 32 + 2 * block + 32);
  EXPECT_EQ(document["host_reads_per_step"], 3);
  EXPECT_EQ(document["layers"], nlohmann::json::parse(
                                    R"([{"stage": 0, "chunk": 0, "embedding": true, "first": 0,
                                         "count": 2, "head": true}])"));
  EXPECT_EQ(document["groups"][0]["kind"], "dp_cp");
  EXPECT_EQ(document["groups"][0]["ranks"], nlohmann::json::parse("[[0]]"));
  EXPECT_EQ(document["stages"].size(), 1u);
  int64_t sum = 0;
  for (const auto& [owner, bytes] : document["memory_by_owner"].items())
    sum += bytes.get<int64_t>();
  EXPECT_EQ(document["peak_memory_bytes"], sum);
  EXPECT_GE(document["memory_by_owner"]["moments"], 8 * document["parameters"].get<int64_t>());
  EXPECT_GT(document["model_flops_per_step"], 0);
  EXPECT_THAT(document["config"].get<std::string>(), Not(HasSubstr("family: auto")));
  EXPECT_FALSE(std::filesystem::exists(save));
}

TEST(TrainCommand, JsonWithoutDryRunIsBadUsage) {
  EXPECT_EQ(train(tiny_run() + Overrides{"--json"}).status, 2);
}

// The checkpoint would hide its weights, without any message.
TEST(TrainCommand, AHuggingFaceFolderIsNoSaveFolder) {
  TemporaryFolder folder;
  const auto save = folder / "run", model = folder / "model";
  ASSERT_EQ(train(tiny_run() + Overrides{"checkpoint.save=" + save.string(), "train.train_iters=1"})
                .status,
            0);
  RunProcess convert(viaduct_binary(),
                     {"convert", "--from", save.string(), "--to", model.string()});
  ASSERT_EQ(convert.finish(), 0) << convert.err();
  const Result result = train(tiny_run() + Overrides{"checkpoint.save=" + model.string()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("holds a Hugging Face model"));
  EXPECT_FALSE(std::filesystem::exists(model / "run.lock"));
}

TEST(TrainCommand, UnknownNamesGiveTheNearest) {
  expect_refused(tiny_run() + Overrides{"train.train_itres=3"}, HasSubstr("train_iters"));
  expect_refused(tiny_run() + Overrides{"chekpoint.save_interval=3"}, HasSubstr("checkpoint"));
}

TEST(TrainCommand, AllProblemsAtOnce) {
  expect_refused(tiny_run() + Overrides{"train.train_itres=3", "optimizer.lr=fast", "dist.ranks=0",
                                        "model.num_layers=0"},
                 AllOf(HasSubstr("train_itres"), HasSubstr("optimizer.lr"), HasSubstr("dist.ranks"),
                       HasSubstr("model.num_layers")));
  expect_refused(tiny_run() + Overrides{"model.num_query_groups=3", "train.global_batch_size=5",
                                        "optimizer.min_lr=1"},
                 AllOf(HasSubstr("num_query_groups"), HasSubstr("train.global_batch_size: 5"),
                       HasSubstr("min_lr")));
  expect_refused(tiny_run() + Overrides{"model.hf_config=" + data("golden/llama/model"),
                                        "model.seq_length=200", "dataset.blend=[a]"},
                 AllOf(HasSubstr("200 is longer than"), HasSubstr("dataset.mock=true")));
}

TEST(TrainCommand, AVocabularyTooSmallForTheData) {
  expect_refused(tiny_run() + Overrides{"dataset.mock=false",
                                        "dataset.blend=[" + data("sample_index/corpus_a") + "]",
                                        "model.vocab_size=20"},
                 AllOf(HasSubstr("corpus_a"), HasSubstr("20")));
  expect_refused(tiny_run() + Overrides{"tokenizer.tokenizer_model=" + data("tokenizer/gpt2")},
                 AllOf(HasSubstr("vocabulary of "), HasSubstr("64")));
}

TEST(TrainCommand, ARowLongerThanThePositions) {
  expect_refused(tiny_run("gpt2") + Overrides{"model.max_position_embeddings=16"},
                 AllOf(HasSubstr("32"), HasSubstr("16")));
  expect_refused({"checkpoint.pretrained_checkpoint=" + data("golden/llama/model"),
                  "dataset.mock=true", "model.seq_length=129"},
                 AllOf(HasSubstr("129"), HasSubstr("128")));
}

TEST(TrainCommand, BatchesThatDoNotDivide) {
  expect_refused(tiny_run() + Overrides{"train.global_batch_size=5"},
                 AllOf(HasSubstr("5 is not divisible"), HasSubstr("2")));
}

TEST(TrainCommand, AFileIsNoSaveFolder) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "run", "text");
  const Result result =
      train(tiny_run() + Overrides{"checkpoint.save=" + (folder / "run").string()});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("run is a file; expected a folder of this run"));
  const Result below =
      train(tiny_run() + Overrides{"checkpoint.save=" + (folder / "run" / "first").string()});
  EXPECT_EQ(below.status, 2);
  EXPECT_THAT(below.err, HasSubstr("error: checkpoint.save: " + (folder / "run").string() +
                                   " is a file; expected a folder"));
  std::filesystem::create_symlink(folder / "nothing", folder / "link");
  const Result led = train(tiny_run() + Overrides{"checkpoint.save=" + (folder / "link").string()});
  EXPECT_EQ(led.status, 2);
  EXPECT_THAT(led.err, HasSubstr("link is a link to nothing; expected a folder"));
  const Result empty = train(tiny_run() + Overrides{"checkpoint.save=\"\""});
  EXPECT_EQ(empty.status, 2);
  EXPECT_THAT(empty.err, HasSubstr("checkpoint.save: \"\" is no folder"));
}

TEST(TrainCommand, DataThatAreMissing) {
  expect_refused(tiny_run() + Overrides{"dataset.mock=false"}, HasSubstr("dataset.blend"));
  expect_refused(tiny_run() + Overrides{"dataset.mock=false", "dataset.blend=[/nowhere/text]"},
                 HasSubstr("dataset.blend: no data set /nowhere/text"));
  // A dry run goes on, for the data may be on another machine.
  const Result dry = train(
      tiny_run() + Overrides{"dataset.mock=false", "dataset.blend=[/nowhere/text]", "--dry-run"});
  EXPECT_EQ(dry.status, 0);
  EXPECT_THAT(dry.err, HasSubstr("would be refused: dataset.blend: no data set /nowhere/text"));
}

TEST(TrainCommand, LayoutsThatDoNotFitAreRefusedWithWhatWould) {
  expect_refused(
      tiny_run() + Overrides{"dist.ranks=6", "model.tensor_model_parallel_size=4",
                             "model.virtual_pipeline_model_parallel_size=2",
                             "model.cp_comm_type=[p2p]", "ddp.average_in_collective=true"},
      AllOf(HasSubstr("dist.ranks: 6 is not divisible"), HasSubstr("nearest: 4 or 8"),
            HasSubstr("needs pipeline_model_parallel_size of at least 2"),
            HasSubstr("1 entry for num_layers = 2"), HasSubstr("average_in_collective")));
}

// Groups, layers and bytes of a run with more ranks than this machine has.
TEST(TrainCommand, DryRunOfManyRanks) {
  const Overrides run = tiny_run() + Overrides{"dist.ranks=64",
                                               "model.tensor_model_parallel_size=2",
                                               "model.pipeline_model_parallel_size=2",
                                               "dist.nvlink_domain_size=12",
                                               "train.global_batch_size=64",
                                               "--dry-run"};
  const Result text = train(run + Overrides{"--full"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("stage 1: block 1, head"), HasSubstr("{0, 1} in 0"),
                              HasSubstr("straddle domains of 12"), HasSubstr("dp_cp.inner")));
  const Result json = train(run + Overrides{"--json"});
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["layers"].size(), 2u);
  EXPECT_EQ(document["stages"][1]["rank"], 32);
  int64_t sent = 0;
  for (const auto& traffic : document["stages"][0]["traffic"]) {
    if (traffic["group"] == "pp" && traffic["operation"] == "send")
      sent += traffic["wire_bytes"].get<int64_t>();
  }
  // Two micro-batches of 2 · 32 tokens, half of them on each tensor rank, width 32, FP32.
  EXPECT_EQ(sent, 2 * 32 * 32 * 4);
}

TEST(TrainCommand, TheDryRunKnowsTheStepsOfARunInRows) {
  Overrides run = tiny_run();
  std::erase(run, "train.train_iters=20");
  run = run + Overrides{"train.train_samples=47", "train.global_batch_size=8",
                        "train.rampup_batch_size=[2,2,24]", "--dry-run"};
  const Result text = train(run);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("10 steps of rows: 2 from step 1, 4 from step 5, 6 from step 7, "
                                  "8 from step 9; 44 rows in total"));
  const auto document = nlohmann::json::parse(train(run + Overrides{"--json"}).out);
  EXPECT_EQ(document["steps"], 10);
  EXPECT_EQ(document["samples"], 44);
  EXPECT_EQ(document["batches"][3]["first_step"], 9);
  EXPECT_EQ(document["batches"][3]["rows"], 8);
}

TEST(TrainCommand, ADryRunSaysWhatWasFoundWithoutWhatIsOff) {
  const std::string out = train(tiny_run() + Overrides{"--dry-run"}).out;
  EXPECT_THAT(out, HasSubstr("set:\n  model.family: llama\n"));
  EXPECT_THAT(out, HasSubstr("\n  model: "));
  EXPECT_THAT(out, HasSubstr("num_query_groups=4, kv_channels=8"));
  // Off; null; of latent attention, which the model does not have.
  for (const char* unused : {"qk_layernorm=", "num_moe_experts=", "kv_lora_rank="})
    EXPECT_THAT(out, Not(HasSubstr(unused)));
  EXPECT_LT(out.find("warning: checkpoint.save"), out.find("found, where"));
  EXPECT_THAT(train(tiny_run() + Overrides{"--dry-run", "--full"}).out,
              AllOf(HasSubstr("kv_lora_rank: 512"), Not(HasSubstr("found, where"))));
}

TEST(TrainCommand, WhatIsOffloadedIsPartOfTheDryRunAndOfTheRun) {
  const Overrides run = tiny_run() + Overrides{"train.train_iters=2", "model.cpu_offloading=true",
                                               "model.cpu_offloading_num_layers=2"};
  const auto document = nlohmann::json::parse(train(run + Overrides{"--dry-run", "--json"}).out);
  const auto& second = document["stages"][0]["second_memory"];
  // Two micro-batches of two layers: streams and heads of 64 × 32, a feed-forward of 64 × 64.
  EXPECT_EQ(second["bytes_out"], 2 * 2 * 4 * (8 * 64 * 32 + 3 * 64 * 64));
  EXPECT_EQ(second["bytes_back"], second["bytes_out"]);
  EXPECT_GT(second["most_bytes"], second["bytes_out"].get<int64_t>() / 2 - 1);
  const auto plain =
      nlohmann::json::parse(train(tiny_run() + Overrides{"--dry-run", "--json"}).out);
  EXPECT_EQ(document["without_recompute_and_offload"]["peak_memory_bytes"],
            plain["peak_memory_bytes"]);
  EXPECT_FALSE(plain.contains("without_recompute_and_offload"));
  EXPECT_THAT(train(run + Overrides{"--dry-run", "--full"}).out,
              HasSubstr("second memory, beside it: 448.0 KiB out and 448.0 KiB back a step"));
  const Result outcome = train(run);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(
      outcome.err + outcome.out,
      AllOf(HasSubstr("second memory (host memory): 448.0 KiB out"), HasSubstr("; measured "),
            HasSubstr("second memory: 896.0 KiB out and 896.0 KiB back; steps of ")));
}

TEST(TrainCommand, WhatIsNotBuiltYetSaysSo) {
  for (const char* setting : {"dataset.dataset_root=/tmp", "logger.log_energy=true"}) {
    const std::string name(setting, std::string_view(setting).find('='));
    expect_refused(tiny_run() + Overrides{setting},
                   AllOf(HasSubstr(name), HasSubstr("not implemented yet")));
  }
}

TEST(TrainCommand, TheCudaDeviceNeedsItsLibrary) {
  expect_refused(tiny_run() + Overrides{"dist.device=cuda"},
                 AllOf(HasSubstr("dist.device=cuda: libviaduct_cuda.so cannot be loaded"),
                       HasSubstr("/nowhere/libviaduct_cuda.so"), HasSubstr("cmake --preset cuda")),
                 {"VIADUCT_CUDA_LIBRARY=/nowhere/libviaduct_cuda.so"});
}

TEST(TrainCommand, LaunchersAreRefused) {
  expect_refused(tiny_run() + Overrides{"train.global_batch_size=8"},
                 HasSubstr("mpirun -n 4 viaduct train"),
                 {"RANK=0", "WORLD_SIZE=4", "LOCAL_RANK=0", "MASTER_ADDR=localhost"});
}

}  // namespace
}  // namespace viaduct
