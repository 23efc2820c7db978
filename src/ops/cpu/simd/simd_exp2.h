#pragma once
// 2^x in few operations, for results that are rounded to 16 bits. Internal linkage (see simd.h).

#include "ops/cpu/simd/simd.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

/// 2^x for x in [−252, 252], NaN for NaN: 0 and infinity beyond the range of FP32. The polynomial
/// for the fraction in [−½, ½] has a relative error of 7.5e-8.
inline Vec exp2_short(Vec x) {
  const Vec n = round_nearest(x), f = sub(x, n);
  Vec p = set1(1.3276466634124517e-3f);
  p = fma(p, f, set1(9.6755418926477432e-3f));
  p = fma(p, f, set1(5.5507134646177292e-2f));
  p = fma(p, f, set1(2.4022120237350464e-1f));
  p = fma(p, f, set1(6.9314694404602051e-1f));
  p = fma(p, f, set1(1.0000001192092896f));
  return scale_by_power(p, n);
}

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
