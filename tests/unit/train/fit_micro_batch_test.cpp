// train.micro_batch_size=auto: the largest micro-batch that fits, and the same on resume.

#include "train/fit_micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/save_folder.h"
#include "engine/plan_memory.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using test::tiny_run;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::ThrowsMessage;

LoadedRunConfig loaded(const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = tiny_run();
  std::erase_if(overrides, [](const auto& one) {
    return one.starts_with("train.micro_batch_size") || one.starts_with("train.global_batch_size");
  });
  overrides.insert(overrides.end(), {"train.micro_batch_size=auto", "train.global_batch_size=12"});
  overrides.insert(overrides.end(), more.begin(), more.end());
  return load_run_config("", overrides);
}

/// Bytes of a step with so many rows.
double bytes_of(int64_t rows) {
  LoadedRunConfig run = loaded();
  run.config.train.micro_batch_size = rows;
  return static_cast<double>(plan_memory(prepare_run(std::move(run))).plan.arena_bytes);
}

TEST(FitMicroBatch, TheLargestDivisorThatFitsWithTheMargin) {
  constexpr double kMuch = 1e12;
  EXPECT_EQ(fit_micro_batch(loaded(), kMuch, 1).config.train.micro_batch_rows(), 12);
  const double four = bytes_of(4) / (1 - kFreeMemory) + 1;
  ASSERT_LT(bytes_of(4), bytes_of(6));
  const RunSetup setup = fit_micro_batch(loaded(), four, 1);
  EXPECT_EQ(setup.config.train.micro_batch_rows(), 4);  // 6 and 12 are too large, 5 divides nothing
  EXPECT_THAT(setup.notes, Contains(AllOf(HasSubstr("train.micro_batch_size=auto: 4 rows"),
                                          HasSubstr("10 % of the memory stay free"),
                                          HasSubstr("6 rows would take"))));
  // Its configuration has the number, for checkpoints.
  EXPECT_THAT(to_yaml(setup.config), HasSubstr("micro_batch_size: 4"));
  // Two ranks share the memory.
  EXPECT_EQ(fit_micro_batch(loaded(), 2 * four, 2).config.train.micro_batch_rows(), 4);
}

TEST(FitMicroBatch, NoneThatFitsIsAnErrorThatSaysWhatTheSmallestTakes) {
  EXPECT_THAT(
      [] { fit_micro_batch(loaded(), 1000, 1); },
      ThrowsMessage<ConfigError>(AllOf(HasSubstr("none fits"), HasSubstr("1 row would take"),
                                       HasSubstr("10 % of the memory"))));
  EXPECT_THAT([] { fit_micro_batch(loaded({"model.num_attention_heads=3"}), 1e12, 1); },
              ThrowsMessage<ConfigError>(HasSubstr("num_attention_heads")));
  EXPECT_THAT([] { prepare_run(loaded()); },
              ThrowsMessage<ConfigError>(HasSubstr("is found by viaduct train")));
}

TEST(FitMicroBatch, ARunThatResumesKeepsItsNumber) {
  test::TemporaryFolder folder;
  const auto step = folder / "run" / step_folder_name(2);
  std::filesystem::create_directories(step);
  write_file_atomically(folder / "run/latest", "step_00000002\n");
  write_file_atomically(step / "config.yaml", "train:\n  micro_batch_size: 3\n");
  const RunSetup setup =
      fit_micro_batch(loaded({"checkpoint.save=" + (folder / "run").string()}), 1e12, 1);
  EXPECT_EQ(setup.config.train.micro_batch_rows(), 3);
  EXPECT_THAT(setup.notes, Contains(HasSubstr("3 rows, as in the checkpoint")));
  // A batch that they do not divide has its own.
  const RunSetup other = fit_micro_batch(
      loaded({"checkpoint.save=" + (folder / "run").string(), "train.global_batch_size=8"}), 1e12,
      1);
  EXPECT_EQ(other.config.train.micro_batch_rows(), 8);
  EXPECT_THAT(other.notes, Contains(HasSubstr("chosen anew: 3 rows of the checkpoint")));
}

}  // namespace
}  // namespace viaduct
