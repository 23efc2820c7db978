// Metrics in their file and on the display, and on a disk that becomes full.

#include "report/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "support/file_size_limit.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

StepMetrics step_metrics(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 1;
  return metrics;
}

TEST(MetricsLog, AFullDiskCostsLinesAndNothingElse) {
  TemporaryFolder folder;
  MetricsLogOptions options;
  options.folder = folder.path();
  options.tensorboard_folder = folder / "tensorboard";
  options.total_steps = 5;
  options.log_interval = 1;
  MetricsLog log(options);
  log.step(step_metrics(1));
  EXPECT_TRUE(log.problems().empty());
  {
    const FileSizeLimit full(1);
    log.step(step_metrics(2));
    log.step(step_metrics(3));
  }
  log.step(step_metrics(4));
  EXPECT_THAT(metric(folder / "metrics.jsonl", "step"), ElementsAre(1, 4));
  EXPECT_THAT(log.problems(), ElementsAre(AllOf(HasSubstr("2 lines of metrics.jsonl not written"),
                                                HasSubstr("File too large")),
                                          HasSubstr("2 TensorBoard events not written")));
}

TEST(MetricsLog, TheDisplayHasMeansOfTheIntervalAndTheFileTheStepsValues) {
  TemporaryFolder folder;
  MetricsLogOptions options;
  options.folder = folder.path();
  options.total_steps = 6;
  options.log_interval = 3;
  std::FILE* shown = std::tmpfile();
  options.display = shown;
  {
    MetricsLog log(options);
    for (int64_t step = 1; step <= 6; ++step) {
      StepMetrics metrics = step_metrics(step);
      metrics.loss = step == 2 ? std::nan("") : static_cast<double>(step);
      metrics.mtp_losses = {10.0 * static_cast<double>(step)};
      if (step > 4) metrics.loss.reset(), metrics.mtp_losses.clear();  // nothing is scored
      log.step(metrics);
    }
  }
  std::rewind(shown);
  std::string text;
  for (int c = std::fgetc(shown); c != EOF; c = std::fgetc(shown)) text += static_cast<char>(c);
  std::fclose(shown);
  EXPECT_THAT(text, AllOf(HasSubstr("step 3/6 | loss 2.0000 | mtp 1 loss 20.0000 |"),
                          HasSubstr("step 6/6 | loss 4.0000 | mtp 1 loss 40.0000 |")));
  EXPECT_THAT(metric(folder / "metrics.jsonl", "loss"), ElementsAre(3));
}

}  // namespace
}  // namespace viaduct
