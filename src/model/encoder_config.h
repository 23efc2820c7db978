#pragma once
// The encoder of an encoder-decoder model (T5) as data.

#include <cstdint>

#include "ops/relative_bias.h"

namespace viaduct {

/// Its blocks have the sizes, norm and feed-forward of the decoder's. They attend in both
/// directions; the decoder's blocks have cross attention to its output.
struct EncoderConfig {
  int64_t layers = 0;         // 0: the model has no encoder
  int64_t row_length = 0;     // places of its rows in training; 0: not said
  int64_t start_token = 0;    // which the decoder's rows begin with, in front of the labels
  int64_t padding_token = 0;  // in the decoder's rows where the label before is not scored

  bool any() const { return layers > 0; }
  bool operator==(const EncoderConfig&) const = default;
};

/// Positions that enter as a bias of attention's scores, learned by bucket of distances, one table
/// for each of encoder and decoder (PositionKind::relative).
struct RelativePositions {
  int64_t buckets = 32;
  int64_t max_distance = 128;

  RelativeBuckets of(bool both_directions) const {
    return {buckets, max_distance, both_directions};
  }
  bool operator==(const RelativePositions&) const = default;
};

}  // namespace viaduct
