#include "engine/plan_memory.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "engine/saved_frames.h"

namespace viaduct {
namespace {

/// Where allocations of a plan begin: on GPUs as those of the runtime, which is the most that their
/// libraries ask for.
int64_t plan_alignment(const RunSetup& setup) {
  return setup.config.cuda_target ? 256 : 64;
}

MemoryTag tag_of(std::string_view name) {
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    if (memory_tag_name(static_cast<MemoryTag>(tag)) == name) return static_cast<MemoryTag>(tag);
  }
  fail<DeviceError>("memory plan: no owner is called {}", name);
}

/// The sequence that `position` lies in, −1 if none.
int sequence_at(const DryRun& run, int64_t position) {
  for (int s = 0; s < kMemorySequences; ++s) {
    const SequenceWindow& window = run.windows[static_cast<size_t>(s)];
    if (window.begin <= position && position < window.end) return s;
  }
  return -1;
}

/// Which items lie in frames, and where in them. `entries`: where the sequence of the plan has the
/// lifetimes.
std::vector<FramedAllocation> framed_allocations(const FramedPlacement& placed,
                                                 const std::vector<FrameItem>& items,
                                                 const std::vector<size_t>& entries) {
  std::map<std::pair<int, int64_t>, int64_t> offsets;  // of frames
  for (const Frame& frame : placed.frames) offsets[{frame.kind, frame.instance}] = frame.offset;
  std::vector<FramedAllocation> list;
  for (const FrameItem& item : items) {
    const auto frame = offsets.find({item.kind, item.instance});
    if (frame == offsets.end()) continue;
    list.push_back({entries[item.lifetime], item.kind, item.instance,
                    placed.placement.offsets[item.lifetime] - frame->second});
  }
  return list;
}

int64_t last_position(const DryRun& run) {
  int64_t last = 0;
  for (const SequenceWindow& window : run.windows) last = std::max(last, window.end);
  return last;
}

}  // namespace

PlannedMemory plan_memory(const RunSetup& setup, GlobalRank rank) {
  const double begin = steady_seconds();
  StepRecord record;
  const DryRun run = dry_run(setup, rank, &record, setup.config.validation.evaluates());
  const int64_t last = last_position(run), alignment = plan_alignment(setup);
  PlannedMemory memory;
  memory.peak = run.peak;
  memory.offload = run.offload;
  memory.save_copy_bytes = run.save_copy_bytes;
  memory.library_calls = run.library_calls;
  std::array<std::vector<Lifetime>, kMemorySequences> lifetimes;
  std::array<std::vector<size_t>, kMemorySequences> entries;   // of the plan, by lifetime
  std::array<std::vector<FrameItem>, kMemorySequences> items;  // of steps only
  const SavedFrames saved(record);
  int64_t resident_bytes = 0;
  for (const AllocationRecord& a : record.allocations()) {
    PlannedAllocation planned{tag_of(a.tag), a.bytes, 0};
    const int made = sequence_at(run, a.allocated_at);
    const bool held = a.released_at < 0 || a.released_at >= last;
    if (!held && made < 0 && sequence_at(run, a.released_at) < 0) continue;  // of the first step
    if (held || made < 0 || sequence_at(run, a.released_at) != made) {
      planned.offset = resident_bytes;
      resident_bytes += (a.bytes + alignment - 1) / alignment * alignment;
      memory.plan.resident.push_back(planned);
      if (made < 0) continue;
      planned.offset = kResident;
      memory.plan.sequences[static_cast<size_t>(made)].push_back(planned);
    } else {
      const auto sequence = static_cast<size_t>(made);
      if (const auto kept = saved.kept_for(a))
        items[sequence].push_back({lifetimes[sequence].size(), kept->chunk, kept->micro_batch});
      entries[sequence].push_back(memory.plan.sequences[sequence].size());
      memory.plan.sequences[sequence].push_back(planned);
      lifetimes[sequence].push_back({a.bytes, a.allocated_at, a.released_at});
    }
  }
  // One sequence is done when another begins, so they share the room above what is resident.
  int64_t above = 0, above_at_least = 0;
  for (size_t s = 0; s < lifetimes.size(); ++s) {
    FramedPlacement framed = place_in_frames(lifetimes[s], items[s], alignment, resident_bytes);
    const Placement& placement = framed.placement;
    for (size_t i = 0; i < placement.offsets.size(); ++i)
      memory.plan.sequences[s][entries[s][i]].offset = resident_bytes + placement.offsets[i];
    above = std::max(above, placement.bytes);
    above_at_least = std::max(above_at_least, placement.lower_bound);
    if (s != static_cast<size_t>(MemorySequence::step)) continue;
    memory.framed = framed_allocations(framed, items[s], entries[s]);
    for (Frame& frame : framed.frames) frame.offset += resident_bytes;
    memory.frames = std::move(framed.frames);
  }
  memory.plan.arena_bytes = resident_bytes + above;
  memory.lower_bound_bytes = resident_bytes + above_at_least;
  memory.seconds = steady_seconds() - begin;
  return memory;
}

}  // namespace viaduct
