// The binary says what does not fit into memory, and what would: each message about memory once, by
// the program in which all rooms are linked together. What `viaduct plan` says about layouts that
// do not fit is in plan_test.cpp, about operands of `viaduct bench` in sizes_test.cpp.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/physical_memory.h"
#include "engine/plan_memory.h"
#include "support/command.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

std::string line_of(const std::string& command, const Overrides& overrides) {
  std::string line = command;
  for (const std::string& override : overrides) line += " '" + override + "'";
  return line;
}

/// Few tokens with a wide feed-forward, in micro-batches of `rows`.
Overrides wide_run(int64_t rows) {
  return tiny_run() + Overrides{"model.num_layers=8",
                                "model.ffn_hidden_size=65536",
                                "model.seq_length=256",
                                fmt::format("train.micro_batch_size={}", rows),
                                fmt::format("train.global_batch_size={}", rows),
                                "train.train_iters=1"};
}

/// The micro-batch whose step needs `part` of this machine's memory.
int64_t rows_for(double part) {
  const auto bytes_of = [](int64_t rows) {
    return static_cast<double>(plan_memory(setup_of(wide_run(rows))).plan.arena_bytes);
  };
  const double few = bytes_of(2), each = (bytes_of(4) - few) / 2;
  return static_cast<int64_t>((part * physical_memory_bytes() - few) / each) + 2;
}

TEST(MemoryMessages, ARunThatDoesNotFitIsToldWhatWould) {
  const CommandResult result = run_viaduct(line_of("train", wide_run(rows_for(1.2))));
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("of this machine, which has"),
                                HasSubstr("what would fit, the fewest changes first:\n"),
                                HasSubstr("model.recompute_granularity="), HasSubstr(" a rank")));
}

TEST(MemoryMessages, AnAsynchronousSaveIsPartOfTheSum) {
  const CommandResult result = run_viaduct(line_of(
      "train", wide_run(rows_for(1.2)) + Overrides{"checkpoint.async_save=true",
                                                   "checkpoint.save=/tmp/viaduct-never-written"}));
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("for the copy of an asynchronous save (checkpoint.async_save)"));
  const CommandResult plan =
      run_viaduct(line_of("train --dry-run", wide_run(2) + Overrides{"checkpoint.async_save=true",
                                                                     "checkpoint.save=never"}));
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("asynchronous save"));
}

TEST(MemoryMessages, ASecondMemoryThatIsTooSmallSaysWhatAStepNeeds) {
  const CommandResult result =
      run_viaduct(line_of("train", wide_run(2) + Overrides{"model.cpu_offloading=true",
                                                           "model.cpu_offloading_num_layers=8",
                                                           "memory.offload_bytes=4096"}));
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("memory.offload_bytes: 4096"),
                                HasSubstr("in the second memory of a rank")));
}

}  // namespace
}  // namespace viaduct
