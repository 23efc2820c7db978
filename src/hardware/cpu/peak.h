#pragma once
// The measured matmul peak of this machine: multiply-adds on values that stay in registers. No
// kernel can exceed it, so the fraction of it measures how far a kernel or a training step is from
// the hardware's limit.

#include "base/thread_pool.h"
#include "hardware/cpu_isa.h"
#include "hardware/matmul_peak.h"
#include "tensor/dtype.h"

namespace viaduct {

/// Duration of a measurement: about a quarter of a second, or about ten milliseconds between the
/// steps of a run.
enum class PeakEffort { thorough, glance };

/// Measures on all threads of `pool`: the best of several rounds, because other work on the machine
/// only ever lowers a round. `compute` is the format of the matrix products: f32, bf16 or f16;
/// `isa` the instruction set that computes them. The BF16 peak is that of the BF16 products of
/// `isa`, AMX tiles or AVX512-BF16; without them, and for FP16, products run as FP32 FMA, and the
/// peak is named accordingly. DeviceError for another format or an instruction set that this
/// machine lacks.
MatmulPeak measure_matmul_peak(ThreadPool& pool, DType compute, CpuIsa isa,
                               PeakEffort effort = PeakEffort::thorough);

}  // namespace viaduct
