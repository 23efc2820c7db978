#include <immintrin.h>

#include "hardware/cpu/peak_loops.h"
#include "hardware/cpu/tile_configuration.h"

namespace viaduct::cpu {
namespace {

constexpr TileConfiguration kConfiguration;

void run(const uint16_t* a, const uint16_t* b, float* c, int64_t iterations) {
  constexpr int kRowBytes = 64, kTileFloats = 256;
  // GCC 12 assumes that the instruction reads only 8 of the 64 bytes and may drop the stores of the
  // others: a constant has no stores, and the barrier keeps this safe if the constant becomes a
  // local.
  asm volatile("" ::"r"(&kConfiguration) : "memory");
  _tile_loadconfig(&kConfiguration);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, a, kRowBytes);
  _tile_loadd(5, a + TileLoop::kTileElements, kRowBytes);
  _tile_loadd(6, b, kRowBytes);
  _tile_loadd(7, b + TileLoop::kTileElements, kRowBytes);
  for (int64_t n = 0; n < iterations; ++n) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, kRowBytes);
  _tile_stored(1, c + kTileFloats, kRowBytes);
  _tile_stored(2, c + 2 * kTileFloats, kRowBytes);
  _tile_stored(3, c + 3 * kTileFloats, kRowBytes);
  _tile_release();
}

}  // namespace

TileLoop tile_loop_amx() {
  return {run};
}

}  // namespace viaduct::cpu
