#pragma once
// The matmul peak of this machine, measured: multiply-adds on values that stay in registers. It is
// what no kernel can pass, so a fraction of it says how far a kernel or a training step is from the
// hardware.

#include "base/thread_pool.h"
#include "hardware/cpu_features.h"
#include "hardware/matmul_peak.h"
#include "tensor/dtype.h"

namespace viaduct {

/// Measures on all threads of `pool`, in about a quarter of a second: the best of several rounds,
/// since other work on the machine only ever lowers a round. `compute` is the format of the matrix
/// products: f32, bf16 or f16. BF16 is AMX products where `features` has them and the kernel grants
/// them; everywhere else, and for FP16, products run as FP32 FMA, and the peak's name says so. Less
/// than the machine has (a forced instruction set) is measured by clearing fields of `features`.
/// DeviceError without AVX2 or for another format.
MatmulPeak measure_matmul_peak(ThreadPool& pool, DType compute, const CpuFeatures& features);

}  // namespace viaduct
