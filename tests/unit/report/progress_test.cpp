#include "report/progress.h"

#include <gmock/gmock.h>

#include "base/file.h"
#include "support/temporary_folder.h"

namespace viaduct {
namespace {

StepMetrics metrics() {
  StepMetrics m;
  m.step = 120, m.loss = 3.45678, m.tokens_per_second = 12300;
  m.learning_rate = 2.99612e-4, m.grad_norm = 1.23456;
  m.mfu = 0.2314, m.mfu_peak = "FP32 FMA AVX2, 0.4 TFLOP/s measured on 2 threads";
  m.peak_memory_bytes = int64_t{3} << 29;
  return m;
}

/// The output of a display.
template <class F>
std::string written(bool is_terminal, int64_t total, F use) {
  test::TemporaryFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  {
    ProgressDisplay display(out, is_terminal, total);
    use(display);
  }
  std::fclose(out);
  return read_file(folder / "out");
}

TEST(Progress, TheLineNamesItsPeak) {
  EXPECT_EQ(
      progress_line(metrics(), 2000, 187),
      "step  120/2000 | loss 3.4568 | lr 0.0003 | grad norm 1.23 | 12.3k tokens/s | MFU 23.1 % "
      "of FP32 FMA AVX2, 0.4 TFLOP/s measured on 2 threads | 1.50 GiB | ETA 3m07s");
}

TEST(Progress, WithSeveralRanksTheLineSaysWhatIsOfOne) {
  StepMetrics m = metrics();
  m.rank_count = 4;
  EXPECT_THAT(progress_line(m, 2000, 1),
              testing::HasSubstr("12.3k tokens/s | MFU 23.1 % of FP32 FMA AVX2, 0.4 TFLOP/s "
                                 "measured on 2 threads a rank | at most 1.50 GiB a rank | ETA"));
}

TEST(Progress, TheLineHasTheLossesOfFurtherTokens) {
  StepMetrics m = metrics();
  m.mtp_losses = {4.5, 5.25};
  EXPECT_THAT(progress_line(m, 2000, 1),
              testing::HasSubstr("| loss 3.4568 | mtp 1 loss 4.5000 | mtp 2 loss 5.2500 | lr"));
}

TEST(Progress, TheLineHasTheBalanceOfExperts) {
  StepMetrics m = metrics();
  m.routers = {{"load", {.least = 0.412, .mean = 1, .most = 1.834}},
               {"dropped", {.least = 0, .mean = 0.0123, .most = 0.02}}};
  EXPECT_THAT(progress_line(m, 2000, 1),
              testing::HasSubstr(" | experts 0.41 to 1.83 of an even load, 1.2 % dropped"));
}

TEST(Progress, TheLossIsTheMeanSinceTheLastLine) {
  StepMetrics m = metrics();
  m.interval_loss = 3.25;
  EXPECT_THAT(progress_line(m, 2000, 1), testing::HasSubstr("| loss 3.2500 | lr"));
}

TEST(Progress, TheLineShowsTheUncausalCountWhereThereIsOne) {
  StepMetrics m = metrics();
  m.mfu_full = 0.25;
  EXPECT_THAT(progress_line(m, 2000, 1),
              testing::HasSubstr("MFU 23.1 % (uncausal 25.0 %) of FP32 FMA"));
}

TEST(Progress, TheLineLeavesOutWhatIsUnknown) {
  StepMetrics m = metrics();
  m.loss.reset(), m.grad_norm.reset(), m.mfu.reset(), m.peak_memory_bytes = 0;
  m.skipped = 2;
  EXPECT_EQ(progress_line(m, 120, 0),
            "step 120/120 | loss - | lr 0.0003 | 12.3k tokens/s | 2 skipped");
  m.with_rates = false, m.step_seconds = 2;
  EXPECT_EQ(progress_line(m, 120, 0),
            "step 120/120 | loss - | lr 0.0003 | 2.0s a step | 2 skipped");
}

TEST(Progress, Bar) {
  EXPECT_EQ(progress_bar(0, 4, 10), "[------------------------] 0/4 0 % ETA 10.0s");
  EXPECT_EQ(progress_bar(1, 4, 10), "[######------------------] 1/4 25 % ETA 10.0s");
  EXPECT_THAT(progress_bar(4, 4, 0), testing::StartsWith("[########################] 4/4 100 %"));
  EXPECT_THAT(progress_bar(9, 4, 0), testing::StartsWith("[########################] 9/4 100 %"));
}

TEST(Progress, EstimatesFromRecentSteps) {
  ProgressDisplay display(stderr, false, 100);
  EXPECT_EQ(display.remaining_seconds(0), 0);
  display.advance(1, 2.0);
  EXPECT_DOUBLE_EQ(display.remaining_seconds(50), 100);
  display.advance(2, 3.0);
  EXPECT_DOUBLE_EQ(display.remaining_seconds(50), 105);  // 0.9 · 2 + 0.1 · 3 = 2.1
  EXPECT_EQ(display.remaining_seconds(101), 0);
}

TEST(Progress, WithoutATerminalThereAreOnlyLines) {
  EXPECT_EQ(written(false, 4,
                    [](ProgressDisplay& display) {
                      display.advance(1, 1.0);
                      display.note("hello");
                      display.advance(2, 1.0);
                    }),
            "hello\n");
}

TEST(Progress, OnATerminalTheBarStaysBelowTheLines) {
  const std::string bar = progress_bar(1, 4, 3), clear = "\r\033[K";
  EXPECT_EQ(written(true, 4,
                    [](ProgressDisplay& display) {
                      display.note("first");
                      display.advance(1, 1.0);
                      display.note("hello");
                    }),
            "first\n" + clear + bar + clear + "hello\n" + bar + clear);
}

}  // namespace
}  // namespace viaduct
