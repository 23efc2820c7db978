#pragma once
// The pictures of data sets as a model takes them, for the rows that it reads (data/row_images.h).

#include <filesystem>
#include <vector>

#include "data/image_row_settings.h"
#include "data/row_images.h"

namespace viaduct {

/// An opener for a model whose image processor is that of the first of `folders` that has its
/// settings. Its calls throw ConfigError where none has, where the processor makes pictures of
/// another size than the model's, and for a data set that was made for another model: with other
/// tokens in place of a picture.
ImageOpener image_opener(std::vector<std::filesystem::path> folders, const ImageRowSettings& model);

}  // namespace viaduct
