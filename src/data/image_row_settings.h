#pragma once
// How rows have images, for a model that reads them.

#include <cstdint>

namespace viaduct {

/// An image takes `rows` places of a row, each with the token `token`.
struct ImageRowSettings {
  int64_t channels = 0, side = 0;  // of an image, in pixels
  int64_t rows = 0;
  int32_t token = 0;

  /// One that stands for no image, for places without a text.
  int32_t other_token() const { return token == 0 ? 1 : 0; }
};

}  // namespace viaduct
