#pragma once
// What multi-token prediction reads in addition to the tokens of a micro-batch (nn/multi_token.h).

#include "engine/host_batch.h"

namespace viaduct {

/// Adds, for each depth k = 1 … `depths`, the tokens k places further on in the same document, with
/// their targets and loss weights; after a document's end id 0, target -1 and weight 0. `batch` is
/// whole: it is cut for a context rank afterwards.
void add_shifted_tokens(HostBatch& batch, int64_t depths);

}  // namespace viaduct
