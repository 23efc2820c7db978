#pragma once
// The names of what a data set of conversations with pictures has besides (image/image_index.h
// reads it): which pictures belong to each row.

#include <string>

#include "data/indexed_dataset.h"

namespace viaduct {

/// PREFIX.images: of .bin and .idx, the numbers of each row's pictures, and of .jsonl, their files.
std::string images_prefix(const std::string& prefix);

/// Whether PREFIX.images.idx exists.
bool has_images(const std::string& prefix);

/// What is wrong with those files of a data set: there is a part of the three, or none though the
/// record (token_record.h) says that its rows have pictures. "": nothing.
std::string image_files_problem(const IndexedDataset& dataset);

/// IoError with that, where there is something.
void check_image_files(const IndexedDataset& dataset);

/// Removes those files of a data set that is written anew without pictures.
void remove_images(const std::string& prefix);

}  // namespace viaduct
