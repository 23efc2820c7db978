// Metrics on a disk that becomes full.

#include "report/metrics_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace viaduct
