#pragma once
// What models that read images do not have yet, said by name.

#include <cstdint>
#include <optional>
#include <string>

#include "config/problems.h"
#include "data/image_row_settings.h"
#include "model/model_config.h"
#include "run/run_config.h"

namespace viaduct {

struct RunSetup;

/// Adds the recipe of quantized products for a folder whose images are read, before sizes that do
/// not fit its formats.
void validate_image_products(const RunConfig& config, Problems& problems);

/// Adds the other settings that are not implemented with images.
void validate_vision(const RunConfig& config, const ModelConfig& model, Problems& problems);

/// What images take of rows; nothing for a model that reads none.
std::optional<ImageRowSettings> image_rows(const ModelConfig& model);

/// Images that dry runs and plans count in each row: of conversations the mean of the training
/// data's rows, rounded up, else one; as many as there is room for. 0 for a model that reads none.
int64_t images_of_row(const RunSetup& setup);
/// The same in words: "1 of 576 tokens in each row"; "" for a model that reads none. Of a plan for
/// GPUs, that none of them runs such a model yet.
std::string images_text(const RunSetup& setup);

}  // namespace viaduct
