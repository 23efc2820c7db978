#pragma once
// The names of what a data set of conversations with pictures has besides (image/image_index.h
// reads it): which pictures belong to each row.

#include <string>

namespace viaduct {

/// PREFIX.images: of .bin and .idx, the numbers of each row's pictures, and of .jsonl, their files.
std::string images_prefix(const std::string& prefix);

/// Whether PREFIX.images.idx exists.
bool has_images(const std::string& prefix);

/// Removes those files of a data set that is written anew without pictures.
void remove_images(const std::string& prefix);

}  // namespace viaduct
