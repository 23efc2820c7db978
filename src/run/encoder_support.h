#pragma once
// What models with an encoder do not have yet, said by name.

#include <optional>
#include <string_view>

#include "config/problems.h"
#include "data/pair_settings.h"
#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

/// Adds the settings that are not implemented with model.encoder_num_layers.
void validate_encoder(const RunConfig& config, Problems& problems);

/// ConfigError if the model has an encoder: `what` ("viaduct chat") is only for decoders so far.
void refuse_encoder(const ModelConfig& model, std::string_view what);

/// Rows of a model with an encoder: pairs of input and answer, which end with the model's end
/// token. Nothing for other models.
std::optional<PairSettings> pair_settings(const ModelConfig& model);

}  // namespace viaduct
