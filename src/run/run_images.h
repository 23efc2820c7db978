#pragma once
// How the pictures of a run's data are read for its model.

#include "data/row_images.h"
#include "run/setup.h"

namespace viaduct {

/// By the image processor of the tokenizer's folder, else of the model's (image/open_images.h);
/// empty for a model that reads no images.
ImageOpener run_images(const RunSetup& setup);

}  // namespace viaduct
