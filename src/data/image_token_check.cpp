#include "data/image_token_check.h"

#include <algorithm>

#include "base/error.h"

namespace viaduct {

void check_no_image_token(const IndexedDataset& dataset, int64_t sequence, int64_t offset,
                          std::span<const int32_t> tokens, int64_t image_token) {
  if (image_token < 0) return;
  const auto found = std::ranges::find(tokens, image_token);
  if (found == tokens.end()) return;
  fail<IoError>(
      "data set {}: document {} has the token of images (id {}) at place {}, and the data set has "
      "no pictures; expected texts that do not spell it, conversations with their pictures "
      "(viaduct data chat), or a run without images (model.read_images=false)",
      dataset.prefix(), sequence, image_token, offset + (found - tokens.begin()));
}

}  // namespace viaduct
