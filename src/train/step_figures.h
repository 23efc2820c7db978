#pragma once
// What the ranks of a run tell each other in the one host call of a step. A rank fills it between
// steps and sends it with the next step; its length does not grow with the ranks.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/host_group.h"
#include "model/flops.h"
#include "report/metrics.h"

namespace viaduct {

/// What the loop asks; merged, what any rank asks.
struct StepRequests {
  bool stop = false;            // asked to stop
  bool folder_deleted = false;  // checkpoint.save was deleted
  bool writes = false;          // a save is being written in the background
  double run_seconds = 0;       // that the session takes so far; merged, the most of any rank
};

/// The times of a rank's last step.
struct LastStep {
  int64_t step = 0;  // 0: no step yet
  double step_seconds = 0, data_seconds = 0, communication_seconds = 0;
};

/// What one rank contributes.
struct RankFigures {
  StepRequests requests;
  LastStep last;
  int64_t tokens = 0;  // of the step that sends it, like `flops`
  FlopCount flops;
  bool counted = true;  // tokens and flops; false: they copy another rank's
  int64_t peak_memory_bytes = 0;
};

/// The figures of all ranks, equal on all of them.
struct RunFigures {
  StepRequests requests;
  double tokens = 0;  // summed, like `flops`
  FlopCount flops;
  FiguresOfRanks ranks;  // their `step` is not part of the call
};

std::vector<HostFigure> host_figures(const RankFigures& mine);
/// The answer to `host_figures`.
RunFigures figures_of_run(std::span<const FigureOfRanks> merged);

}  // namespace viaduct
