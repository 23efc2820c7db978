// The search over layouts of both modules: an encoder or a vision tower on the decoder's first
// stage or on stages of its own, with tensor ranks of their own.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/output_file.h"
#include "plan/search.h"
#include "plan/written_config.h"
#include "support/layout_samples.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

using namespace test;

const SearchSettings kLong{.time_limit_seconds = 600};
const std::string kStages = "model.encoder_pipeline_model_parallel_size=",
                  kTensor = "model.encoder_tensor_model_parallel_size=";

/// T5 with as many layers in the encoder, on rows of 512 tokens.
PlanRequest t5_request(const Overrides& overrides) {
  return request_of(Overrides{"model.family=t5", "model.encoder_num_layers=8",
                              "model.encoder_seq_length=512", "model.seq_length=512",
                              "model.context_parallel_size=1"} +
                    overrides);
}

/// Those whose encoder has stages of its own, and how near their closest bounds are to the step.
double share_of_own_stages(const std::vector<Sampled>& sampled) {
  double share = 0, count = 0;
  std::set<int> stages;
  for (const Sampled& s : sampled) {
    if (s.layout.encoder_stages == 0) continue;
    stages.insert(s.layout.encoder_stages);
    share += s.bounds.back().seconds / s.prediction.step_seconds, ++count;
  }
  EXPECT_GT(stages.size(), 1u);
  return share / count;
}

TEST(EncoderSearch, BoundsAreNeverAboveTheDryRun) {
  const auto sampled = sample(t5_request({"train.micro_batch_size=1"}), 13);
  expect_bounds_below(sampled);
  EXPECT_GT(share_of_own_stages(sampled), 0.4);
}

// Beside adapters of the decoder alone the encoder has no backward.
TEST(EncoderSearch, BoundsOfAFrozenEncoderAreNeverAboveTheDryRun) {
  const auto sampled = sample(t5_request({"train.micro_batch_size=1", "peft.scheme=lora",
                                          "peft.dim=8", "peft.target_modules=[decoder.*]"}),
                              23);
  expect_bounds_below(sampled);
  EXPECT_GT(share_of_own_stages(sampled), 0.4);
}

TEST(EncoderSearch, BoundsOfTowersAreNeverAboveTheDryRun) {
  const TemporaryFolder folder;
  for (const bool frozen : {false, true}) {
    SCOPED_TRACE(frozen);
    const auto sampled =
        sample(request_of({folder_with_tower(folder.path() / "llava", {.blocks = 7}),
                           "train.global_batch_size=12", "train.micro_batch_size=1",
                           "model.context_parallel_size=1",
                           fmt::format("model.freeze_vision_model={}", frozen)}),
               7);
    expect_bounds_below(sampled);
    EXPECT_GT(share_of_own_stages(sampled), 0.4);
  }
}

TEST(EncoderSearch, FindsTheFastestOfAllLayouts) {
  const PlanRequest request =
      t5_request({"dist.ranks=4", "train.global_batch_size=8", "train.micro_batch_size=1",
                  "ddp.use_distributed_optimizer=true", "model.recompute_granularity=null"});
  std::vector<double> all;
  for (const Sampled& s : sample(request, 1))
    if (s.prediction.fits) all.push_back(s.prediction.step_seconds);
  std::sort(all.begin(), all.end());
  const SearchResult result = search_layouts(request, {.time_limit_seconds = 600, .rows = 3});
  EXPECT_TRUE(result.complete);
  EXPECT_TRUE(result.refused.empty());  // virtual stages behind an encoder's own among them
  ASSERT_GE(result.proven, 3);
  for (size_t row = 0; row < static_cast<size_t>(result.proven); ++row)
    EXPECT_DOUBLE_EQ(result.candidates[row].prediction.step_seconds, all[row]) << row;
  EXPECT_LT(result.dry_runs, result.layouts);
}

