#pragma once
// The weights in a folder of a model that takes images too, where its layers for them are read
// (model/vision_names.h).

#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "model/vision_config.h"

namespace viaduct {

/// What the names of a folder say: their form, and whether a pooling head is there.
void heed_image_weights(VisionConfig& vision, const TensorSource& stored);
/// The second alone, of weights that have the names here.
void heed_pooling_head(VisionConfig& vision, const TensorSource& weights);

/// `stored` under the names that the model has here. IoError where two tensors have the same name
/// then.
std::unique_ptr<TensorSource> image_weights(std::unique_ptr<TensorSource> stored);

}  // namespace viaduct
