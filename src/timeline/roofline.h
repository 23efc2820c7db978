#pragma once
// The highest speed of a rank: the roofline model (Williams, Waterman and Patterson 2009).

#include "timeline/record.h"

namespace viaduct {

/// Upper limits of rates with operands in memory. 0: unknown.
struct MachinePeaks {
  std::array<double, kFlopFormats> flops_per_second{};  // by FlopFormat
  double bytes_per_second = 0;                          // of memory, read and written together
};

/// The minimum time of an op of this cost: the time of its operations (several formats one after
/// the other), or of its bytes, whichever is longer. 0 if a rate that it needs is unknown.
double roofline_seconds(const Cost& cost, const MachinePeaks& peaks);

}  // namespace viaduct
