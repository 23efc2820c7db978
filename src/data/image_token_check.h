#pragma once
// Texts that spell the token of images, in data for a model that reads images.

#include <cstdint>
#include <span>

#include "data/indexed_dataset.h"

namespace viaduct {

/// For a sequence of a data set without pictures, of which `tokens` are read from `offset` on.
/// IoError naming data set, sequence and place if `image_token` is among them: it stands for a part
/// of an image, and there is none. A negative one: the model reads no images.
void check_no_image_token(const IndexedDataset& dataset, int64_t sequence, int64_t offset,
                          std::span<const int32_t> tokens, int64_t image_token);

}  // namespace viaduct
