#include "ops/cpu/tiles/tile_check.h"

namespace viaduct::cpu {
namespace {

constexpr int64_t kSize = 32, kDepth = 64;

/// Whole numbers in ±4, different along rows and columns.
float entry(int64_t row, int64_t column) {
  return static_cast<float>((row * 7 + column * 3 + row * column) % 9 - 4);
}

}  // namespace

bool tiles_compute(const TileKernels& tiles) {
  alignas(64) bfloat16 a[kSize * kDepth], b[kDepth * kSize];
  alignas(64) bfloat16 a_tiles[kSize * kDepth], b_tiles[kSize * kDepth];
  alignas(64) float c[kSize * kSize];
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t k = 0; k < kDepth; ++k) {
      a[i * kDepth + k] = bfloat16(entry(i, k));
      b[k * kSize + i] = bfloat16(entry(k, i));
    }
  }
  constexpr int64_t kStrip = kDepth * kTileRows;
  tiles.pack_a({a, DType::bf16, kDepth, false, kSize, kDepth}, a_tiles, kStrip);
  tiles.pack_b({b, DType::bf16, kSize, true, kSize, kDepth}, b_tiles, kStrip);
  TileProduct product{kSize, kSize, kDepth / kTileDepth, a_tiles, kStrip, b_tiles, kStrip, c,
                      kSize, false};
  const TileScope scope(tiles);
  tiles.product(product);
  product.accumulate = true;
  tiles.product(product);
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t j = 0; j < kSize; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < kDepth; ++k) sum += entry(i, k) * entry(k, j);
      if (c[i * kSize + j] != 2 * sum) return false;
    }
  }
  return true;
}

}  // namespace viaduct::cpu
