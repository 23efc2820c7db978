// The search for a layout: its bounds compared with dry runs, and its best layout with all layouts.

#include "plan/search.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/output_file.h"
#include "plan/largest.h"
#include "plan/layout_space.h"
#include "plan/reasons.h"
#include "plan/search_space.h"
#include "plan/variants.h"
#include "plan/written_config.h"
#include "support/layout_samples.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

class Bounds : public testing::TestWithParam<Overrides> {};

TEST_P(Bounds, AreNeverAboveTheDryRun) {
  const auto sampled = sample(request_of(GetParam()), 7);
  ASSERT_GT(sampled.size(), 20u);
  double time_share = 0, memory_share = 0;
  for (const Sampled& s : sampled) {
    SCOPED_TRACE(describe(s.layout));
    for (size_t basis = 0; basis < s.bounds.size(); ++basis) {
      EXPECT_LE(s.bounds[basis].bytes, peak_of(s.prediction)) << basis;
      EXPECT_LE(s.bounds[basis].seconds, s.prediction.step_seconds) << basis;
    }
    const LowerBound &whole = s.bounds.front(), &closest = s.bounds.back();
    EXPECT_GE(closest.seconds, whole.seconds);
    EXPECT_GE(closest.bytes, whole.bytes);
    time_share += closest.seconds / s.prediction.step_seconds;
    memory_share += closest.bytes / peak_of(s.prediction);
  }
  // Bounds are close enough to prune.
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
                    Overrides{"model.pipeline_schedule=gpipe"}, Overrides{"model.num_layers=11"},
                    Overrides{"peft.scheme=lora"}));

/// Models whose layers differ.
class BoundsOfSomeLayers : public testing::TestWithParam<Overrides> {};

TEST_P(BoundsOfSomeLayers, AreNeverAboveTheDryRunAndPrune) {
  const auto sampled = sample(request_of(GetParam()), 29);
  expect_bounds_below(sampled);
  double of_model = 0, closest = 0;
  for (const Sampled& s : sampled) {
    of_model += s.bounds.front().seconds / s.prediction.step_seconds;
    closest += s.bounds.back().seconds / s.prediction.step_seconds;
  }
  const auto count = static_cast<double>(sampled.size());
  EXPECT_GT(closest / count, 0.5);
  EXPECT_GT(closest / count, of_model / count + 0.05);
}

const Overrides kSomeExperts{"model.family=qwen3_moe",   "model.hidden_size=1024",
                             "model.num_query_groups=4", "model.moe_ffn_hidden_size=2048",
                             "model.num_moe_experts=8",  "model.moe_router_topk=2",
                             "model.num_layers=4"};

INSTANTIATE_TEST_SUITE_P(
    Search, BoundsOfSomeLayers,
    testing::Values(
        Overrides{"mixed_precision=bf16_with_fp8_current_scaling_mixed"},
        Overrides{"model.window_size=256", "model.window_layers=[0, 1, 0, 1, 0, 1, 0, 1]"},
        Overrides{"model.window_size=1024", "model.window_layers=[0, 0, 0, 1, 0, 0, 0, 1]"},
        kSomeExperts + Overrides{"model.moe_layer_freq=[0, 1, 1, 1]"},
        kSomeExperts + Overrides{"model.mtp_num_layers=1"}));

TEST(Search, ARecipeWithoutProductsOnTheGpuIsNamed) {
  const Overrides mx{"mixed_precision=bf16_with_mxfp8_mixed", "dist.ranks=2",
                     "train.global_batch_size=2"};
  EXPECT_THAT([&] { search_layouts(request_of(mx)); },
              testing::ThrowsMessage<ConfigError>(testing::AllOf(
                  testing::HasSubstr("mixed_precision.fp8_recipe (MXFP8)"),
                  testing::HasSubstr("cuda:sm_90a has no products of MXFP8 operands"))));
  EXPECT_FALSE(
      search_layouts(request_of(mx, "dgx-b200"), {.time_limit_seconds = 600}).candidates.empty());
}

