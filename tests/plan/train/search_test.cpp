// The search for a layout: its bounds against dry runs, its best against all layouts.

#include "plan/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/output_file.h"
#include "plan/layout_space.h"
#include "plan/model_cost.h"
#include "plan/reasons.h"
#include "plan/search_limits.h"
#include "plan/written_config.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// A model of about a billion parameters on 8 ranks.
PlanRequest request_of(const Overrides& overrides, const std::string& cluster = "dgx-h100") {
  return {
      .overrides = Overrides{"model.family=llama", "model.num_layers=8", "model.hidden_size=2048",
                             "model.num_attention_heads=16", "model.ffn_hidden_size=8192",
                             "model.vocab_size=32000", "model.seq_length=2048",
                             "model.max_position_embeddings=2048", "mixed_precision=bf16_mixed",
                             "train.global_batch_size=16", "dist.ranks=8"} +
                   overrides,
      .cluster = load_cluster(cluster)};
}

/// Every n-th layout of a request with its bounds and its prediction.
struct Sampled {
  Layout layout;
  LowerBound whole, bound;
  Prediction prediction;
};

std::vector<Sampled> sample(const PlanRequest& request, size_t every) {
  LayerCosts costs(request);
  const SearchLimits limits = search_limits(request, costs.whole());
  const ModelCost model = model_cost(request, limits, costs);
  const LayoutBound bound(model, request.cluster, request.prediction.collectives);
  std::vector<Sampled> sampled;
  const auto layouts = enumerate_layouts(limits.space);
  for (size_t i = 0; i < layouts.size(); i += every) {
    try {
      const RunSetup setup = setup_of_layout(request, layouts[i]);
      sampled.push_back({layouts[i], model_bound(model, layouts[i]),
                         bound.of(costs.of(layouts[i]), layouts[i]),
                         predict(setup, request.cluster)});
    } catch (const ConfigError&) {
    }
  }
  return sampled;
}

double peak_of(const Prediction& prediction) {
  int64_t peak = 0;
  for (const StagePrediction& stage : prediction.stages)
    peak = std::max(peak, stage.run.peak.bytes);
  return static_cast<double>(peak);
}

class Bounds : public testing::TestWithParam<Overrides> {};

TEST_P(Bounds, AreNeverAboveTheDryRun) {
  const auto sampled = sample(request_of(GetParam()), 7);
  ASSERT_GT(sampled.size(), 20u);
  double time_share = 0, memory_share = 0;
  for (const Sampled& s : sampled) {
    SCOPED_TRACE(describe(s.layout));
    EXPECT_LE(s.whole.bytes, peak_of(s.prediction));
    EXPECT_LE(s.bound.bytes, peak_of(s.prediction));
    EXPECT_LE(s.whole.seconds, s.prediction.step_seconds);
    EXPECT_LE(s.bound.seconds, s.prediction.step_seconds);
    EXPECT_GE(s.bound.seconds, s.whole.seconds);
    EXPECT_GE(s.bound.bytes, s.whole.bytes);
    time_share += s.bound.seconds / s.prediction.step_seconds;
    memory_share += s.bound.bytes / peak_of(s.prediction);
  }
  // Near enough to prune with.
  const auto count = static_cast<double>(sampled.size());
  EXPECT_GT(time_share / count, 0.75);
  EXPECT_GT(memory_share / count, 0.75);
}

INSTANTIATE_TEST_SUITE_P(
    Search, Bounds,
    testing::Values(Overrides{}, Overrides{"mixed_precision=fp32"},
                    Overrides{"model.share_embeddings_and_output_weights=true"},
                    Overrides{"optimizer.use_precision_aware_optimizer=true",
                              "optimizer.exp_avg_dtype=bf16", "optimizer.exp_avg_sq_dtype=bf16"},
                    Overrides{"model.pipeline_schedule=gpipe"}));

TEST(Search, FindsTheFastestOfAllLayouts) {
  // All layouts of a small space, one by one.
  const PlanRequest request =
      request_of({"dist.ranks=4", "train.global_batch_size=8", "model.context_parallel_size=1",
                  "ddp.use_distributed_optimizer=true"});
  const SearchResult result =
      search_layouts(request, {.time_limit_seconds = 600, .least_candidates = 1});
  EXPECT_TRUE(result.complete);
  EXPECT_TRUE(result.refused.empty());
  ASSERT_FALSE(result.candidates.empty());
  double best = 1e9;
  for (const Sampled& s : sample(request, 1))
    if (s.prediction.fits) best = std::min(best, s.prediction.step_seconds);
  EXPECT_DOUBLE_EQ(result.candidates.front().prediction.step_seconds, best);
  // And it did not have to predict all of them.
  EXPECT_LT(result.dry_runs, result.layouts / 2);
  EXPECT_GT(result.left, 0);
}

