#include "generate/prompt_images.h"

#include "image/read_picture.h"

namespace viaduct {

ImageBatch PromptImages::read(const std::vector<std::string>& paths) const {
  ImageBatch images;
  for (const std::string& path : paths) processor_.append(read_picture(path), path, images);
  return images;
}

}  // namespace viaduct
