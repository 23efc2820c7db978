#pragma once
// The training data: rows of tokens with their labels, and sources with random access to rows by
// number.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/image_batch.h"

namespace viaduct {

/// One row. All but `cu_seqlens`, `padding`, the encoder's and images have the source's sequence
/// length S.
struct Sample {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;   ///< already shifted: labels[t] is scored against the logits at t
  std::vector<float> loss_mask;  ///< weight of position t in the loss, 0 or 1
  std::vector<int32_t> position_ids;  ///< 0 … S - 1, restarting where the source requires it
  /// Borders of the ranges that attention is confined to: 0, …, S, increasing. {0, S} unless the
  /// source separates documents.
  std::vector<int32_t> cu_seqlens;
  std::vector<uint8_t> padding;  ///< 1 at positions that are no token of the data; empty: none is
  /// Of models with an encoder: its row, and how many of its tokens, from the first on, are no
  /// padding; else empty.
  std::vector<int32_t> encoder_tokens;
  int64_t encoder_used = 0;
  /// Of models with images: those whose tokens are in the row, in their order.
  ImageBatch images;
};

/// Rows by number, in the order in which training reads them. Safe to read from several threads at
/// once.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual int64_t size() const = 0;
  virtual int64_t sequence_length() const = 0;
  /// Of `encoder_tokens`; 0: rows have none.
  virtual int64_t encoder_length() const { return 0; }
  /// Fills `sample` with row `index` in [0, size()), reusing its memory. ShapeError for another
  /// index.
  virtual void get(int64_t index, Sample& sample) const = 0;

  Sample get(int64_t index) const {
    Sample sample;
    get(index, sample);
    return sample;
  }
};

/// Treatment of end-of-document tokens (fields of DatasetConfig of the same names), and the token
/// that a text must not have.
struct RowSettings {
  int64_t sequence_length = 0;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
  int64_t eod_id = -1;
  int64_t image_token = -1;  // of a model that reads images; −1: of none
};

/// Derives loss mask, positions and borders from `sample.tokens`.
void fill_masks_and_positions(const RowSettings& settings, Sample& sample);

}  // namespace viaduct
