#pragma once
// Builds micro-batches on the host from rows of training data.

#include <span>

#include "data/sample.h"
#include "data/sampler.h"
#include "engine/host_batch.h"

namespace viaduct {

/// Appends a row: its targets are the sample's labels where its loss mask is above 0, its documents
/// the sample's ranges of attention, and its token t has global index `ordinal` · S + t,
/// independent of rank and micro-batch; padding has −1. A row of an encoder (of a sample that is
/// one document) is appended to the batch's.
void append_row(const Sample& sample, int64_t ordinal, HostBatch& batch);

/// The rows of a micro-batch, read from `source` in the given order.
HostBatch read_batch(const SampleSource& source, std::span<const RowRef> rows);

/// As many rows of `length` tokens, each one document, of which nothing is scored: what a rank
/// computes on whose rows cannot be read, so that it takes part in what the other ranks do.
/// `encoder_length`: of the rows of the model's encoder, 0 without one.
HostBatch blank_rows(int64_t rows, int64_t length, int64_t encoder_length = 0);

}  // namespace viaduct
