#pragma once
// What models that read images do not have yet, said by name.

#include <optional>

#include "config/problems.h"
#include "data/image_row_settings.h"
#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

/// Adds the settings that are not implemented with images.
void validate_vision(const RunConfig& config, const ModelConfig& model, Problems& problems);

/// What images take of rows; nothing for a model that reads none.
std::optional<ImageRowSettings> image_rows(const ModelConfig& model);

}  // namespace viaduct
