#include "timeline/roofline.h"

#include <algorithm>

namespace viaduct {

double roofline_seconds(const Cost& cost, const MachinePeaks& peaks) {
  const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
  if (bytes > 0 && peaks.bytes_per_second <= 0) return 0;
  double computing = 0;
  for (size_t format = 0; format < cost.flops.size(); ++format) {
    if (cost.flops[format] <= 0) continue;
    if (peaks.flops_per_second[format] <= 0) return 0;
    computing += cost.flops[format] / peaks.flops_per_second[format];
  }
  return std::max(computing, bytes > 0 ? bytes / peaks.bytes_per_second : 0);
}

}  // namespace viaduct
