#pragma once
// Implements section `profiling`: records the chosen steps of the chosen ranks and writes, one file
// a rank, the trace (timeline/chrome_trace.h) and the memory history (timeline/memory_history.h).
// With use_nsys_profiler it tells an attached profiler when to record, and marks scopes.

#include <filesystem>
#include <vector>

#include "comm/mesh.h"
#include "device/device.h"
#include "run/run_config.h"
#include "timeline/chrome_trace.h"

namespace viaduct {

/// `trace_rank_00003.json` in checkpoint.save, or without it in the current folder.
std::filesystem::path trace_path(const RunConfig& config, GlobalRank rank);
/// profiling.memory_snapshot_path with `_rank_00003` before its extension.
std::filesystem::path memory_history_path(const RunConfig& config, GlobalRank rank);

class StepProfiler {
 public:
  /// Construct before the rank allocates anything: a memory history names the origin of existing
  /// allocations. `config` and `device` must outlive the profiler.
  StepProfiler(const RunConfig& config, Device& device, GlobalRank rank);
  ~StepProfiler();
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  /// Before the step of this number (the first of a run is 1): the record now attached to the
  /// device, null if this step is not recorded.
  StepRecord* begin_step(int64_t number);
  /// Call after the step. After the last chosen step this rank writes its files (IoError on
  /// failure); returns the files of all ranks, which are written after the same step.
  std::vector<std::filesystem::path> end_step(int64_t number);
  /// Call at the end of the run: the same for an incomplete window.
  std::vector<std::filesystem::path> finish();

 private:
  void write() const;
  void detach();
  void watch(bool on);

  const RunConfig& config_;
  const ProfilingConfig& settings_;
  Device& device_;
  GlobalRank rank_;
  bool traces_ = false, remembers_ = false, marks_ = false;  // on this rank
  bool watched_ = false;                                     // a profiler is recording
  int64_t first_step_ = 0, last_step_ = 0;  // numbers of recorded steps so far; 0: none
  bool written_ = false;
  StepRecord record_;
  TraceSettings trace_;
};

}  // namespace viaduct
