// The memory that a chunk keeps of a micro-batch for its backward lies in a frame: an allocation's
// offset in its slot depends only on the tensor, and there are as many slots as micro-batches in
// flight.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/plan_memory.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;

RunSetup setup_of_run(const Overrides& overrides) {
  return setup_of(tiny_run() +
                  Overrides{"model.num_layers=4", "train.global_batch_size=8",
                            "train.micro_batch_size=1", "dist.threads_per_rank=1"} +
                  overrides);
}

const std::string kFourStages = "model.pipeline_model_parallel_size=4";

/// Checks that every framed allocation is at its frame's offset plus its own, which is the same for
/// all micro-batches of the chunk. Returns the number of allocations of a micro-batch, by chunk.
std::map<int, size_t> expect_frames(const PlannedMemory& memory) {
  std::map<std::pair<int, int64_t>, const Frame*> frames;
  for (const Frame& frame : memory.frames) frames[{frame.kind, frame.instance}] = &frame;
  std::map<std::pair<int, int64_t>, std::vector<int64_t>> layouts;
  const auto& step = memory.plan.sequences[static_cast<size_t>(MemorySequence::step)];
  for (const FramedAllocation& one : memory.framed) {
    const Frame& frame = *frames.at({one.chunk, one.micro_batch});
    const PlannedAllocation& planned = step.at(one.index);
    EXPECT_EQ(planned.offset, frame.offset + one.offset);
    EXPECT_LE(one.offset + planned.bytes, frame.bytes);
    EXPECT_LE(planned.offset + planned.bytes, memory.plan.arena_bytes);
    layouts[{one.chunk, one.micro_batch}].push_back(one.offset);
  }
  std::map<int, size_t> sizes;
  for (const auto& [instance, layout] : layouts) {
    const auto& first = layouts.lower_bound({instance.first, 0})->second;
    EXPECT_EQ(layout, first) << "chunk " << instance.first << ", micro-batch " << instance.second;
    sizes[instance.first] = layout.size();
  }
  return sizes;
}

int slots(const PlannedMemory& memory) {
  std::set<int64_t> offsets;
  for (const Frame& frame : memory.frames) offsets.insert(frame.offset);
  return static_cast<int>(offsets.size());
}

TEST(MemoryFrames, SlotsAreTheMicroBatchesInFlight) {
  for (int stage = 0; stage < 4; ++stage) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    const PlannedMemory memory =
        plan_memory(setup_of_run({"dist.ranks=4", kFourStages}), GlobalRank{stage});
    EXPECT_EQ(memory.frames.size(), 8u);
    EXPECT_EQ(slots(memory), 4 - stage);
    const auto sizes = expect_frames(memory);
    ASSERT_EQ(sizes.size(), 1u);
    EXPECT_GT(sizes.at(0), 8u);
  }
}

TEST(MemoryFrames, MicroBatchesOfALoneRankTakeTurnsInOneSlot) {
  for (const Overrides& more :
       {Overrides{},
        Overrides{"model.recompute_granularity=full", "model.recompute_method=uniform",
                  "model.recompute_num_layers=2"},
        Overrides{"mixed_precision=bf16_mixed", "model.hidden_dropout=0.1"}}) {
    const PlannedMemory memory = plan_memory(setup_of_run(more));
    EXPECT_EQ(memory.frames.size(), 8u);
    EXPECT_EQ(slots(memory), 1);
    EXPECT_GE(expect_frames(memory)[0], 2u);
  }
}

// The chunks of the stages between the first and the last are equal, and share slots.
TEST(MemoryFrames, ChunksThatAreAlikeShareSlots) {
  const RunSetup setup = setup_of_run({"dist.ranks=4", "model.num_layers=8", kFourStages,
                                       "model.virtual_pipeline_model_parallel_size=2"});
  const PlannedMemory memory = plan_memory(setup, GlobalRank{1});
  EXPECT_EQ(memory.frames.size(), 16u);
  EXPECT_EQ(expect_frames(memory).size(), 2u);
  std::map<int, std::set<int64_t>> offsets;  // by chunk
  for (const Frame& frame : memory.frames) offsets[frame.kind].insert(frame.offset);
  EXPECT_LT(static_cast<size_t>(slots(memory)), offsets[0].size() + offsets[1].size());
}

TEST(MemoryFrames, OneMicroBatchNeedsNone) {
  const PlannedMemory memory = plan_memory(setup_of_run({"train.global_batch_size=1"}));
  EXPECT_TRUE(memory.frames.empty());
  EXPECT_TRUE(memory.framed.empty());
}

}  // namespace
}  // namespace viaduct
