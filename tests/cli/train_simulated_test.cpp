// viaduct train with dist.device=sim: steps in virtual time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "support/command.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::string kModel =
    "model.family=llama model.num_layers=4 model.hidden_size=256 model.num_attention_heads=4 "
    "model.vocab_size=1024 model.seq_length=512 model.pipeline_model_parallel_size=2 "
    "dist.ranks=16 train.global_batch_size=32 train.micro_batch_size=1 logger.log_interval=1 ";
const std::string kSim = "train dist.device=sim " + kModel;

std::vector<json> lines_of(const std::filesystem::path& file) {
  std::vector<json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(TrainSimulated, StepsHaveThePlannersTimesAndNoLoss) {
  const test::TemporaryFolder folder;
  const auto save = folder.path() / "run";
  const auto run =
      test::run_viaduct(kSim + "dist.cluster=dgx-h100 checkpoint.save=" + save.string());
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("3 steps on 16"), HasSubstr("in virtual time")));
  const auto lines = lines_of(save / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  const auto plan =
      test::run_viaduct("plan --json --rule-seconds 1e-9 --cluster dgx-h100 " + kModel);
  ASSERT_EQ(plan.status, 0) << plan.err;
  const json predicted = json::parse(plan.out)["predicted"];
  for (size_t i = 0; i < 3; ++i) {
    const json& line = lines[i];
    EXPECT_EQ(line["step"], i + 1);
    EXPECT_EQ(line["simulated"], true);
    EXPECT_TRUE(line["loss"].is_null());
    EXPECT_TRUE(line["grad_norm"].is_null());
    EXPECT_EQ(line["samples"], 32 * (i + 1));
    EXPECT_EQ(line["step_seconds"], predicted["step_seconds"]);
    EXPECT_NEAR(line["tokens_per_second"].get<double>() / 16,
                predicted["tokens_per_second_per_gpu"].get<double>(), 1e-3);
    EXPECT_NEAR(line["mfu"].get<double>(), predicted["mfu"].get<double>(), 1e-9);
    EXPECT_EQ(line["peak_memory_bytes"],
              std::max(predicted["peak_memory_bytes"][0].get<int64_t>(),
                       predicted["peak_memory_bytes"][1].get<int64_t>()));
  }
  EXPECT_TRUE(std::filesystem::exists(save / "config.yaml"));
  EXPECT_FALSE(std::filesystem::exists(save / "latest"));
}

TEST(TrainSimulated, ARampOfTheBatchHasStepsOfEachSize) {
  const test::TemporaryFolder folder;
  const auto save = folder.path() / "run";
  const auto run = test::run_viaduct(kSim +
                                     "dist.cluster=dgx-a100 train.train_iters=4 "
                                     "train.rampup_batch_size=[16,16,32] checkpoint.save=" +
                                     save.string());
  ASSERT_EQ(run.status, 0) << run.err;
  const auto lines = lines_of(save / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0]["global_batch_size"], 16);
  EXPECT_EQ(lines[3]["global_batch_size"], 32);
  EXPECT_LT(lines[0]["step_seconds"], lines[3]["step_seconds"]);
}

TEST(TrainSimulated, ClustersAreCheckedAndWhatDoesNothingIsSaid) {
  const auto refused = [](const std::string& options, const char* text) {
    const auto run = test::run_viaduct(options);
    EXPECT_EQ(run.status, 2) << run.out;
    EXPECT_THAT(run.err, HasSubstr(text));
  };
  refused(kSim, "sim needs dist.cluster");
  refused(kSim + "dist.cluster=dgx-h10", "did you mean dgx-h100?");
  const auto run = test::run_viaduct(kSim + "dist.cluster=cpu rng.seed=5 train.train_iters=1");
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("rng.seed has no effect here: dist.device = sim"));
  const auto dry = test::run_viaduct("train --dry-run dist.cluster=dgx-h100 " + kModel);
  ASSERT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.out + dry.err, HasSubstr("dist.cluster has no effect here: dist.device = cpu"));
}

TEST(TrainSimulated, AFolderWithCheckpointsIsLeftAlone) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "latest") << "step_00000010\n";
  const auto run =
      test::run_viaduct(kSim + "dist.cluster=dgx-h100 checkpoint.save=" + folder.path().string());
  EXPECT_EQ(run.status, 2) << run.out;
  EXPECT_THAT(run.err, HasSubstr("holds checkpoints"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "metrics.jsonl"));
}

}  // namespace
}  // namespace viaduct
