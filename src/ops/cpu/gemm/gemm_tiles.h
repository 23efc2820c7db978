#pragma once
// Matrix products of linear layers on tiles (tiles.h): BF16 operands on BF16 tiles; FP32, BF16 or
// FP16 operands on FP32 tiles. All threads pack a chunk of B, then each takes blocks of C, for
// which it packs A and sums in its own cache. All sizes depend on the shape and the instruction set
// alone, and an element's order of summation on the contracted size alone.

#include <span>

#include "base/thread_pool.h"
#include "ops/cpu/gemm/gemm_epilogue.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

/// Maximum sizes for an instruction set's caches. Multiples of 16 (rows) and 32, columns of 64;
/// rows × columns up to 96 K, rows × depth up to 512 KB.
struct TileBlocking {
  int64_t rows, columns;  // a block of C, one task
  int64_t depth;          // contracted elements between two visits to a block's C
  // If a block's rows of A, of the whole contracted size, take at most so many bytes (up to 512 K),
  // it packs them once and has up to `wide_columns` columns.
  int64_t kept_bytes = 0, wide_columns = 0;
  bool fetches = true;  // the next part of A is prefetched while products run
  int64_t streamed_bytes =
      0;  // results of at least so many bytes are written past the caches; 0: none
};

/// Steps between two visits to a block's C; each visit is a sum that begins at zero.
template <class Element>
int64_t tile_visit(int64_t depth, const TileBlocking& blocking);

/// Bytes of workspace that a product needs; several that run together need the sum.
template <class Element>
int64_t tile_workspace_bytes(const GemmArgs& args, const TileBlocking& blocking);

/// The form of a packed BF16 weight: B tiles, strips of all steps one after the other. They take
/// the same bytes as the weight (each dim rounded up to whole tiles), in either orientation.
OperandForm bf16_tiles(Orientation orientation);

/// Products that do not depend on each other, with the bits of one after the other; together they
/// keep the threads busy where one of them has few blocks. c and bias: dtype of a, or FP32; b:
/// rows, or for BF16 also `bf16_tiles`. `Element`: bfloat16 or float. Sums are multiplied by
/// `factor` before all else.
template <class Element>
void gemms_on_tiles(ThreadPool& pool, std::span<const GemmArgs> products,
                    const TileBlocking& blocking, const TileKernelsOf<Element>& tiles,
                    const FinishKernels& kernels, void* workspace, float factor);

/// args.out in the form bf16_tiles.
void pack_bf16_tiles(ThreadPool& pool, const ConvertOperandArgs& args, const TileKernels& tiles);

}  // namespace viaduct::cpu
