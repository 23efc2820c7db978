// Sums of a step, kept by runs without profiling.

#include <gtest/gtest.h>

#include "timeline/record.h"

namespace viaduct {
namespace {

CollectiveRecord collective(Collective operation, const std::string& group) {
  CollectiveRecord entry;
  entry.operation = operation, entry.group = group;
  entry.ranks = 4, entry.wire_bytes = 100;
  return entry;
}

OpEntryRecord op(const char* name, double seconds) {
  OpEntryRecord entry;
  entry.op = name, entry.launches = 2;
  entry.begin_seconds = 10, entry.end_seconds = 10 + seconds;
  return entry;
}

/// Two ops, and two collectives of which the second is awaited one step later.
void step(StepRecord& record) {
  record.allocate(1, 64, "other");
  {
    const RecordScope scope(&record, ScopeKind::phase, "forward");
    record.op(op("gemm", 0.5));
    record.op(op("gemm", 0.25));
  }
  const int64_t sum = record.launch(collective(Collective::all_reduce, "tp"));
  record.complete(sum, 1, 3, 0.5);
  const int64_t gather = record.launch(collective(Collective::all_gather, "dp"));
  record.host_read("loss");
  record.release(1, 64, "other");
  record.reset_counters();
  record.complete(gather, 5, 6, 0.25);
}

TEST(StepCounters, AreSumsByNameAndGroup) {
  for (const bool alone : {false, true}) {
    StepRecord record;
    if (alone) record.keep_counters_alone();
    record.op(op("gemm", 0.5));
    record.op(op("norm", 0.125));
    record.op(op("gemm", 0.25));
    for (int i = 0; i < 3; ++i)
      record.complete(record.launch(collective(Collective::send, "pp")), 2, 4, 1);
    const StepCounters& counters = record.counters();
    EXPECT_EQ(counters.ops.at("gemm").seconds, 0.75);
    EXPECT_EQ(counters.ops.at("gemm").launches, 4);
    ASSERT_EQ(counters.collectives.size(), 1u);
    EXPECT_EQ(counters.collectives[0].group, "pp");
    EXPECT_EQ(counters.collectives[0].count, 3);
    EXPECT_EQ(counters.collectives[0].wire_bytes, 300);
    EXPECT_EQ(counters.wait_seconds(), 6);
    EXPECT_EQ(counters.busy_seconds(), 3);
  }
}

TEST(StepCounters, AloneKeepNoEntriesHoweverLongTheRun) {
  StepRecord record;
  record.keep_counters_alone();
  for (int i = 0; i < 1000; ++i) step(record);
  EXPECT_TRUE(record.ops().empty());
  EXPECT_TRUE(record.collectives().empty());
  EXPECT_TRUE(record.allocations().empty());
  EXPECT_TRUE(record.scopes().empty());
  EXPECT_TRUE(record.host_reads().empty());
  EXPECT_TRUE(record.older_releases().empty());
  EXPECT_EQ(record.counters().collectives.size(), 2u);
}

// A gather that is awaited in the next step counts there, with either kind of record.
TEST(StepCounters, CommunicationCountsWhereItIsWaitedFor) {
  for (const bool alone : {false, true}) {
    StepRecord record;
    if (alone) record.keep_counters_alone();
    step(record);
    EXPECT_TRUE(record.counters().ops.empty());
    EXPECT_EQ(record.counters().wait_seconds(), 1);
    EXPECT_EQ(record.counters().busy_seconds(), 0.25);
    EXPECT_EQ(record.collectives().size(), alone ? 0u : 2u);
  }
}

// Nothing has a time where nothing executes.
TEST(StepCounters, AreNotKeptOfDryRuns) {
  StepRecord record;
  record.set_timed(false);
  step(record);
  EXPECT_TRUE(record.counters().collectives.empty());
  EXPECT_EQ(record.collectives().size(), 2u);
}

}  // namespace
}  // namespace viaduct
