#include "hardware/matmul_peak.h"
#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace viaduct {

std::string MatmulPeak::describe() const {
  if (!known()) return "peak unknown";
  std::string text = fmt::format("{}, {:.4g} TFLOP/s", name, tflops);
  if (measured) text += " measured";
  if (measured && threads > 0) text += " on " + counted(threads, "thread");
  return text;
}

void MatmulPeak::keep_best(const MatmulPeak& later) {
  tflops = std::max(tflops, later.tflops);
}

double model_flops_utilization(double tflops_per_rank, const MatmulPeak& peak) {
  return peak.known() ? std::min(1.0, tflops_per_rank / peak.tflops) : -1;
}

}  // namespace viaduct
