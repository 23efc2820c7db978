#pragma once
// The weights of the text model in a folder of a model that takes images too (model/text_half.h).

#include "checkpoint/tensor_source.h"

namespace viaduct {

/// `stored` without the tensors for images, the others under the names of the text model's family.
/// IoError where two tensors have the same name then.
std::unique_ptr<TensorSource> text_half_weights(std::unique_ptr<TensorSource> stored);

}  // namespace viaduct
