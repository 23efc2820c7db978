#pragma once
// Pictures of conversations that a model which reads images is to answer.

#include <string>
#include <vector>

#include "conversation/image_places.h"
#include "data/image_batch.h"
#include "image/image_processor.h"

namespace viaduct {

class PromptImages {
 public:
  PromptImages(ImagePlaces places, ImageProcessor processor)
      : places_(std::move(places)), processor_(std::move(processor)) {}

  /// How they stand in texts.
  const ImagePlaces& places() const { return places_; }
  /// Those of the files, as the model takes them. IoError with the path.
  ImageBatch read(const std::vector<std::string>& paths) const;

 private:
  ImagePlaces places_;
  ImageProcessor processor_;
};

}  // namespace viaduct
