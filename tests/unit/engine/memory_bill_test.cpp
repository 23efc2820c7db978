// Suggestions that make a run fit: each is tried by its text, as a user would.

#include "engine/memory_bill.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "engine/plan_memory.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Overrides run_of() {
  return tiny_run() + Overrides{"dist.ranks=2", "train.global_batch_size=8",
                                "train.micro_batch_size=4", "mixed_precision=bf16_mixed"};
}

/// What saves memory is chosen but for recomputation and the two kinds of offloading.
Overrides frugal_run() {
  return run_of() + Overrides{"train.micro_batch_size=1", "dist.ranks=1",
                              "optimizer.use_precision_aware_optimizer=true",
                              "ddp.grad_reduce_in_fp32=false"};
}

Overrides words(const std::string& text) {
  std::istringstream in(text);
  Overrides list;
  for (std::string word; in >> word;)
    if (word != "memory.offload_path=FOLDER") list.push_back(word);
  return list;
}

int64_t bytes_of(const Overrides& overrides) {
  return plan_memory(setup_of(overrides)).plan.arena_bytes;
}

TEST(MemoryBill, EachAnswerFitsWhenItIsGiven) {
  const RunSetup setup = setup_of(run_of());
  const int64_t now = bytes_of(run_of());
  for (const int64_t limit : {now * 9 / 10, now * 6 / 10}) {
    const auto changes = changes_that_fit(setup, {0}, limit, 3, 1e9);
    ASSERT_FALSE(changes.empty()) << limit;
    for (const FittingSettings& change : changes) {
      EXPECT_LE(change.bytes, limit) << change.settings;
      EXPECT_EQ(bytes_of(run_of() + words(change.settings)), change.bytes) << change.settings;
    }
  }
}

TEST(MemoryBill, FewestChangesComeFirstAndNoneContainsAnother) {
  const RunSetup setup = setup_of(run_of());
  const auto changes = changes_that_fit(setup, {0}, bytes_of(run_of()) - 1, 4, 1e9);
  ASSERT_EQ(changes.size(), 4u);
  for (const FittingSettings& change : changes) {
    for (const FittingSettings& other : changes) {
      if (&change == &other) continue;
      EXPECT_THAT(change.settings, Not(HasSubstr(other.settings + " ")));
    }
  }
  EXPECT_THAT(changes_that_fit(setup_of(frugal_run()), {0}, 1, 3, 1e9), IsEmpty());
}

TEST(MemoryBill, WhatTwoChangesNeedIsSaidOnce) {
  const Overrides run = frugal_run();
  const int64_t limit =
      bytes_of(run + Overrides{"model.cpu_offloading=true", "model.cpu_offloading_num_layers=2",
                               "optimizer.optimizer_cpu_offload=true",
                               "optimizer.optimizer_offload_fraction=1"});
  const auto changes = changes_that_fit(setup_of(run), {0}, limit, 9, 1e9);
  bool both = false;
  for (const FittingSettings& change : changes) {
    std::istringstream in(change.settings);
    std::vector<std::string> list;
    for (std::string word; in >> word;) list.push_back(word);
    EXPECT_THAT(std::set<std::string>(list.begin(), list.end()), SizeIs(list.size()))
        << change.settings;
    both |= change.settings.find("model.cpu_offloading=true") != std::string::npos &&
            change.settings.find("optimizer_cpu_offload=true") != std::string::npos;
  }
  EXPECT_TRUE(both) << "no answer moves both activations and state to FOLDER";
}

TEST(MemoryBill, WhatTheRunHasIsNotTried) {
  const Overrides full{"model.recompute_granularity=full", "model.recompute_method=uniform",
                       "model.recompute_num_layers=1"};
  const auto changes =
      changes_that_fit(setup_of(run_of() + full), {0}, bytes_of(run_of() + full) - 1, 9, 1e9);
  ASSERT_FALSE(changes.empty());
  for (const FittingSettings& change : changes)
    EXPECT_THAT(change.settings, Not(HasSubstr("recompute")));
}

}  // namespace
}  // namespace viaduct
