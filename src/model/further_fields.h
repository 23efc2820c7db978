#pragma once
// Properties of a model that its family's Hugging Face config.json cannot express: partly rotated
// heads of a Llama, a window of a GPT-2. Such fields of section `model` are written to a separate
// field, "viaduct_fields", so that a checkpoint is not read back as a different model.

#include <string>

#include "model/model_config.h"

namespace viaduct {

inline constexpr const char* kFurtherFields = "viaduct_fields";

/// The fields in which `model` differs from `said`, the model that its config.json describes, as
/// YAML flow text: "{rotary_percent: 0.5}". "" if there are none. Fields without effect in both,
/// like biases of layer norms where norms are RMSNorm, are none.
std::string further_fields(const ModelConfig& model, const ModelConfig& said);

/// `said` with these fields; ConfigError that starts with `where` if one is unknown or wrong.
ModelConfig with_further_fields(const ModelConfig& said, const std::string& fields,
                                const std::string& where);

}  // namespace viaduct
