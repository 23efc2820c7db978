#pragma once
// Images of rows of training data, as values of pixels: what a vision tower reads. Resizing and
// normalization are done before.

#include <cstdint>
#include <vector>

namespace viaduct {

/// Images of one size, in the order in which their tokens stand in the rows.
struct ImageBatch {
  int64_t count = 0, channels = 0, height = 0, width = 0;
  std::vector<float> pixels;  // [count, channels, height, width], row-major

  bool empty() const { return count == 0; }
  /// Puts other images behind these. ShapeError if their sizes differ, or if either has another
  /// number of pixels than its sizes say.
  void append(const ImageBatch& more);
  bool operator==(const ImageBatch&) const = default;
};

}  // namespace viaduct
