#pragma once
// Whether the encoder of an encoder-decoder model trains: adapters of the decoder's layers alone
// leave it as it is.

#include "model/model_config.h"
#include "nn/adapter_settings.h"

namespace viaduct {

/// Whether nothing trains in the model's encoder, nor in the token table in front of it: its layers
/// then run forward alone, keep nothing, and what they make has no gradient. False without an
/// encoder.
bool encoder_is_frozen(const ModelConfig& model, const AdapterSettings& adapters);

}  // namespace viaduct
