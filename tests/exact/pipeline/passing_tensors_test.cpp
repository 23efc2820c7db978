// Tensors beside the residual stream cross every edge between the segment that makes them and their
// last reader, and their gradients return; every layout computes bit by bit what one rank does.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "pipeline/validate_schedule.h"
#include "support/passing_model.h"

namespace viaduct {
namespace {

using test::PassingOutcome;
using test::PassingRun;

struct Case {
  int pp, virtual_stages;
  ScheduleKind kind;
};

std::vector<Case> cases() {
  using enum ScheduleKind;
  return {{1, 1, one_f_one_b}, {2, 1, one_f_one_b}, {4, 1, one_f_one_b}, {2, 1, gpipe},
          {4, 1, gpipe},       {2, 1, zb_h1},       {4, 1, zb_h1},       {2, 2, interleaved},
          {4, 2, interleaved}, {2, 4, interleaved}};
}

PassingRun run_of(const Case& c, int64_t micro_batches) {
  PassingRun run;
  run.schedule = {.kind = c.kind,
                  .pp = c.pp,
                  .virtual_stages = c.virtual_stages,
                  .micro_batches = micro_batches};
  return run;
}

/// Bytes sent by a rank, with `element` bytes for an element of the stream.
int64_t sent_by(const PassingRun& run, int rank, int64_t element) {
  const int pp = run.schedule.pp, stages = pp * run.schedule.virtual_stages;
  int64_t tokens = 0, sum = 0;
  for (int64_t i = 0; i < run.schedule.micro_batches; ++i) tokens += test::passing_tokens(i);
  const auto edge = [&](int stage, int64_t labels) {  // before the virtual stage
    const bool scored = stage * test::kPassingBlocks / stages > 1;
    return tokens * (test::kPassingHidden * element + labels + (scored ? 4 : 0));
  };
  for (int stage = rank; stage < stages; stage += pp) {
    if (stage + 1 < stages) sum += edge(stage + 1, 8);
    if (stage > 0 && run.schedule.backward) sum += edge(stage, 0);
  }
  return sum;
}

void expect_sent(const PassingRun& run, const PassingOutcome& outcome, int64_t element) {
  for (int rank = 0; rank < run.schedule.pp; ++rank)
    EXPECT_EQ(outcome.sent_bytes[static_cast<size_t>(rank)], sent_by(run, rank, element)) << rank;
}

TEST(PassingTensors, EveryLayoutComputesWhatOneRankDoes) {
  for (const int64_t micro_batches : {4, 8}) {
    const PassingOutcome one =
        run_passing_model(run_of({1, 1, ScheduleKind::one_f_one_b}, micro_batches));
    EXPECT_EQ(one.notes.gradients.size(), size_t{test::kPassingBlocks + 2});
    for (const Case& c : cases()) {
      PassingRun run = run_of(c, micro_batches);
      for (const PointToPoint messages : {PointToPoint::overlapped, PointToPoint::batched}) {
        SCOPED_TRACE(fmt::format("pp {} V {} kind {} M {} messages {}", c.pp, c.virtual_stages,
                                 int(c.kind), micro_batches, int(messages)));
        run.schedule.messages = messages;
        run.executor.deallocate_outputs = messages == PointToPoint::overlapped;
        const PassingOutcome outcome = run_passing_model(run);
        EXPECT_TRUE(outcome.notes == one.notes);
        expect_sent(run, outcome, 4);
      }
    }
  }
}

TEST(PassingTensors, ForwardsAlone) {
  PassingRun run = run_of({1, 1, ScheduleKind::one_f_one_b}, 5);
  run.schedule.backward = false;
  const PassingOutcome one = run_passing_model(run);
  for (const Case& c : cases()) {
    PassingRun split = run_of(c, 5);
    split.schedule.backward = false;
    const PassingOutcome outcome = run_passing_model(split);
    EXPECT_TRUE(outcome.notes == one.notes) << c.pp << " " << c.virtual_stages;
    expect_sent(split, outcome, 4);
  }
}

// A recomputed layer gets all its inputs: `scores` are saved for it if it declares them.
TEST(PassingTensors, LayersThatRunAgain) {
  const PassingOutcome one = run_passing_model(run_of({1, 1, ScheduleKind::one_f_one_b}, 8));
  for (const Case& c : cases()) {
    const int64_t blocks = test::kPassingBlocks / c.pp / c.virtual_stages;
    for (const int64_t group : {int64_t{1}, blocks}) {
      PassingRun run = run_of(c, 8);
      for (int64_t first = 0; first < test::kPassingBlocks; first += group)
        run.policy.recompute_layers({first, group});
      SCOPED_TRACE(fmt::format("pp {} V {} groups of {}", c.pp, c.virtual_stages, group));
      const PassingOutcome outcome = run_passing_model(run);
      EXPECT_TRUE(outcome.notes == one.notes);
    }
  }
}

// Only the stream has a separate message format.
TEST(PassingTensors, AMessageRoundsWhatItsDeclarationLetsItRound) {
  PassingRun run = run_of({2, 1, ScheduleKind::one_f_one_b}, 4);
  const PassingOutcome own = run_passing_model(run);
  run.message_format = DType::bf16;
  const PassingOutcome narrow = run_passing_model(run);
  expect_sent(run, narrow, 2);
  EXPECT_FALSE(narrow.notes == own.notes) << "the stream was rounded";
}

TEST(PassingTensors, ShapesGoAhead) {
  PassingRun run = run_of({2, 2, ScheduleKind::interleaved}, 4);
  const PassingOutcome without = run_passing_model(run);
  run.executor.shapes_first = true;
  EXPECT_TRUE(run_passing_model(run).notes == without.notes);
}

}  // namespace
}  // namespace viaduct
