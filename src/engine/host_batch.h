#pragma once
// A micro-batch on the host, row by row, and its way to the device.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/image_batch.h"
#include "device/device.h"
#include "engine/batch_place.h"
#include "nn/batch.h"

namespace viaduct {

/// Tokens k places further on, as `ShiftedTokens` describes them.
struct HostShiftedTokens {
  std::vector<int32_t> ids, targets;
  std::vector<float> loss_weight;
};

/// Of a cut over context ranks: where images of the whole micro-batch stand.
struct DealtImages {
  int64_t all = 0;    // of all context ranks, blank ones too
  int64_t shown = 0;  // of them, those of the micro-batch
  /// Of each token of this rank the row of its features among those of all images, −1: none.
  std::vector<int32_t> features = {};
  /// Of each token of the whole micro-batch with its padding (cut_batch.h), whether it is one of an
  /// image: 1, else 0.
  std::vector<int8_t> of_image = {};
  std::vector<int64_t> begins = {};  // global index of the first token of each image of this rank
};

/// T tokens of rows laid one after the other, as `Batch` describes them.
struct HostBatch {
  std::vector<int32_t> ids, positions, targets;  // targets: −1 where nothing is scored
  std::vector<float> loss_weight;
  std::vector<int64_t> token_index;
  std::vector<int32_t> document_offsets{0};
  /// For multi-token prediction (engine/shift_tokens.h), depth 1 first.
  std::vector<HostShiftedTokens> shifted;
  /// After a cut for more than one context rank: token_index of the whole micro-batch with its
  /// padding (cut_batch.h).
  std::vector<int64_t> whole_token_index;
  /// Number of ranks that share the documents under hybrid context parallel; 0: the layout's
  /// context ranks.
  int context_ranks = 0;
  /// Of dry runs: tokens without content. All lists but `document_offsets` are empty, and only a
  /// device that computes nothing takes the batch.
  bool sizes_only = false;
  /// Of a model with an encoder: its rows, in which nothing is scored, and for each document here
  /// the number of the encoder's document that it attends to (−1: none), ascending.
  std::shared_ptr<HostBatch> encoder = nullptr;
  std::vector<int32_t> encoder_document = {};
  /// After a cut for more than one context rank, which has whole rows of the encoder: borders of
  /// the documents of all its rows.
  std::vector<int32_t> encoder_offsets = {};
  /// Of a model with images: those whose tokens are in the rows, in their order. With sizes_only
  /// their number alone.
  ImageBatch images = {};
  /// After a cut for more than one context rank: `images` are those of this rank's tower, and not
  /// those whose tokens are in the rows.
  std::optional<DealtImages> dealt = std::nullopt;

  int64_t tokens() const {
    return sizes_only ? document_offsets.back() : static_cast<int64_t>(ids.size());
  }
  /// Tokens of each document without its padding; documents of padding are left out.
  std::vector<int64_t> document_tokens() const;
  /// Sum of the loss weights, the divisor of the mean loss.
  double scored_weight() const;
  /// Whether tokens were added on this rank or on others that share the rows (cut_batch.h).
  bool has_padding() const;
  /// Scales the loss weights, of each depth too, so that they sum to 1; unchanged if nothing is
  /// scored: a loss that is the mean of the micro-batches' means.
  void normalize_loss_weights();
  /// Closes a document at the tokens added so far.
  void end_document() { document_offsets.push_back(static_cast<int32_t>(tokens())); }
  /// Appends a document of so many tokens, if only sizes count.
  void add_document_of(int64_t length) {
    document_offsets.push_back(static_cast<int32_t>(document_offsets.back() + length));
  }
};

/// Copies to the device. ShapeError if the lists have different lengths, an id or target is outside
/// [0, vocabulary), a position outside [0, positions), or the batch was not cut for `place`.
/// `over`: a batch whose memory the new one takes, tensor by tensor where sizes are equal.
Batch upload(Device& device, const HostBatch& batch, int64_t vocabulary, int64_t positions,
             const BatchPlace& place = {}, const Batch* over = nullptr);

}  // namespace viaduct
