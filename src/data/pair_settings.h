#pragma once
// What rows of pairs need to know of a model with an encoder.

#include <cstdint>
#include <optional>

namespace viaduct {

/// Tokens that stand for spans of a text: `first`, `first` − 1, …
struct Sentinels {
  int32_t first = 0;
  int64_t count = 0;
  /// They are its tokens <extra_id_0>, …, as far as their ids go down by one.
  bool of_tokenizer = false;
};

struct PairSettings {
  int64_t encoder_length = 0;               // places of a row of the encoder
  int32_t start_token = 0;                  // in front of the decoder's row
  int32_t padding_token = 0;                // behind what fills either row
  std::optional<int32_t> end_token = {};    // put at the end of input and answer, where it lacks
  std::optional<Sentinels> sentinels = {};  // of texts; none: there are no such tokens
};

}  // namespace viaduct
