#pragma once
// Ops of a device (scaled_device.h) whose GEMMs read only scaled operands: values with scales, in
// the device's own forms. All other ops are the cpu's. Whole steps run on it with unchanged layers.

#include "ops/cpu/cpu_ops.h"

namespace viaduct::test {

enum class ScaledValues {
  /// In the matrix's format, divided by a power of two for each group: exact, so all numbers are
  /// those of the cpu to the bit. Weights come as tiles in an order of the device's own, with a
  /// scale for each tile; the other operands with the contracted dim last and a scale for 8
  /// elements of it.
  exact,
  /// MXFP8: e4m3 with an e8m0 scale for 32 elements of the contracted dim, row-major.
  mxfp8,
  /// The same of i8 elements.
  mxint8,
};

/// The cpu's table for `isa` with GEMMs that read `values`. f64 runs the reference as usual.
/// `for_simulation`: as `cpu_ops`.
OpTable scaled_ops(ScaledValues values, CpuIsa isa, bool for_simulation = false);

}  // namespace viaduct::test
