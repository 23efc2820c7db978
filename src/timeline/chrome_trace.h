#pragma once
// A record as a trace in Chrome's JSON format, which https://ui.perfetto.dev and chrome://tracing
// open.

#include <string>

#include "timeline/roofline.h"

namespace viaduct {

struct TraceSettings {
  int rank = 0;
  std::string process;      // name shown for the rank
  MachinePeaks peaks;       // for the fraction of the roofline of each op
  int64_t from = 0;         // position of the record's first event to show
  double from_seconds = 0;  // time 0 of the trace
  /// Bytes held at `from`, by owner.
  std::map<std::string, int64_t> held_bytes;
};

/// One process (the rank) with these tracks: `host and compute` (steps, phases with their
/// micro-batches, segments, ops and waits, one inside the other), `communication GROUP` (each
/// collective and message from launch to completion; more than one track where they overlap), and
/// the counter `memory` by owner. Arrows lead from each collective to the wait for it.
std::string chrome_trace(const StepRecord& record, const TraceSettings& settings);

}  // namespace viaduct