// 11 layers: 4 stages have 2, 4, 3 and 2 of them.
TEST(Search, StagesMayBeUneven) {
  const PlanRequest request = request_of(
      {"model.num_layers=11", "model.pipeline_model_parallel_size=4",
       "model.virtual_pipeline_model_parallel_size=1", "model.tensor_model_parallel_size=1"});
  const SearchResult result = search_layouts(request, {.time_limit_seconds = 600});
  ASSERT_FALSE(result.candidates.empty());
  EXPECT_TRUE(result.refused.empty());
  const Layout& best = result.candidates.front().layout;
  EXPECT_EQ(best.pp, 4);
  EXPECT_THAT(describe(best), testing::HasSubstr("stages Ett|t*4|ttt|ttL"));
}

TEST(Search, FindsTheFastestOfAllLayouts) {
  // All layouts of a small space, one by one.
  const PlanRequest request =
      request_of({"dist.ranks=4", "train.global_batch_size=8", "model.context_parallel_size=1",
                  "ddp.use_distributed_optimizer=true"});
  std::vector<double> all;
  for (const Sampled& s : sample(request, 1))
    if (s.prediction.fits) all.push_back(s.prediction.step_seconds);
  std::sort(all.begin(), all.end());
  int64_t dry_runs = 0;
  for (const int rows : {1, 7}) {
    SCOPED_TRACE(rows);
    const SearchResult result = search_layouts(request, {.time_limit_seconds = 600, .rows = rows});
    EXPECT_TRUE(result.complete);
    EXPECT_TRUE(result.refused.empty());
    EXPECT_TRUE(result.given_up.empty());
    EXPECT_GE(result.proven, rows);
    for (size_t row = 0; row < static_cast<size_t>(result.proven); ++row)
      EXPECT_DOUBLE_EQ(result.candidates[row].prediction.step_seconds, all[row]) << row;
    // The search did not have to predict all of them.
    EXPECT_LT(result.dry_runs, result.layouts / 2);
    EXPECT_GT(result.left, 0);
    EXPECT_GE(result.dry_runs, dry_runs);
    dry_runs = result.dry_runs;
  }
}

/// Four layers of eight experts.
PlanRequest expert_request(const Overrides& overrides) {
  return request_of(Overrides{"model.family=mixtral", "model.num_layers=4",
                              "model.hidden_size=1024", "model.num_attention_heads=16",
                              "model.num_query_groups=4", "model.ffn_hidden_size=4096",
                              "model.num_moe_experts=8", "model.moe_router_topk=2"} +
                    overrides);
}

// What runs once a step, such as clearing the gradient of a large table, is not each micro-batch's.
TEST(Search, BoundsOfManyMicroBatchesAreNeverAboveTheDryRun) {
  expect_bounds_below(
      sample(request_of({"train.global_batch_size=256", "model.vocab_size=128256",
                         "model.pipeline_model_parallel_size=1", "train.micro_batch_size=1"}),
             3));
}

TEST(Search, BoundsOfExpertsAreNeverAboveTheDryRun) {
  expect_bounds_below(
      sample(expert_request({"model.context_parallel_size=1", "train.global_batch_size=8"}), 23));
}

// Over a network, on which gradients and weights take longer than what hides them.
TEST(Search, BoundsOfExpertsOnSeveralDomainsAreNeverAboveTheDryRun) {
  const auto sampled = sample(expert_request({"model.context_parallel_size=1", "dist.ranks=32",
                                              "train.global_batch_size=32"}),
                              67);
  expect_bounds_below(sampled);
  // Fully sharded layouts wait for the network; near enough to prune with.
  double share = 0, count = 0;
  for (const Sampled& s : sampled) {
    if (s.layout.sharding != Sharding::full || s.layout.ep < 2) continue;
    share += s.bounds.back().seconds / s.prediction.step_seconds, ++count;
  }
  ASSERT_GT(count, 3);
  EXPECT_GT(share / count, 0.6);
}

TEST(Search, BoundsOfQuantizedProductsAreNeverAboveTheDryRun) {
  for (const char* recipe : {"delayed_scaling", "current_scaling", "subchannel_scaling"}) {
    SCOPED_TRACE(recipe);
    expect_bounds_below(
        sample(request_of({fmt::format("mixed_precision=bf16_with_fp8_{}_mixed", recipe)}), 11));
  }
}

// Frozen weights in FP8, DoRA with a head that trains, and adapters that differ between the layers.
TEST(Search, BoundsOfAdaptersAreNeverAboveTheDryRun) {
  const Overrides lora{"peft.scheme=lora", "peft.target_modules=[linear_qkv,linear_fc2]"};
  for (const Overrides& adapters :
       {lora + Overrides{"peft.base_format=fp8"},
        lora + Overrides{"peft.scheme=dora", "peft.train=[lm_head,norm]"},
        lora + Overrides{"peft.exclude_modules=['layers.[0-3].*']"}}) {
    SCOPED_TRACE(testing::PrintToString(adapters));
    expect_bounds_below(sample(request_of(adapters), 31));
  }
}

