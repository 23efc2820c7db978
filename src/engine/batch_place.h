#pragma once
// A rank's part of a micro-batch's tokens.

#include "comm/parallel_groups.h"

namespace viaduct {

struct BatchPlace {
  int cp = 1, cp_rank = 0;  // the documents are cut over the context ranks
  int cp_inner = 1;         // context ranks that exchange heads in hierarchical context parallel
  /// The tokens of a context rank's residual stream are cut into equal parts: over the tensor ranks
  /// in sequence parallel.
  int stream_parts = 1, stream_part = 0;
  /// Each of these parts has a multiple of this many tokens: those that a recipe rotates together.
  int64_t tokens_together = 1;
  int64_t attention_chunk = 0;  // tokens of a chunk of attention; 0: no layer has chunks
};

BatchPlace batch_place(const ParallelGroups& groups, bool sequence_parallel,
                       int64_t tokens_together = 1);

}  // namespace viaduct
