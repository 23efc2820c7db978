// The figures of tensor_inspect for operands of experts: for all experts of a layer together and
// for the worst one; counted once, however often a layer runs; the same on several ranks and on
// one.

#include <gtest/gtest.h>

#include "support/watched_run.h"

namespace viaduct {
namespace {

using namespace test;
using nlohmann::json;

TEST(WatchedExperts, AreInTheLogTogetherWithTheWorstOfThem) {
  for (const char* recipe : kWatchedRecipes) {
    SCOPED_TRACE(recipe);
    const json log = measured(watched_run(recipe));
    for (const char* weight : {"up", "down"}) {
      for (const char* operand : {" x", " w", " dy"}) {
        const std::string name = std::string("blocks.1.mlp.experts.") + weight + operand;
        SCOPED_TRACE(name);
        ASSERT_TRUE(log.contains(name));
        const json& of = log[name];
        EXPECT_GT(of.at("relative_error"), 0.001);
        EXPECT_LT(of.at("relative_error"), 0.3);
        // The error over all experts is at most that of the worst.
        EXPECT_GE(of.at("worst_relative_error").get<double>(),
                  of.at("relative_error").get<double>());
        EXPECT_GE(of.at("worst_expert"), 0);
        EXPECT_LT(of.at("worst_expert"), 4);
        const std::string shared = std::string("blocks.1.mlp.shared.") + weight + operand;
        ASSERT_TRUE(log.contains(shared)) << shared;
        EXPECT_FALSE(log[shared].contains("worst_expert"));
      }
    }
  }
}

TEST(WatchedExperts, AreCountedOnceWhereTheyRunAgain) {
  for (const char* recipe : kWatchedRecipes) {
    SCOPED_TRACE(recipe);
    // Counts of saturated elements would double: delayed scaling has some in its first step.
    const json once = measured(watched_run(recipe));
    for (const Overrides& again : std::vector<Overrides>{
             {"model.recompute_granularity=full", "model.recompute_method=uniform",
              "model.recompute_num_layers=1"},
             {"model.recompute_granularity=selective", "model.recompute_modules=[mlp, moe_act]"},
             {"model.recompute_granularity=selective", "model.recompute_modules=[moe]"}}) {
      EXPECT_EQ(measured(watched_run(recipe) + again), once) << again.back();
    }
  }
}

// Two ranks with two experts each. Scales then cover the rows of both, so numbers differ by
// roundings to E4M3, of 1/16 at most.
TEST(WatchedExperts, OfSeveralRanksAreThoseOfOne) {
  for (const char* recipe : {"bf16_with_fp8_current_scaling_mixed", "bf16_with_mxfp8_mixed"}) {
    SCOPED_TRACE(recipe);
    const Overrides run = watched_run(recipe) + Overrides{"train.micro_batch_size=1"};
    const json one = measured(run);
    const json two =
        measured(run + Overrides{"dist.ranks=2", "model.expert_model_parallel_size=2"});
    for (const auto& [name, of] : one.items()) {
      if (name.find("experts.") == name.npos) continue;
      EXPECT_NEAR(two.at(name).at("amax").get<double>(), of.at("amax").get<double>(),
                  of.at("amax").get<double>() / 16)
          << name;
      EXPECT_NEAR(two.at(name).at("relative_error").get<double>(),
                  of.at("relative_error").get<double>(), of.at("relative_error").get<double>() / 16)
          << name;
      // A weight is one operand, wherever it is stored.
      if (name.ends_with(" w")) {
        EXPECT_EQ(two.at(name).at("worst_expert"), of.at("worst_expert")) << name;
        EXPECT_NEAR(two.at(name).at("relative_error").get<double>(),
                    of.at("relative_error").get<double>(), 1e-9)
            << name;
      }
    }
  }
}

TEST(WatchedExperts, HaveTheBitsOfAnUnwatchedRun) {
  for (const char* recipe : kWatchedRecipes) {
    const Overrides run = watched_run(recipe) + Overrides{"train.train_iters=2"};
    EXPECT_EQ(train_run(run), train_run(run + Overrides{"tensor_inspect.enabled=false"})) << recipe;
  }
}

}  // namespace
}  // namespace viaduct
