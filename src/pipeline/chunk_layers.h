#pragma once
// The layers of a model chunk, the unit of pipeline schedules. A rank holds one chunk, or several
// with virtual stages.

#include <cstdint>

namespace viaduct {

/// Layers of the encoder of an encoder-decoder model, or of the vision tower of one with images.
struct EncoderChunk {
  bool embedding = false;               // of a tower: that of patches
  int64_t first_block = 0, blocks = 0;  // counted in the encoder; of a tower those that are read
  /// The last one, which makes what the decoder reads; of a tower the projector.
  bool norm = false;
  bool of_images = false;  // a vision tower

  bool any() const { return embedding || blocks > 0 || norm; }
};

struct ChunkLayers {
  bool embedding = true;  // the decoder's
  int64_t first_block = 0,
          blocks = 0;  // global number of its first transformer block, and how many
  bool head = true;
  EncoderChunk encoder = {};  // in front of the others

  bool ends_in_encoder() const { return encoder.any() && !embedding; }
};

}  // namespace viaduct
