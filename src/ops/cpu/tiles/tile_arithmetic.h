#pragma once
// Multiply-adds of units (tile_units.h): sums += one unit, broadcast to a register, times the units
// of another. Compiled per instruction set.

#include "ops/cpu/tiles/tile_units.h"

namespace viaduct::cpu::VIADUCT_ISA {
namespace {

struct Fused {
  using Element = float;
  static Vec add(Vec sums, Units spread, Units row) {
    return fma(as_floats(spread), as_floats(row), sums);
  }
};

#if defined(__AVX512BF16__)
struct Pairs {
  using Element = bfloat16;
  static Vec add(Vec sums, Units spread, Units row) {
    return _mm512_dpbf16_ps(sums, (__m512bh)spread, (__m512bh)row);
  }
};
#endif

}  // namespace
}  // namespace viaduct::cpu::VIADUCT_ISA