// The tower is on the first stage (of its own: encoder_search_test.cpp). Some of its weights never
// train, such as SigLIP's pooling head, which tensor ranks do not cut; or all of them, or those of
// the text.
TEST(Search, BoundsOfImagesAreNeverAboveTheDryRun) {
  const TemporaryFolder folder;
  const std::string llava = folder_with_tower(folder.path() / "llava");
  const std::string gemma = folder_with_tower(folder.path() / "gemma", {.gemma = true});
  for (const Overrides& images :
       {Overrides{llava}, Overrides{llava, "model.freeze_vision_model=true"},
        Overrides{llava, "model.freeze_language_model=true"},
        Overrides{gemma, "model.family=gemma3_text", "model.cp_comm_type=a2a"}}) {
    SCOPED_TRACE(testing::PrintToString(images));
    expect_bounds_below(
        sample(request_of(images + Overrides{"model.encoder_pipeline_model_parallel_size=0"}), 23));
  }
}

TEST(Search, FindsALayoutForAdapters) {
  // Weights alone: what all weights with their states do not fit into is enough.
  const Overrides large{"model.num_layers=64",
                        "model.hidden_size=8192",
                        "model.num_attention_heads=64",
                        "model.ffn_hidden_size=28672",
                        "model.pipeline_model_parallel_size=1",
                        "model.context_parallel_size=1",
                        "model.tensor_model_parallel_size=8",
                        "train.micro_batch_size=1"};
  const SearchResult all = search_layouts(request_of(large), {.time_limit_seconds = 600});
  const SearchResult adapters = search_layouts(request_of(large + Overrides{"peft.scheme=lora"}),
                                               {.time_limit_seconds = 600});
  EXPECT_TRUE(all.candidates.empty());
  EXPECT_FALSE(adapters.candidates.empty());
  EXPECT_TRUE(adapters.complete);
}

TEST(Search, BoundsOfOffloadedStatesAreNeverAboveTheDryRun) {
  for (const char* fraction : {"1", "0.5"}) {
    SCOPED_TRACE(fraction);
    expect_bounds_below(
        sample(request_of({"optimizer.optimizer_cpu_offload=true",
                           fmt::format("optimizer.optimizer_offload_fraction={}", fraction)}),
               11));
  }
}

TEST(Search, ExpertsAndVariantsAreSearchedToTheFastest) {
  PlanRequest request =
      expert_request({"dist.ranks=4", "train.global_batch_size=4", "model.context_parallel_size=1",
                      "model.pipeline_model_parallel_size=1", "train.micro_batch_size=1",
                      "model.recompute_granularity=null", "ddp.use_distributed_optimizer=true"});
  request.variants = variants_of({"model.moe_token_dispatcher_type=alltoall|allgather"});
  const SearchResult result = search_layouts(request, {.time_limit_seconds = 600, .rows = 1});
  EXPECT_TRUE(result.complete);
  ASSERT_FALSE(result.candidates.empty());
  double best = 1e9;
  for (const auto& variant : request.variants) {
    PlanRequest one = request;
    one.variants.clear();
    one.overrides.insert(one.overrides.end(), variant->overrides.begin(), variant->overrides.end());
    for (const Sampled& s : sample(one, 1))
      if (s.prediction.fits) best = std::min(best, s.prediction.step_seconds);
  }
  EXPECT_DOUBLE_EQ(result.candidates.front().prediction.step_seconds, best);
  EXPECT_TRUE(result.candidates.front().layout.variant);
  EXPECT_GT(result.candidates.front().layout.ep, 0);
}

TEST(Search, AVariantThatCannotBePlannedIsRefusedAndTheOthersAreSearched) {
  PlanRequest request = request_of({"dist.ranks=2", "train.global_batch_size=2"});
  request.variants = variants_of(
      {"model.attention_softmax_in_fp32=true", "mixed_precision.recipe=bf16_mixed|no_such_recipe"});
  const SearchResult result = search_layouts(request, {.time_limit_seconds = 600});
  EXPECT_FALSE(result.candidates.empty());
  ASSERT_FALSE(result.refused.empty());
  EXPECT_THAT(result.refused.begin()->first, testing::HasSubstr("no_such_recipe"));
  request.variants = {request.variants.back()};
  EXPECT_THROW(search_layouts(request), ConfigError);
}

