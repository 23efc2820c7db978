#pragma once
// The format of the frozen weights under adapters (peft.base_format): whether the model's layers
// can be cut so.

#include <map>
#include <string>

#include "model/model_config.h"
#include "nn/parameter.h"
#include "tensor/gguf_types.h"

namespace viaduct {

/// The tensors of a GGUF file that stay as they are with BaseFormat::blocks (AdapterSettings).
using BlockTypes = std::map<std::string, GgufTensorType>;

/// Why frozen weights cannot be stored so, beginning with the setting and ending with what to
/// expect; "" if they can: blocks of elements with one scale do not fit a layer, or the part of it
/// that one of `tensor_ranks` has, or of an expert's that one of `expert_ranks` has, which share it
/// (with the nearest degree that works); BaseFormat::blocks, and the model has experts or latent
/// attention; or the model reads images.
std::string base_format_problem(BaseFormat format, const ModelConfig& model, int tensor_ranks,
                                const BlockTypes& blocks = {}, int expert_ranks = 1);
/// ConfigError with it.
void check_base_format(BaseFormat format, const ModelConfig& model, int tensor_ranks,
                       const BlockTypes& blocks = {}, int expert_ranks = 1);

}  // namespace viaduct
