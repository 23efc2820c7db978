#pragma once
// How fast a rank can be at most: the roofline model (Williams, Waterman and Patterson 2009).

#include "timeline/record.h"

namespace viaduct {

/// Rates that no op passes with its operands in memory. 0: unknown.
struct MachinePeaks {
  std::array<double, kFlopFormats> flops_per_second{};  // by FlopFormat
  double bytes_per_second = 0;                          // of memory, read and written together
};

/// The least time that an op of this cost takes: that of its operations (those of several formats
/// one after the other), or of its bytes, whichever is longer. 0 if a rate that it needs is
/// unknown.
double roofline_seconds(const Cost& cost, const MachinePeaks& peaks);

}  // namespace viaduct
