#pragma once
// The format of the frozen weights under adapters: what section `peft` asks for, and whether the
// model's layers can be cut so.

#include <optional>

#include "model/adapter_config.h"
#include "model/model_config.h"

namespace viaduct {

/// peft.base_format; none: the recipe's.
std::optional<BaseFormat> base_format(const PeftConfig& config);

/// ConfigError where blocks of elements with one scale do not fit a layer, or a tensor rank's part
/// of it, with the nearest degree that works; and for experts and latent attention.
void check_base_format(BaseFormat format, const ModelConfig& model, int tensor_ranks);

}  // namespace viaduct
