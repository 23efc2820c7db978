#pragma once
// Profilers such as Nsight Systems: the part of the run that they record, and ranges that name the
// work of the host's thread (NVTX, whose header loads a library only in a process that is
// profiled).

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
