#pragma once
// The weights of a model with an adapter added to them, W + s · B · A, or with magnitudes m (DoRA)
// the rows of that times m / ‖row‖, in FP32 and rounded once; and what trained beside it in place
// of the model's own.

#include <optional>

#include "checkpoint/derived_source.h"
#include "checkpoint/peft_folder.h"

namespace viaduct {

/// The tensors of `base`, under its names; those with an adapter in `dtype`, or without it in
/// their stored format. IoError for an adapter of a weight that `base` lacks.
std::unique_ptr<TensorSource> merge_adapter(std::unique_ptr<TensorSource> base, PeftAdapter adapter,
                                            const ModelConfig& model, std::optional<DType> dtype);

}  // namespace viaduct
