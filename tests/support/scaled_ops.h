#pragma once
// Ops of a device (scaled_device.h) whose GEMMs read only scaled operands: values with scales, in
// the device's own forms. All other ops are the cpu's. Whole steps run on it with unchanged layers.

#include "ops/cpu/cpu_ops.h"

namespace viaduct::test {

enum class ScaledValues {
  /// In the matrix's format, divided by a power of two for each group: this is exact, so all
  /// numbers equal the cpu's to the bit. Weights are tiles in the device's own order, with a scale
  /// for each tile; other operands have the contracted dim last and a scale for 8 elements of it.
  exact,
  /// MXFP8: e4m3 with an e8m0 scale for 32 elements of the contracted dim, row-major.
  mxfp8,
  /// The same with i8 elements.
  mxint8,
};

/// The cpu's table for `isa` with GEMMs that read `values`. f64 runs the reference as usual.
/// `for_simulation`: as `cpu_ops`.
OpTable scaled_ops(ScaledValues values, CpuIsa isa, bool for_simulation = false);

}  // namespace viaduct::test