TEST(Search, WeightsGatheredInFp8AreSearchedWithSharding) {
  const SearchResult result = search_layouts(
      request_of({"model.num_layers=2", "model.hidden_size=256", "model.num_attention_heads=4",
                  "model.ffn_hidden_size=512", "model.vocab_size=512", "model.seq_length=128",
                  "mixed_precision=bf16_with_fp8_current_scaling_mixed",
                  "mixed_precision.fp8_param_gather=true", "dist.ranks=2"},
                 "cpu"),
      {.time_limit_seconds = 600});
  EXPECT_TRUE(result.complete);
  ASSERT_FALSE(result.candidates.empty());
  for (const Candidate& c : result.candidates) EXPECT_NE(c.layout.sharding, Sharding::none);
}

// All layouts of the next size are considered.
void expect_largest(const Overrides& further) {
  const PlanRequest request =
      request_of(further + Overrides{"dist.ranks=2", "train.global_batch_size=2",
                                     "model.hidden_size=4096", "model.num_attention_heads=32",
                                     "model.ffn_hidden_size=14336", "train.micro_batch_size=1"});
  const LargestFit fit = largest_that_fits(request, LargestOf::layers, 600);
  EXPECT_TRUE(fit.proven);
  ASSERT_GT(fit.value, 0);
  EXPECT_EQ(fit.value % step_of(LargestOf::layers), 0);
  const auto peak = [&](int64_t value, const Layout& layout) {
    double most = 0;
    for (const DryRun& stage :
         dry_run_stages(setup_of_layout(with_value(request, LargestOf::layers, value), layout)))
      most = std::max(most, static_cast<double>(stage.peak.bytes));
    return most;
  };
  EXPECT_EQ(peak(fit.value, fit.layout), fit.bytes);
  EXPECT_LE(fit.bytes, fit.capacity_bytes);
  const int64_t next = fit.value + step_of(LargestOf::layers);
  const SearchSpace space(with_value(request, LargestOf::layers, next));
  for (const Layout& layout : space.layouts()) {
    try {
      EXPECT_GT(peak(next, layout), fit.capacity_bytes) << describe(layout);
    } catch (const ConfigError&) {
    }
  }
}

TEST(Largest, TheNextStepFitsInNoLayout) {
  expect_largest({});
}

// Bounds then leave out what layers keep, so that the dry runs decide.
TEST(Largest, TheNextStepFitsInNoLayoutWithOffloadedStates) {
  expect_largest({"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1",
                  "memory.offload_path=/somewhere", "model.seq_length=8192",
                  "model.max_position_embeddings=8192"});
}

TEST(Largest, WhatTheRanksOfAHostOffloadFitsIntoIt) {
  PlanRequest request = request_of(
      {"dist.ranks=2", "train.global_batch_size=2", "model.hidden_size=4096",
       "model.num_attention_heads=32", "model.ffn_hidden_size=14336", "train.micro_batch_size=1",
       "optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"});
  const auto need = [&](const LargestFit& fit) {
    return memory_need(
        setup_of_layout(with_value(request, LargestOf::layers, fit.value), fit.layout),
        request.cluster);
  };
  const LargestFit all = largest_that_fits(request, LargestOf::layers, 600);
  ASSERT_GT(all.value, step_of(LargestOf::layers));
  request.cluster.host_memory_bytes = need(all).host_bytes / 2;
  const LargestFit fit = largest_that_fits(request, LargestOf::layers, 600);
  ASSERT_GT(fit.value, 0);
  EXPECT_LT(fit.value, all.value);
  EXPECT_LE(need(fit).host_bytes, request.cluster.host_memory_bytes);
  EXPECT_THAT(fit.next_refused, testing::HasSubstr("the ranks of a host offload"));
}

TEST(Largest, TimeThatEndsIsSaid) {
  const LargestFit fit = largest_that_fits(request_of({}), LargestOf::layers, 1e-9);
  EXPECT_FALSE(fit.proven);
  EXPECT_EQ(fit.value, 0);
}

