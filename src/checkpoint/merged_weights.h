#pragma once
// The weights of a model with an adapter added to them: W + s · B · A, in FP32 and rounded once.

#include <optional>

#include "checkpoint/derived_source.h"
#include "checkpoint/peft_folder.h"

namespace viaduct {

/// The tensors of `base`, under its names; those with an adapter in `dtype`, or without it in
/// their stored format. IoError for an adapter of a weight that `base` lacks.
std::unique_ptr<TensorSource> merge_adapter(std::unique_ptr<TensorSource> base, PeftAdapter adapter,
                                            const ModelConfig& model, std::optional<DType> dtype);

}  // namespace viaduct
