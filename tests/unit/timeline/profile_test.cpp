// The profile: its rows add up to the steps, time of a nested op counts once, and the roofline is
// the slower of operations and bytes.

#include "timeline/profile.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

MachinePeaks peaks() {
  MachinePeaks peaks;
  peaks.flops_per_second[static_cast<size_t>(FlopFormat::f32)] = 100;
  peaks.flops_per_second[static_cast<size_t>(FlopFormat::bf16)] = 400;
  peaks.bytes_per_second = 10;
  return peaks;
}

Cost cost(double f32, double bf16, int64_t read, int64_t written) {
  Cost cost;
  cost.flops[static_cast<size_t>(FlopFormat::f32)] = f32;
  cost.flops[static_cast<size_t>(FlopFormat::bf16)] = bf16;
  cost.bytes_read = read, cost.bytes_written = written;
  return cost;
}

TEST(Roofline, IsTheSlowerOfOperationsAndBytes) {
  EXPECT_DOUBLE_EQ(roofline_seconds(cost(200, 400, 5, 5), peaks()), 3);    // 2 + 1 by operations
  EXPECT_DOUBLE_EQ(roofline_seconds(cost(200, 400, 30, 20), peaks()), 5);  // by bytes
  EXPECT_DOUBLE_EQ(roofline_seconds(cost(0, 0, 30, 20), peaks()), 5);
}

TEST(Roofline, IsUnknownWhereARateIs) {
  MachinePeaks unknown = peaks();
  unknown.bytes_per_second = 0;
  EXPECT_EQ(roofline_seconds(cost(200, 0, 1, 0), unknown), 0);
  unknown = peaks();
  unknown.flops_per_second = {};
  EXPECT_EQ(roofline_seconds(cost(200, 0, 1, 0), unknown), 0);
  EXPECT_GT(roofline_seconds(cost(0, 0, 1, 0), unknown), 0);
}

/// An op that, in the record, took `seconds` until now.
void op(StepRecord& record, const char* name, double begin, double end, Cost c = {}) {
  OpEntryRecord entry;
  entry.op = name, entry.kernel = "k";
  entry.cost = c;
  entry.begin_seconds = begin, entry.end_seconds = end;
  record.op(entry);
}

const ProfileRow* find(const Profile& profile, const std::string& phase, const std::string& name) {
  for (const ProfileRow& row : profile.rows) {
    if (row.phase == phase && row.name == name) return &row;
  }
  return nullptr;
}

TEST(Profile, RowsAddUpToTheSteps) {
  StepRecord record;
  op(record, "before", 0, 1);
  for (int step = 0; step < 2; ++step) {
    const RecordScope scope(&record, ScopeKind::step, "step");
    const double t = 1000 * step;
    {
      const RecordScope forward(&record, ScopeKind::phase, "forward");
      const RecordScope segment(&record, ScopeKind::segment, "mlp");
      op(record, "inner", t + 11, t + 12, cost(50, 0, 0, 0));
      op(record, "gemm", t + 10, t + 14, cost(100, 0, 5, 5));
      op(record, "gemm", t + 20, t + 21);
    }
    op(record, "between", t + 30, t + 31);
    CollectiveRecord all_reduce;
    all_reduce.operation = Collective::all_reduce, all_reduce.group = "tp",
    all_reduce.wire_bytes = 99;
    all_reduce.ranks = 2;
    const int64_t handle = record.launch(all_reduce);
    record.launch(all_reduce);  // never waited for
    const RecordScope backward(&record, ScopeKind::phase, "backward");
    record.complete(handle, 40, 42.5, 1);
  }
  op(record, "after", 9000, 9001);
  const Profile table = profile(record, peaks());
  EXPECT_EQ(table.steps, 2);
  double sum = 0;
  for (const ProfileRow& row : table.rows) sum += row.seconds;
  EXPECT_NEAR(sum, table.seconds, 1e-9);

  const ProfileRow* gemm = find(table, "forward", "gemm");
  ASSERT_NE(gemm, nullptr);
  EXPECT_EQ(gemm->calls, 4);
  EXPECT_DOUBLE_EQ(gemm->seconds, 2 * (4 - 1 + 1)) << "the op inside counts for itself";
  EXPECT_DOUBLE_EQ(find(table, "forward", "inner")->seconds, 2);
  EXPECT_DOUBLE_EQ(gemm->roofline_seconds, 2);
  EXPECT_DOUBLE_EQ(gemm->roofline_fraction(), 0.25);
  EXPECT_DOUBLE_EQ(gemm->flops_per_second(), 25);
  EXPECT_DOUBLE_EQ(gemm->bytes_per_second(), 2.5);
  EXPECT_NE(find(table, "step", "between"), nullptr);
  const ProfileRow* wait = find(table, "backward", "all_reduce tp");
  ASSERT_NE(wait, nullptr) << "a wait belongs to the phase that waited";
  EXPECT_EQ(wait->kind, ProfileKind::communication);
  EXPECT_DOUBLE_EQ(wait->seconds, 5);
  EXPECT_EQ(wait->cost.bytes_written, 198);
  for (const char* outside : {"before", "after"})
    EXPECT_EQ(find(table, "step", outside), nullptr) << outside;
  for (const char* phase : {"forward", "backward", "step"})
    EXPECT_NE(find(table, phase, "host"), nullptr) << phase;
}

TEST(Profile, SumsOverPhases) {
  StepRecord record;
  {
    const RecordScope scope(&record, ScopeKind::step, "step");
    for (const char* phase : {"forward", "backward"}) {
      const RecordScope inside(&record, ScopeKind::phase, phase);
      const auto begin = static_cast<double>(record.ops().size());  // each after the one before
      op(record, "norm", begin, begin + 1, cost(10, 0, 0, 0));
    }
  }
  const auto rows = over_phases(profile(record, peaks()));
  ASSERT_EQ(rows.size(), 2u);  // norm, host
  EXPECT_EQ(rows[0].name, "norm");
  EXPECT_EQ(rows[0].calls, 2);
  EXPECT_DOUBLE_EQ(rows[0].seconds, 2);
  EXPECT_DOUBLE_EQ(rows[0].cost.total_flops(), 20);
}

}  // namespace
}  // namespace viaduct
