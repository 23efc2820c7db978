#pragma once
// The images of a micro-batch on their way to the device: rows of patches for the vision tower, and
// where their features stand in the rows of text.

#include "engine/host_batch.h"
#include "model/vision_config.h"
#include "nn/encoder_rows.h"

namespace viaduct {

/// None for a model that reads no images.
ImageForm image_form(const VisionConfig& vision);

/// The tower's rows: a document for each image, maybe none. ShapeError for images of other sizes
/// than the model's, and where their tokens are not as many as the rows have.
std::shared_ptr<const EncoderRows> upload_images(Device& device, const HostBatch& batch,
                                                 const BatchPlace& place);

/// Image i of the batch stands where the image token does for the (i + 1)-th time `form.rows`
/// times.
BatchImages upload_batch_images(Device& device, const HostBatch& batch, const ImageForm& form);

}  // namespace viaduct
