#pragma once
// The images of a micro-batch on their way to the device: rows of patches for the vision tower, and
// where their features stand in the rows of text.

#include "engine/host_batch.h"
#include "model/vision_config.h"
#include "nn/encoder_rows.h"

namespace viaduct {

/// None for a model that reads no images.
ImageForm image_form(const VisionConfig& vision);

/// The tower's rows: a document for each image, maybe none.
std::shared_ptr<const EncoderRows> upload_images(Device& device, const HostBatch& batch,
                                                 const BatchPlace& place);

/// ShapeError for images of other sizes than the model's, and where their tokens are not as many as
/// they have rows. Of a whole batch.
void check_images(const HostBatch& batch, const ImageForm& form);

/// Of each image the global index of the token where it begins in the rows of text.
std::vector<int64_t> image_begins(const HostBatch& batch, const ImageForm& form);

/// Of each token the row of its features among those of all images, −1 where it is none.
std::vector<int32_t> feature_rows(const HostBatch& batch, const ImageForm& form);

/// Image i of the batch stands where the image token does for the (i + 1)-th time `form.rows`
/// times (form: that of `place`), unless the batch says where (HostBatch::dealt).
BatchImages upload_batch_images(Device& device, const HostBatch& batch, const BatchPlace& place);

}  // namespace viaduct
