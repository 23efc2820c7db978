#pragma once
// What a kernel that makes a matrix makes of it besides, while it holds the elements
// (ops/produced_forms.h): the largest magnitude and FP8 codes with scales of groups, the bits of
// `largest_magnitude` and `convert_operand`.

#include "ops/cuda/kernels/views.h"

namespace viaduct::cuda {

struct ProducedRows {
  int magnitudes = 0;           // 0: none; 2: that of the rotated matrix too
  uint32_t* partial = nullptr;  // [magnitudes, blocks of the launch]
  float* amax = nullptr;        // [magnitudes]
  int group_columns = 0;        // of a row share a scale: 8, 16, 32, 64 or 128; 0: no codes
  bool e5m2 = false;
  bool wide = false;  // 8 codes at any multiple of 8 columns may be written at once
  uint8_t* values = nullptr;
  int64_t values_stride = 0;
  float* scales = nullptr;          // of FP32, or
  uint8_t* scale_powers = nullptr;  // of e8m0
  int64_t scale_stride = 0;         // from one row's scales to the next

  bool any() const { return magnitudes > 0 || group_columns > 0; }
};

/// Columns of a group, at most: kernels begin runs of this many columns at a multiple of it.
inline constexpr int kMostGroupColumns = 128;

/// Most blocks of a kernel that makes forms; each has a place for its largest magnitudes.
inline constexpr int64_t kMostProducers = 2048;

/// Bytes of `partial`.
inline int64_t partial_bytes(int64_t magnitudes) {
  return magnitudes * kMostProducers * static_cast<int64_t>(sizeof(uint32_t));
}

/// amax from `partial`, after a kernel of `blocks`: a launch if there are magnitudes.
void finish_forms(const ProducedRows& forms, int64_t blocks, Stream stream);

}  // namespace viaduct::cuda
