#pragma once
// The batch file of `probe`: integer tensors [B, S] → micro-batches.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "data/image_batch.h"
#include "engine/host_batch.h"
#include "model/encoder_config.h"
#include "model/vision_config.h"

namespace viaduct {

/// One batch of the file: B rows of S tokens, and the given fields (empty otherwise), row-major.
struct ProbeBatch {
  int64_t rows = 0, length = 0;
  std::vector<int64_t> ids, labels, positions, attention_mask, document_ids;
  std::vector<int64_t> cu_seqlens;  // over the flattened batch, row borders included
  int64_t first_token = 0;          // global index of the batch's first token
  /// Of an encoder-decoder model: the rows of its encoder; those here are the decoder's, and the
  /// label at t is the target at t.
  std::shared_ptr<const ProbeBatch> encoder;

  /// Of a model with images: all of the batch's, and the token that stands for each of the
  /// `image_rows` rows of one.
  ImageBatch images;
  int64_t image_token = -1, image_rows = 0;

  /// Rows [begin, begin + count) as a micro-batch. The label at t + 1 is the target at t; −100, a
  /// document's first token and the row's end are not scored.
  HostBatch micro_batch(int64_t begin, int64_t count) const;

  /// Of an encoder's rows from `begin` on, as `micro_batch` cut them: for each row the document
  /// that attention_mask shows, −1 if it hides all of the row.
  std::vector<int32_t> visible_documents(int64_t begin, const HostBatch& batch) const;

  /// The images whose tokens are in rows [begin, begin + count). IoError where a row begins inside
  /// of an image.
  ImageBatch images_of(int64_t begin, int64_t count) const;

  /// The number of positions that a model needs for this batch: its length, or more where
  /// position_ids say so.
  int64_t position_limit() const;
  /// Where attention_mask is given and position_ids are not: the positions of visible tokens are
  /// those among the visible ones of their document, others have 0. For families whose positions
  /// are counted so (model/family.h).
  void count_positions_from_mask();
  /// ConfigError if attention_mask hides a token between visible ones of its document.
  void check_mask() const;

 private:
  bool document_begins(int64_t token) const;
  /// The label that is scored at a token, −100 for none; `begins_next`: whether another document
  /// begins at the next token of the row.
  int64_t label_at(size_t token, bool last_of_row, bool begins_next) const;
};

/// Reads `prefix` + "input_ids" and its companions. With `step` ≥ 0 the tensors have a leading dim
/// of steps and that one is taken; its tokens are numbered after those of earlier steps. IoError
/// naming the tensor for shapes or values that do not fit.
ProbeBatch read_probe_batch(const TensorSource& file, const std::string& prefix, int64_t step);

/// The same for an encoder-decoder model: `prefix` + "input_ids" and "attention_mask" [B, S] are
/// the encoder's, "labels" [B, D] and "decoder_input_ids" [B, D] the decoder's; without the latter
/// they are the labels moved right by one, the start token in front and the padding token in place
/// of −100 (probe_pairs.cpp).
ProbeBatch read_probe_pairs(const TensorSource& file, const std::string& prefix, int64_t step,
                            const EncoderConfig& encoder);

/// The images of a batch for a model that reads them (probe_images.cpp): `prefix` + "pixel_values"
/// [images, channels, side, side], with steps [N, images, …]; maybe none. IoError as above, and
/// where tokens and images do not fit; ConfigError for a model that reads none.
void read_probe_images(const TensorSource& file, const std::string& prefix, int64_t step,
                       const VisionConfig& vision, ProbeBatch& batch);

}  // namespace viaduct
