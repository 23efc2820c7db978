#pragma once
// BF16 matrix products of linear layers on tiles (tiles.h). All threads pack a chunk of B, then
// each takes blocks of C, for which it packs A and sums in its own cache. All sizes depend on the
// shape and the instruction set alone.

#include "base/thread_pool.h"
#include "ops/cpu/gemm_entry.h"
#include "ops/cpu/tiles.h"
#include "ops/gemm.h"

namespace viaduct::cpu {

/// What fits an instruction set's caches, at most. Multiples of 16 (rows) and 32; rows × columns
/// and rows × depth up to 96 K, depth up to 768.
struct TileBlocking {
  int64_t rows, columns;  // a block of C, one task
  int64_t depth;          // contracted elements between two visits of a block's C
};

/// Bytes of workspace that `gemm_on_tiles` needs.
int64_t tile_workspace_bytes(const GemmArgs& args, const TileBlocking& blocking);

/// a, b BF16; c and bias BF16 or FP32. An element's order of summation depends on the contracted
/// size alone.
void gemm_on_tiles(ThreadPool& pool, const GemmArgs& args, const TileBlocking& blocking,
                   const TileKernels& tiles, const GemmKernels& kernels, void* workspace);

}  // namespace viaduct::cpu
