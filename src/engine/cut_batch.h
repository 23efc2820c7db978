#pragma once
// Cuts one context rank's part out of a whole micro-batch. Pure functions of the batch and the
// rank's place; every rank cuts its own part.
//
// Each document is cut zigzag (nn/context_parallel/zigzag.h) and the rank's two chunks of it laid
// one after the other. A document whose length is not a multiple of 2 · cp is padded at its end,
// and the last one further until the rank's tokens divide by tp (sequence parallel) and by the
// number that a recipe rotates together (NVFP4: 16). Padding has no label, weight 0 and token index
// −1; its id and position repeat those of the token before it. Causality hides it from all other
// tokens. Rows of an encoder are dealt out whole (engine/encoder_batch.h).

#include <vector>

#include "engine/host_batch.h"

namespace viaduct {

/// `pad`: documents may be padded (packed rows); otherwise ShapeError, with the numbers, if padding
/// would be needed. With one context rank and no sequence parallel this is the identity.
HostBatch cut_batch(HostBatch whole, const BatchPlace& place, bool pad);

/// Where each token of the cut comes from: its index in the whole micro-batch, −1 for padding.
std::vector<int64_t> cut_sources(const std::vector<int32_t>& document_offsets,
                                 const BatchPlace& place, bool pad);

}  // namespace viaduct
