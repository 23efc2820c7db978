#pragma once
// Nsight Systems and its kind: which part of the run they record, and ranges on the host's thread
// that name what it does (NVTX, whose header loads a library only in a process that is profiled).

#include <string>

#include "timeline/record.h"

namespace viaduct {

/// Begins or ends the capture range (`nsys profile --capture-range=cudaProfilerApi`).
void watch_process(bool on);

class ProfilerMarks final : public ScopeMarks {
 public:
  void begin(const std::string& name) override;
  void end() override;
};

}  // namespace viaduct
