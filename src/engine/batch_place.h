#pragma once
// A rank's part of a micro-batch's tokens.

#include "comm/parallel_groups.h"

namespace viaduct {

/// What a model reads of images (model/vision_config.h).
struct ImageForm {
  int64_t channels = 0, side = 0, patch = 0;  // of an image, and of its patches, in pixels
  int64_t tokens = 0;                         // of an image in the vision tower …
  int64_t rows = 0;                           // … and in the rows of text …
  int32_t token = -1;                         // … where this token stands once for each
  bool sees_ahead = false;                    // attention of text is not causal inside of an image

  bool any() const { return side > 0; }
  int64_t patches() const { return (side / patch) * (side / patch); }
};

struct BatchPlace {
  int cp = 1, cp_rank = 0;  // the documents are cut over the context ranks
  int cp_inner = 1;         // context ranks that exchange heads in hierarchical context parallel
  /// The tokens of a context rank's residual stream are cut into equal parts: over the tensor ranks
  /// in sequence parallel.
  int stream_parts = 1, stream_part = 0;
  /// Each of these parts has a multiple of this many tokens: those that a recipe rotates together.
  int64_t tokens_together = 1;
  int64_t attention_chunk = 0;  // tokens of a chunk of attention; 0: no layer has chunks
  ImageForm images = {};        // none: the model reads no images
  bool has_tower = true;        // with images: this rank encodes them
};

BatchPlace batch_place(const ParallelGroups& groups, bool sequence_parallel,
                       int64_t tokens_together = 1);

}  // namespace viaduct
