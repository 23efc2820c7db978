#pragma once
// What rows of pairs need to know of a model with an encoder.

#include <cstdint>
#include <optional>

namespace viaduct {

struct PairSettings {
  int64_t encoder_length = 0;             // places of a row of the encoder
  int32_t start_token = 0;                // in front of the decoder's row
  int32_t padding_token = 0;              // behind what fills either row
  std::optional<int32_t> end_token = {};  // put at the end of input and answer, where it lacks
};

}  // namespace viaduct
