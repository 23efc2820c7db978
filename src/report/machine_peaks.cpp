#include "report/machine_peaks.h"

#include "hardware/cpu/peak.h"

namespace viaduct {

MeasuredPeaks measure_peaks(ThreadPool& pool, CpuIsa isa) {
  MeasuredPeaks measured;
  const MatmulPeak f32 = measure_matmul_peak(pool, DType::f32, isa);
  const MatmulPeak bf16 = measure_matmul_peak(pool, DType::bf16, isa);
  const auto set = [&](FlopFormat format, double tflops) {
    measured.peaks.flops_per_second[static_cast<size_t>(format)] = tflops * 1e12;
  };
  set(FlopFormat::f64, f32.tflops / 2);
  set(FlopFormat::f32, f32.tflops);
  set(FlopFormat::f16, f32.tflops);  // widened
  set(FlopFormat::bf16, bf16.tflops);
  measured.matmul_names = f32.describe();
  if (bf16.name != f32.name) measured.matmul_names += "; " + bf16.describe();
  measured.stream = measure_stream_bandwidth(pool);
  measured.peaks.bytes_per_second = measured.stream.best();
  return measured;
}

}  // namespace viaduct
