#pragma once
// The rate that MFU is measured against. Every printed MFU names its peak, so the name is stored
// with the number.

#include <string>

namespace viaduct {

struct MatmulPeak {
  /// Dense peak of one rank in TFLOP/s; 0 if unknown (MFU is then null).
  double tflops = 0;
  /// What it is: "BF16 AMX", "FP32 FMA AVX-512", "FP8 dense of h100-sxm".
  std::string name;
  /// Measured on this machine, or taken from a data sheet.
  bool measured = false;
  int threads = 0;

  bool known() const { return tflops > 0; }
  /// Takes a later measurement of the same peak if it is higher: clocks move, and other work on the
  /// machine only ever lowers a measurement.
  void keep_best(const MatmulPeak& later);
  /// "FP32 FMA AVX-512, 0.412 TFLOP/s measured on 2 threads".
  std::string describe() const;
};

/// Model FLOP/s utilization: the rate of a rank over its peak, at most 1 (a rate above a measured
/// peak means that the clock has risen since), or −1 if the peak is unknown.
double model_flops_utilization(double tflops_per_rank, const MatmulPeak& peak);

}  // namespace viaduct
