// A step of many micro-batches is predicted from two of few where its rounds repeat; times are
// those of the whole step.

#include "plan/steady_rounds.h"

#include <gtest/gtest.h>

#include "plan/planning_defaults.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::Overrides;
using test::operator+;

constexpr int64_t kCount = 202;

struct Case {
  std::string name;
  Overrides overrides;
  bool repeats = true;
};

void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

RunSetup setup_on(const Cluster& cluster, const Overrides& more, int64_t micro_batches) {
  const Overrides tiny{
      "model.family=llama",          "model.num_layers=4",
      "model.hidden_size=64",        "model.ffn_hidden_size=128",
      "model.num_attention_heads=4", "model.vocab_size=128",
      "model.seq_length=64",         "model.attention_backend=flash",
      "train.micro_batch_size=1",    "train.global_batch_size=" + std::to_string(micro_batches)};
  return prepare_run(load_run_config({}, tiny + more, planning_defaults(cluster)));
}

class SteadyRounds : public testing::TestWithParam<Case> {};

TEST_P(SteadyRounds, AreThoseOfTheWholeStep) {
  const Cluster cluster = load_cluster("dgx-h100");
  const PredictionSettings settings = prediction_settings(cluster);
  ThreadPool pool(1);
  const RunSetup setup = setup_on(cluster, GetParam().overrides, kCount);
  const auto found = predict_steady_rounds(setup, cluster, settings, pool);
  ASSERT_EQ(found.has_value(), GetParam().repeats);
  if (!found) return;
  StageRuns runs(setup, cluster, StageRuns::Keep::records);
  run_stages(pool, {&runs}, [](const StageRuns&) { return true; });
  const Prediction whole = predict(runs, cluster, settings);
  const double rounding = 1e-9 * whole.step_seconds;
  EXPECT_NEAR(found->step_seconds, whole.step_seconds, rounding);
  EXPECT_NEAR(found->tokens_per_second_per_gpu, whole.tokens_per_second_per_gpu,
              1e-9 * whole.tokens_per_second_per_gpu);
  EXPECT_EQ(found->fits, whole.fits);
  EXPECT_EQ(found->capacity_bytes, whole.capacity_bytes);
  ASSERT_EQ(found->stages.size(), whole.stages.size());
  for (size_t i = 0; i < whole.stages.size(); ++i) {
    SCOPED_TRACE("stage " + std::to_string(i));
    const StagePrediction &stage = found->stages[i], &expected = whole.stages[i];
    EXPECT_EQ(stage.run.peak.bytes, expected.run.peak.bytes);
    EXPECT_EQ(stage.run.peak.bytes_by_tag, expected.run.peak.bytes_by_tag);
    EXPECT_EQ(stage.run.launches, expected.run.launches);
    EXPECT_EQ(stage.run.cost.flops, expected.run.cost.flops);
    EXPECT_EQ(stage.run.model_flops, expected.run.model_flops);
    EXPECT_NEAR(stage.time.compute, expected.time.compute, rounding);
    EXPECT_NEAR(stage.time.optimizer, expected.time.optimizer, rounding);
    EXPECT_NEAR(stage.time.bubble, expected.time.bubble, rounding);
    EXPECT_NEAR(stage.time.host, expected.time.host, rounding);
    EXPECT_NEAR(stage.busy_communication, expected.busy_communication, rounding);
    for (const auto& [group, seconds] : expected.time.exposed)
      EXPECT_NEAR(stage.time.exposed.at(group), seconds, rounding) << group;
  }
}

const Overrides kTwo{"dist.ranks=2", "model.pipeline_model_parallel_size=2"},
    kBehindEncoder = kTwo + Overrides{"dist.ranks=3", "model.family=t5",
                                      "model.encoder_num_layers=1", "model.encoder_seq_length=64",
                                      "model.encoder_pipeline_model_parallel_size=1"};

INSTANTIATE_TEST_SUITE_P(
    Schedules, SteadyRounds,
    testing::Values(
        Case{"one_stage", {}}, Case{"one_f_one_b", kTwo},
        Case{"interleaved", kTwo + Overrides{"model.virtual_pipeline_model_parallel_size=2"}},
        Case{"behind_an_encoder", kBehindEncoder},
        Case{"interleaved_behind_an_encoder",
             kBehindEncoder + Overrides{"model.virtual_pipeline_model_parallel_size=2"}},
        Case{"zero_bubble", kTwo + Overrides{"model.pipeline_schedule=zero_bubble"}},
        Case{"gpipe", kTwo + Overrides{"model.pipeline_schedule=gpipe"}, false}),
    [](const auto& of) { return of.param.name; });

TEST(ShortSteps, AreWalkedWhole) {
  const Cluster cluster = load_cluster("dgx-h100");
  ThreadPool pool(1);
  const auto found = [&](int64_t count, PredictionSettings settings) {
    return predict_steady_rounds(setup_on(cluster, {}, count), cluster, settings, pool).has_value();
  };
  PredictionSettings settings = prediction_settings(cluster);
  EXPECT_FALSE(found(192, settings));
  EXPECT_TRUE(found(193, settings));
  settings.timeline = true;
  EXPECT_FALSE(found(193, settings)) << "it has every micro-batch";
}

}  // namespace
}  // namespace viaduct
