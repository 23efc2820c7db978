#pragma once
// The matmul peak of this machine, measured: multiply-adds on values that stay in registers. It is
// what no kernel can pass, so a fraction of it says how far a kernel or a training step is from the
// hardware.

#include "base/thread_pool.h"
#include "hardware/matmul_peak.h"
#include "ops/cpu/cpu_ops.h"
#include "tensor/dtype.h"

namespace viaduct {

/// How long a measurement takes: about a quarter of a second, or about ten milliseconds between
/// the steps of a run.
enum class PeakEffort { thorough, glance };

/// Measures on all threads of `pool`: the best of several rounds, since other work on the machine
/// only ever lowers a round. `compute` is the format of the matrix
/// products: f32, bf16 or f16; `isa` what they are computed with. BF16 is that of the products that
/// `isa` has for it, AMX tiles or AVX512-BF16; elsewhere, and for FP16, products run as FP32 FMA,
/// and the peak's name says so. DeviceError for another format or an instruction set that this
/// machine lacks.
MatmulPeak measure_matmul_peak(ThreadPool& pool, DType compute, CpuIsa isa,
                               PeakEffort effort = PeakEffort::thorough);

}  // namespace viaduct
