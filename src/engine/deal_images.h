#pragma once
// Images of a micro-batch whose rows of text are cut over context ranks: each rank has whole images
// in its vision tower, and gets the features of the others (nn/image_gather.h).

#include "engine/host_batch.h"

namespace viaduct {

/// Gives `cut` its images of `whole`, equally many on each context rank: behind the last image of
/// the micro-batch blank ones follow, whose features stand nowhere. The features of the rows'
/// tokens are the caller's (HostBatch::dealt).
void deal_images(const HostBatch& whole, const BatchPlace& place, HostBatch& cut);

}  // namespace viaduct
