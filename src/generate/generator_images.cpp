// Generation with images, whose features stand in the first tokens of their sequences.

#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "generate/generator.h"
#include "generate/pass_tokens.h"
#include "nn/encoder_rows.h"

namespace viaduct {

void Generator::show(int64_t i, ImageBatch images) {
  VIADUCT_CHECK(ShapeError, images.empty() || settings_.upload_images != nullptr,
                "generate: {} for a model that reads none", counted(images.count, "image"));
  VIADUCT_CHECK(ShapeError, images.empty() || length(i) == 0,
                "generate: images of sequence {}, which has {} already", i,
                counted(length(i), "token"));
  images_[static_cast<size_t>(i)] = std::move(images);
}

void Generator::add_images(Feed ids, const PassTokens& tokens, Batch& batch) {
  ImageBatch shown;
  for (size_t i = 0; i < ids.size(); ++i)
    if (!ids[i].empty()) shown.append(std::exchange(images_[i], {}));
  if (!shown.empty()) return settings_.upload_images(device_, tokens, shown, batch);
  batch.encoder = std::make_shared<EncoderRows>();  // the vision tower does not run
}

}  // namespace viaduct
