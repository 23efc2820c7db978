#pragma once
// From rows of training data to micro-batches on the host.

#include <span>

#include "data/sample.h"
#include "data/sampler.h"
#include "train/host_batch.h"

namespace viaduct {

/// Appends a row: its targets are the sample's labels where its loss mask is above 0, its documents
/// the sample's stretches of attention, and token t of it counts as global token `ordinal` · S + t,
/// whichever rank and micro-batch it falls to.
void append_row(const Sample& sample, int64_t ordinal, HostBatch& batch);

/// The rows of a micro-batch, read from `source` in the given order.
HostBatch read_batch(const SampleSource& source, std::span<const RowRef> rows);

}  // namespace viaduct
