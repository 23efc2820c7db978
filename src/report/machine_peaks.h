#pragma once
// Measured rates for the roofline of this rank.

#include "base/thread_pool.h"
#include "hardware/cpu/stream_bandwidth.h"
#include "ops/cpu/cpu_ops.h"
#include "timeline/roofline.h"

namespace viaduct {

struct MeasuredPeaks {
  MachinePeaks peaks;
  StreamBandwidth stream;
  std::string matmul_names;  // "FP32 FMA AVX-512, 0.2 TFLOP/s …; …"
};

/// About half a second on all threads of `pool`, with the instructions of `isa`. FP64 counts as
/// half of FP32; bandwidth is the best of read, copy and triad.
MeasuredPeaks measure_peaks(ThreadPool& pool, CpuIsa isa);

}  // namespace viaduct
