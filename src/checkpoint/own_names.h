#pragma once
// Tensors under names that Hugging Face's code does not know: those of parameters that only
// "viaduct_fields" of a config.json ask for (model/further_fields.h).

#include <string>
#include <vector>

#include "model/model_config.h"

namespace viaduct {

/// In the order of the model.
std::vector<std::string> own_names(const ModelConfig& model, const std::string& config);
/// "", or how many there are and the first of them: the end of a sentence about `config`.
std::string own_names_text(const ModelConfig& model, const std::string& config);

}  // namespace viaduct
