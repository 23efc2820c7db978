#pragma once
// The pictures of the rows of a data set, as sources of rows see them: files are read in src/image
// (image/open_images.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "data/image_batch.h"

namespace viaduct {

class RowImages {
 public:
  virtual ~RowImages() = default;
  /// The token that stands for the parts of a picture.
  virtual int32_t token() const = 0;
  /// Puts the pictures of a sequence of the data set, as the model takes them, behind those of a
  /// batch, in the order of their places. Safe to call from several threads. IoError with the path
  /// for a file that is missing or has changed.
  virtual void append(int64_t sequence, ImageBatch& batch) const = 0;
};

/// Opens those of the data set PREFIX of so many sequences; null: its rows are read without them.
using ImageOpener =
    std::function<std::shared_ptr<const RowImages>(const std::string& prefix, int64_t sequences)>;

}  // namespace viaduct