// Three ranks, and a batch that they do not divide: a tower of a quarter of the work beside a third
// of the layers makes a stage that the others wait for.
TEST(EncoderSearch, StagesOfItsOwnWinWhereTheFirstStageWouldBeTheLongest) {
  const TemporaryFolder folder;
  const Overrides three{folder_with_tower(folder.path() / "llava", {.blocks = 36}),
                        "model.num_layers=12",
                        "dist.ranks=3",
                        "train.global_batch_size=16",
                        "model.context_parallel_size=1",
                        "train.micro_batch_size=1",
                        "model.recompute_granularity=null"};
  const PlanRequest request = request_of(three);
  const SearchResult result = search_layouts(request, kLong);
  ASSERT_FALSE(result.candidates.empty());
  const Candidate& best = result.candidates.front();
  EXPECT_EQ(best.layout.encoder_stages, 1);
  EXPECT_EQ(best.layout.encoder_tp, 1);
  EXPECT_EQ(best.layout.pp, 2);
  EXPECT_THAT(describe(best.layout), testing::HasSubstr("dp 1 · encoder pp 1 · encoder tp 1, "));
  const SearchResult shared = search_layouts(request_of(three + Overrides{kStages + "0"}), kLong);
  ASSERT_FALSE(shared.candidates.empty());
  EXPECT_GT(shared.candidates.front().prediction.step_seconds, 1.1 * best.prediction.step_seconds);
  // The winner as a configuration has both fields, and is predicted the same.
  const auto file = folder.path() / "best.yaml";
  write_file_atomically(file, written_config(request, best.layout, {}));
  RunConfig defaults;
  defaults.cuda_target = request.cluster.gpu.architecture;
  const RunSetup read = prepare_run(load_run_config(file, {}, defaults));
  EXPECT_EQ(read.config.parallel.encoder_pipeline_model_parallel_size, 1);
  EXPECT_EQ(read.config.parallel.encoder_tensor_model_parallel_size, 1);
  EXPECT_DOUBLE_EQ(predict(read, request.cluster).step_seconds, best.prediction.step_seconds);
}

// Their bounds are lower than those of layouts with the encoder on the first stage, which are
// nearer to their times: these make the first rows where the time is short.
TEST(EncoderSearch, BeginsWithTheEncoderOnTheFirstStage) {
  const PlanRequest request =
      t5_request({"dist.ranks=3", "model.num_layers=6", "model.encoder_num_layers=6",
                  "train.global_batch_size=6", "train.micro_batch_size=1"});
  const SearchResult result =
      search_layouts(request, {.time_limit_seconds = 1e-6, .first_row_seconds = 600, .threads = 1});
  ASSERT_FALSE(result.candidates.empty());
  for (const Candidate& c : result.candidates) EXPECT_EQ(c.layout.encoder_stages, 0);
  EXPECT_GT(result.left, 0u);
}

// A layout that is written out has as many chunks a rank as it says.
TEST(EncoderSearch, StagesThatAreWrittenOutHaveTheirChunks) {
  const SearchResult result = search_layouts(
      t5_request({"dist.ranks=4", "train.global_batch_size=8", "train.micro_batch_size=1",
                  "model.pipeline_model_parallel_layout='Ettt|tt|tt|tL'"}),
      kLong);
  ASSERT_FALSE(result.candidates.empty());
  std::set<std::pair<int, int>> found;  // stages, chunks of each
  for (const Candidate& c : result.candidates) found.emplace(c.layout.pp, c.layout.vpp);
  EXPECT_EQ(found, (std::set<std::pair<int, int>>{{2, 2}, {4, 1}}));
}

TEST(EncoderSearch, OverridesFixItsStagesAndTensorRanks) {
  const TemporaryFolder folder;
  const SearchResult result =
      search_layouts(request_of({folder_with_tower(folder.path() / "gemma", {.gemma = true}),
                                 "model.family=gemma3_text", "dist.ranks=4",
                                 "model.tensor_model_parallel_size=2", kStages + "2", kTensor + "1",
                                 "train.micro_batch_size=1", "model.context_parallel_size=1"}),
                     kLong);
  ASSERT_FALSE(result.candidates.empty());
  for (const Candidate& c : result.candidates) {
    EXPECT_EQ(c.layout.encoder_stages, 2);
    EXPECT_EQ(c.layout.encoder_tp, 1);
    EXPECT_EQ(c.layout.tp, 2);
  }
}

}  // namespace
}  // namespace viaduct
