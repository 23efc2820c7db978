#pragma once
// The encoder's rows of a micro-batch on their way to the device, and which of its documents each
// document of the decoder attends to.

#include "engine/host_batch.h"
#include "nn/encoder_rows.h"

namespace viaduct {

/// Borders of the documents of cross attention, as EncoderRows has them.
struct CrossDocuments {
  std::vector<int32_t> q_offsets{0}, kv_offsets{0};
  int64_t max_queries = 0, max_keys = 0;
  double pairs = 0;
};

/// From the borders of the decoder's and the encoder's documents and, for each of the decoder's,
/// the number of the encoder's document that it attends to (−1: of none), ascending. ShapeError if
/// they do not fit.
CrossDocuments cross_documents(const std::vector<int32_t>& decoder,
                               const std::vector<int32_t>& encoder,
                               const std::vector<int32_t>& encoder_of);

/// Appends a row of the encoder: two documents, its tokens and its padding, either of which may be
/// empty, so that all rows have equally many. The documents that `batch` gets for the same row
/// attend to the first. `ordinal` as in append_row.
void append_encoder_row(const std::vector<int32_t>& tokens, int64_t used, int64_t ordinal,
                        HostBatch& batch);

/// Into `cut`, the part of the micro-batch `whole` that a context rank has: whole rows of the
/// encoder, equally many on each rank, with blank ones at the end where they do not divide.
/// ShapeError unless the rows, one for each document of the decoder, have equal lengths.
void deal_encoder_rows(const HostBatch& whole, const BatchPlace& place, HostBatch& cut);

/// The encoder's rows of a micro-batch that has them; errors as `upload`.
std::shared_ptr<const EncoderRows> upload_encoder(Device& device, const HostBatch& batch,
                                                  int64_t vocabulary, const BatchPlace& place);

}  // namespace viaduct
