#pragma once
// Codes of 8 bits whose contracted dim is first in memory, for matrix units that want it last: a
// thread reads 16 kept elements of four depths, and writes four depths of 16 elements.

#include "ops/cuda/kernels/coded_tile.cuh"
#include "ops/cuda/kernels/swizzled_tile.cuh"

namespace viaduct::cuda {

/// 4 × 16 codes.
struct CodeBlock {
  Run<uint32_t, 4> depths[4];
};

/// Where the thread's block begins in a tile of 128 × 128, of 256 threads. Of a warp, two lanes
/// read 32 bytes of memory together, and four write a run of 16 to shared memory, two of which meet
/// in a bank.
struct BlockPlace {
  int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  int depth = ((warp % 2 * 4 + lane / 8) * 4 + lane % 4) * 4;
  int kept = (warp / 2 * 2 + lane / 4 % 2) * 16;
};

/// Of a tile that begins at (kept, depth); zeros where the operand ends, whose rows of memory are
/// depths.
__device__ inline CodeBlock read_block(const CodedOperand& from, const ExpertCodes& own,
                                       int64_t kept, int64_t depth) {
  const BlockPlace place;
  const int64_t i = kept + place.kept;
  CodeBlock block{};
#pragma unroll
  for (int each = 0; each < 4; ++each) {
    const int64_t l = depth + place.depth + each;
    if (i < own.columns && l < own.rows)
      block.depths[each] =
          *reinterpret_cast<const Run<uint32_t, 4>*>(own.values + l * from.stride + i);
  }
  return block;
}

template <class T>
__device__ void store_block(SwizzledTile<T, true, 128>& to, const CodeBlock& block) {
  const BlockPlace place;
  const int run = place.depth / kSwizzledRun, at = place.depth % kSwizzledRun;
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    const uint32_t x[4] = {block.depths[0].values[word], block.depths[1].values[word],
                           block.depths[2].values[word], block.depths[3].values[word]};
    // Bytes 0 and 1, then 2 and 3, of two depths alternate.
    const uint32_t low[2] = {__byte_perm(x[0], x[1], 0x5140), __byte_perm(x[2], x[3], 0x5140)};
    const uint32_t high[2] = {__byte_perm(x[0], x[1], 0x7362), __byte_perm(x[2], x[3], 0x7362)};
    const uint32_t columns[4] = {
        __byte_perm(low[0], low[1], 0x5410), __byte_perm(low[0], low[1], 0x7632),
        __byte_perm(high[0], high[1], 0x5410), __byte_perm(high[0], high[1], 0x7632)};
#pragma unroll
    for (int j = 0; j < 4; ++j)
      store_operand(to.run(place.kept + 4 * word + j, run) + at, columns[j]);
  }
}

}  // namespace viaduct::cuda
