// Nothing in a rank's step grows with the number of data-parallel ranks: not its launches, not its
// collectives, not the entries of its record.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/dry_run.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

/// The counts of one rank's step.
struct Counts {
  int64_t launches = 0, collectives = 0, ops = 0, allocations = 0, host_reads = 0, events = 0;
  int64_t host_calls = 0;
  int64_t scratch_bytes = 0;  // largest allocation that is not a tensor of the model or of a layer
  int64_t rule_digits = 0;    // of the longest member rule
  bool operator==(const Counts&) const = default;
};

void PrintTo(const Counts& c, std::ostream* out) {
  *out << c.launches << " launches, " << c.collectives << " collectives, " << c.ops << " ops, "
       << c.allocations << " allocations, " << c.host_reads << " host reads, " << c.host_calls
       << " calls of hosts, " << c.events << " events, " << c.scratch_bytes << " bytes of scratch, "
       << c.rule_digits << " digits in a rule of members";
}

Counts counts(int64_t data_ranks, const Overrides& overrides) {
  const RunSetup setup =
      setup_of(tiny_run() +
               Overrides{"train.micro_batch_size=1", "dist.ranks=" + std::to_string(data_ranks),
                         "train.global_batch_size=" + std::to_string(2 * data_ranks),
                         "dist.threads_per_rank=1", "ddp.bucket_size=3000"} +
               overrides);
  StepRecord record;
  const DryRun run = dry_run(setup, {0}, &record);
  Counts c{run.launches};
  const SequenceWindow step = run.windows[static_cast<size_t>(MemorySequence::step)];
  const auto inside = [&](int64_t at) { return at >= step.begin && at < step.end; };
  for (const CollectiveRecord& one : record.collectives()) {
    c.collectives += inside(one.launched_at);
    int64_t digits = 0;
    for (const auto& block : one.members->blocks())
      digits += 1 + static_cast<int64_t>(block.digits.size());
    c.rule_digits = std::max(c.rule_digits, digits);
  }
  for (const OpEntryRecord& op : record.ops()) c.ops += inside(op.at);
  for (const AllocationRecord& a : record.allocations()) c.allocations += inside(a.allocated_at);
  c.host_reads = run.host_reads;
  for (const HostCallRecord& call : record.host_calls()) c.host_calls += inside(call.posted_at);
  c.events = step.end - step.begin;
  for (const AllocationRecord& a : record.allocations()) {
    if (a.tag == "other") c.scratch_bytes = std::max(c.scratch_bytes, a.bytes);
  }
  return c;
}

class AnySize : public testing::TestWithParam<std::pair<std::string, Overrides>> {};

TEST_P(AnySize, ARankDoesTheSame) {
  const Counts two = counts(2, GetParam().second);
  EXPECT_GT(two.launches, 50);
  EXPECT_GT(two.collectives, 4);
  EXPECT_EQ(two.rule_digits, 2);
  EXPECT_EQ(two.host_calls, 1);
  for (const int64_t ranks : {64, 4096, 16384}) {
    const Counts many = counts(ranks, GetParam().second);
    if (GetParam().first != "exchanged") {
      EXPECT_EQ(many, two) << ranks;
      continue;
    }
    // Shards in the message format are copied parameter by parameter, and a smaller shard is part
    // of fewer parameters.
    EXPECT_LE(many.launches, two.launches) << ranks;
    EXPECT_EQ(many.collectives, two.collectives) << ranks;
    EXPECT_LE(many.ops, two.ops) << ranks;
    EXPECT_LE(many.allocations, two.allocations) << ranks;
    EXPECT_EQ(many.scratch_bytes, two.scratch_bytes) << ranks;
    EXPECT_EQ(many.rule_digits, two.rule_digits) << ranks;
    EXPECT_EQ(many.host_calls, 1) << ranks;
    EXPECT_LE(many.events, two.events) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, AnySize,
    testing::Values(
        std::pair{"replicated", Overrides{"ddp.use_distributed_optimizer=false"}},
        std::pair{"overlapped",
                  Overrides{"ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true"}},
        std::pair{"sharded", Overrides{"ddp.use_distributed_optimizer=true"}},
        std::pair{"exchanged",
                  Overrides{"ddp.use_distributed_optimizer=true", "ddp.overlap_grad_reduce=true",
                            "mixed_precision=bf16_mixed", "ddp.grad_reduce_in_fp32=false",
                            "ddp.reduce_scatter_with_fp32_accumulation=true"}}),
    [](const auto& info) { return info.param.first; });

}  // namespace
}  // namespace viaduct