TEST(Search, WhatDoesNotFitIsRejectedByTheBytesOfItsDryRun) {
  // 16 layers of width 8192 do not fit on one GPU unsharded.
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

TEST(Search, WhatRanksOffloadFitsInTheirHost) {
  PlanRequest request =
      request_of({"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1",
                  "model.tensor_model_parallel_size=1"});
  const SearchSettings settings{.time_limit_seconds = 600, .rows = 1};
  const SearchResult result = search_layouts(request, settings);
  ASSERT_FALSE(result.candidates.empty());
  const Prediction& best = result.candidates.front().prediction;
  // FP32 masters and moments of the whole model: 8 data ranks share a host.
  const auto parameters = static_cast<double>(best.stages.front().run.parameters);
  EXPECT_GE(best.host_bytes, 12 * parameters);
  EXPECT_LE(best.host_bytes, 12.5 * parameters);
  request.cluster.host_memory_bytes = 11 * parameters;
  const SearchResult full = search_layouts(request, settings);
  EXPECT_TRUE(full.candidates.empty());
  ASSERT_FALSE(full.refused.empty());
  EXPECT_THAT(full.refused.begin()->first, testing::HasSubstr("ranks offload does not fit"));
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

TEST(Search, GoesOnWhileNothingFits) {
  const SearchResult result =
      search_layouts(request_of({}), {.time_limit_seconds = 1e-9, .first_row_seconds = 600});
  ASSERT_FALSE(result.candidates.empty());
  EXPECT_FALSE(result.complete);
  EXPECT_GT(result.left, 0);
}

TEST(Search, SizesThatNothingDividesAreAnError) {
  EXPECT_THROW(search_layouts(request_of({"model.tensor_model_parallel_size=3"})), ConfigError);
}

TEST(Search, TheWrittenConfigurationIsTheLayout) {
  const PlanRequest request = request_of({});
  const SearchResult result = search_layouts(request, {.time_limit_seconds = 600, .rows = 12});
  std::set<std::string> layouts;
  for (const Candidate& candidate : result.candidates) {
    TemporaryFolder folder;
    const auto file = folder.path() / "candidate.yaml";
    write_file_atomically(file, written_config(request, candidate.layout, {"a comment"}));
    RunConfig defaults;
    defaults.cuda_target = request.cluster.gpu.architecture;
    const RunSetup read = prepare_run(load_run_config(file, {}, defaults));
    const Prediction again = predict(read, request.cluster);
    EXPECT_DOUBLE_EQ(again.step_seconds, candidate.prediction.step_seconds);
    EXPECT_EQ(static_cast<int64_t>(peak_of(again)), candidate.peak_bytes());
    layouts.insert(fmt::format("{} {} {}", read.config.parallel.tensor_model_parallel_size,
                               read.config.parallel.context_parallel_size,
                               read.config.parallel.pipeline_model_parallel_size));
  }
  EXPECT_GT(layouts.size(), 1u) << "one of them is not that of the defaults";
}

// A path counts from where a command runs, and a name of the Hub from nowhere.
TEST(Search, TheWrittenConfigurationFindsItsModelFromEveryFolder) {
  const TemporaryFolder folder;
  folder_with_tower(folder.path() / "a model");
  const std::string near = std::filesystem::relative(folder.path() / "a model").string();
  const auto text = [](const std::string& model) {
    PlanRequest request = request_of({});
    request.overrides = {"model.hf_config='" + model + "'"};
    return written_config(request, {}, {});
  };
  ASSERT_TRUE(std::filesystem::path(near).is_relative());
  const std::string found = std::filesystem::absolute(near).lexically_normal().string();
  EXPECT_THAT(text(near), testing::HasSubstr("hf_config: \"" + found + "\"\n"));
  EXPECT_THAT(text("org/name"), testing::HasSubstr("hf_config: \"org/name\"\n"));
}

TEST(SearchSpace, AutoLeavesTheMicroBatchOpen) {
  const auto sizes = [](const Overrides& overrides) {
    const PlanRequest request = request_of(overrides);
    const SearchSpace space(request);
    std::set<int64_t> found;
    for (const Layout& layout : space.layouts()) found.insert(layout.micro_batch);
    return found;
  };
  EXPECT_EQ(sizes({"train.micro_batch_size=auto"}), sizes({}));
  EXPECT_EQ(sizes({"train.micro_batch_size=2"}), std::set<int64_t>{2});
}

}  // namespace
}  // namespace viaduct
