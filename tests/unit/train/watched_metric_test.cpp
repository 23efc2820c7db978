// Which metric evaluations are compared by, and how.

#include "train/watched_metric.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"

namespace viaduct {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TaskFile tasks() {
  return parse_task_file(
      "{\"context\": \"A\", \"choices\": [\"b\"], \"answer\": 0, \"task\": \"x\"}\n"
      "{\"context\": \"A\", \"continuation\": \"b\", \"task\": \"y\"}\n",
      "tasks.jsonl", "tasks");
}

TEST(WatchedMetrics, AreWhatTheEvaluationsHave) {
  const TaskFile file = tasks();
  EXPECT_THAT(metrics_of_run(true, &file),
              ElementsAre(WatchedMetric{"validation_loss", false}, WatchedMetric{"x/acc", true},
                          WatchedMetric{"x/acc_norm", true}, WatchedMetric{"x/acc_bytes", true},
                          WatchedMetric{"y/acc", true}, WatchedMetric{"y/perplexity", false}));
  EXPECT_THAT(metrics_of_run(false, nullptr), ElementsAre());
}

TEST(WatchedMetrics, TheConfigurationNamesOne) {
  const TaskFile file = tasks();
  const auto metrics = metrics_of_run(true, &file);
  RunConfig config;
  EXPECT_FALSE(watched_metric(config, metrics).has_value());
  config.train.early_stopping_patience = 2;
  EXPECT_EQ(watched_metric(config, metrics)->name, "validation_loss");
  EXPECT_THAT([&] { watched_metric(config, metrics_of_run(false, &file)); },
              ThrowsMessage<ConfigError>(
                  AllOf(HasSubstr("train.early_stopping_patience"), HasSubstr("x/acc"))));
  config.checkpoint.keep_best = "y/perplexity";
  EXPECT_EQ(*watched_metric(config, metrics), (WatchedMetric{"y/perplexity", false}));
  config.checkpoint.keep_best = "x/acc_nrm";
  EXPECT_THAT(
      [&] { watched_metric(config, metrics); },
      ThrowsMessage<ConfigError>(AllOf(
          HasSubstr("checkpoint.keep_best: x/acc_nrm"), HasSubstr("x/acc_norm"),
          HasSubstr("validation_loss (lower is better)"), HasSubstr("x/acc (higher is better)"))));
}

TEST(WatchedMetrics, TheBestIsKeptAndWhatComesAfterItCounted) {
  const WatchedMetric loss{"validation_loss", false};
  std::optional<BestEvaluation> best;
  const auto next = [&](int64_t step, double value) {
    return judge(loss, {{"validation_loss", value}}, step, best);
  };
  EXPECT_TRUE(next(10, 3.0));
  EXPECT_FALSE(next(10, 2.0));  // judged already
  EXPECT_FALSE(next(20, 3.0));  // not better
  EXPECT_EQ(best->evaluations_since, 1);
  EXPECT_FALSE(is_out_of_patience(best, 2));
  EXPECT_FALSE(next(30, std::nan("")));
  EXPECT_TRUE(is_out_of_patience(best, 2));
  EXPECT_FALSE(is_out_of_patience(best, std::nullopt));
  EXPECT_TRUE(next(40, 2.5));
  EXPECT_EQ(*best, (BestEvaluation{"validation_loss", 2.5, 40, 0, 40}));
  // By another metric it begins anew, where higher may be better.
  const WatchedMetric acc{"x/acc", true};
  EXPECT_TRUE(judge(acc, {{"x/acc", 0.5}}, 50, best));
  EXPECT_FALSE(judge(acc, {{"x/acc", 0.4}}, 60, best));
  EXPECT_FALSE(judge(acc, {}, 70, best));
  EXPECT_TRUE(judge(acc, {{"x/acc", 0.6}}, 80, best));
}

TEST(WatchedMetrics, ValuesThatAreMeasuredOnSomethingElseAreNotCompared) {
  const WatchedMetric here{"validation_loss", false, "a"}, there{"validation_loss", false, "b"};
  std::optional<BestEvaluation> best;
  EXPECT_TRUE(judge(here, {{"validation_loss", 2.0}}, 10, best));
  EXPECT_EQ(best->measured_on, "a");
  EXPECT_FALSE(is_compared_with(there, *best));
  EXPECT_TRUE(judge(there, {{"validation_loss", 3.0}}, 10, best));
  EXPECT_EQ(*best, (BestEvaluation{"validation_loss", 3.0, 10, 0, 10, "b"}));
  EXPECT_FALSE(judge(there, {{"validation_loss", 3.5}}, 20, best));
  // An earlier version does not say it: the value goes on to count, as one of this session's.
  best->measured_on.clear();
  EXPECT_TRUE(is_compared_with(here, *best));
  EXPECT_FALSE(judge(here, {{"validation_loss", 3.2}}, 30, best));
  EXPECT_EQ(*best, (BestEvaluation{"validation_loss", 3.0, 10, 2, 30, "a"}));
}

TEST(WatchedMetrics, TheBestIsPartOfTheStateOfARun) {
  TrainState state;
  state.step = 50;
  EXPECT_EQ(train_state_from_json(to_json(state), "state"), state);
  state.best = BestEvaluation{"x/acc", 0.1, 20, 3, 50};
  EXPECT_EQ(train_state_from_json(to_json(state), "state"), state);
  state.validated_on = "0123456789abcdef";
  state.best->measured_on = "fedcba9876543210";
  EXPECT_EQ(train_state_from_json(to_json(state), "state"), state);
  state.best->judged_step = 60;
  EXPECT_THROW(train_state_from_json(to_json(state), "state"), IoError);
}

}  // namespace
}  // namespace viaduct