TEST(Search, WhatDoesNotFitIsRejectedByTheBytesOfItsDryRun) {
  // 16 layers of 8192 do not fit on one GPU unsharded.
  const PlanRequest request =
      request_of({"model.num_layers=16", "model.hidden_size=8192", "model.num_attention_heads=64",
                  "model.ffn_hidden_size=28672"});
  const SearchSettings settings{.time_limit_seconds = 600};
  const SearchResult result = search_layouts(request, settings);
  ASSERT_FALSE(result.candidates.empty());
  for (const Candidate& c : result.candidates) EXPECT_GT(c.slack_bytes(), 0);
  const auto misses = near_misses(result);
  ASSERT_FALSE(misses.empty());
  for (const NearMiss& miss : misses) {
    ASSERT_TRUE(miss.rejected.exact_bytes);
    double peak = 0;
    for (const DryRun& stage : dry_run_stages(setup_of_layout(request, miss.rejected.layout)))
      peak = std::max(peak, static_cast<double>(stage.peak.bytes));
    EXPECT_EQ(miss.rejected.bytes, peak);
    EXPECT_EQ(miss.excess_bytes, peak - result.capacity_bytes);
    EXPECT_GT(miss.excess_bytes, 0);
    ASSERT_TRUE(miss.rejected.neighbor.has_value());
    const Layout& neighbor = *miss.rejected.neighbor;
    EXPECT_EQ(differences(miss.rejected.layout, neighbor).size(), 1u);
    for (const DryRun& stage : dry_run_stages(setup_of_layout(request, neighbor)))
      EXPECT_LE(static_cast<double>(stage.peak.bytes), result.capacity_bytes);
    EXPECT_THAT(text_of(miss), testing::HasSubstr("It fits with "));
  }
}

TEST(Search, OverridesFixChoices) {
  const SearchResult result = search_layouts(
      request_of({"model.tensor_model_parallel_size=2", "model.recompute_granularity=full",
                  "model.recompute_method=uniform", "model.recompute_num_layers=2"}),
      {.time_limit_seconds = 600});
  ASSERT_FALSE(result.candidates.empty());
  for (const Candidate& c : result.candidates) {
    EXPECT_EQ(c.layout.tp, 2);
    EXPECT_EQ(c.layout.recompute, Recompute::given);
  }
}

TEST(Search, PartsOfAStepAddUpAndReasonsNameTheLosses) {
  const SearchSettings settings{.time_limit_seconds = 600};
  const SearchResult result = search_layouts(request_of({}), settings);
  ASSERT_GE(result.candidates.size(), 5u);
  for (const Candidate& c : result.candidates) {
    double sum = 0;
    for (const auto& [name, seconds] : step_parts(c.prediction)) sum += seconds;
    EXPECT_NEAR(sum, c.prediction.step_seconds, 0.01 * c.prediction.step_seconds);
  }
  EXPECT_THAT(reasons_of(result, 0, settings).front(), testing::HasSubstr("compute"));
  EXPECT_THAT(reasons_of(result, 1, settings).front(), testing::HasSubstr("slower than the best"));
  EXPECT_TRUE(on_pareto_front(result, result.candidates.front()));
  EXPECT_TRUE(ties_with_best(result, result.candidates.front(), 0));
}

TEST(Search, ATimeLimitIsSaid) {
  const SearchResult result = search_layouts(request_of({}), {.time_limit_seconds = 1e-9});
  EXPECT_FALSE(result.complete);
  EXPECT_TRUE(result.candidates.empty());
  EXPECT_GT(result.left, 0);
  EXPECT_GT(result.next_bound, 0);
}

TEST(Search, SizesThatNothingDividesAreAnError) {
  EXPECT_THROW(search_layouts(request_of({"model.tensor_model_parallel_size=3"})), ConfigError);
}

TEST(Search, TheWrittenConfigurationIsTheLayout) {
  const PlanRequest request = request_of({});
  const SearchResult result = search_layouts(request, {.time_limit_seconds = 600});
  ASSERT_FALSE(result.candidates.empty());
  const Candidate& best = result.candidates.front();
  TemporaryFolder folder;
  const auto file = folder.path() / "best.yaml";
  write_file_atomically(file, written_config(request, best.layout, {"a comment"}));
  RunConfig defaults;
  defaults.cuda_target = request.cluster.gpu.architecture;
  const RunSetup read = prepare_run(load_run_config(file, {}, defaults));
  const Prediction again = predict(read, request.cluster);
  EXPECT_DOUBLE_EQ(again.step_seconds, best.prediction.step_seconds);
  EXPECT_EQ(static_cast<int64_t>(peak_of(again)), best.peak_bytes());
}

}  // namespace
}  // namespace viaduct
