#pragma once
// BF16 attention on tiles (tiles.h): scores and their gradients are products of tiles with FP32
// sums; softmax is FP32; probabilities and score gradients are rounded to BF16 tiles for the
// products that read them. Keys and values are packed once per key-value head, and all query heads
// of a group share them; queries are packed block by block. Blocks without visible pairs are
// skipped. Written against TileKernels, so that tests run it on emulated tile registers.

#include "base/thread_pool.h"
#include "ops/attention.h"
#include "ops/cpu/tiles/tiles.h"

namespace viaduct::cpu {

/// Bytes of workspace of the two functions below, from shapes alone; linear in the tokens.
int64_t attention_tiles_forward_bytes(const AttentionForwardArgs& args);
int64_t attention_tiles_backward_bytes(const AttentionBackwardArgs& args);

/// BF16 q, k, v. Offsets must have been checked. Bitwise the same for any number of threads.
void attention_forward_on_tiles(ThreadPool& pool, const AttentionForwardArgs& args,
                                const TileKernels& tiles, void* workspace);
void attention_backward_on_tiles(ThreadPool& pool, const AttentionBackwardArgs& args,
                                 const TileKernels& tiles, void* workspace);

}  // namespace viaduct::cpu
