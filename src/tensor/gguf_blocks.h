#pragma once
// The quantized blocks of GGUF files: what is in one, its bits, and its values in FP32. The values
// are equal in every bit to those that the Python package `gguf` computes: each product of codes
// and scales is exact in FP32, only the subtraction of a minimum rounds.

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/gguf_types.h"

namespace viaduct {

/// Elements of the largest block, and its groups.
inline constexpr int kLargestGgufBlock = 256;
inline constexpr int kMostGgufGroups = 16;

/// The numbers of a block that a search of scales chooses. An element of a group of equal size is
///
///   scale × group scale × code ± minimum × group minimum
///
/// where factors that a type does not have are 1, and a minimum that it does not have is 0.
struct GgufBlock {
  float16 scale{}, minimum{};
  int16_t scales[kMostGgufGroups] = {};
  int16_t minimums[kMostGgufGroups] = {};
  int16_t codes[kLargestGgufBlock] = {};
};

/// Which of these numbers a type has, and their ranges.
struct GgufBlockForm {
  struct Range {
    int least = 0, largest = 0;  // 0, 0: there are none
  };

  int elements = 0, groups = 1;
  Range codes, scales, minimums;
  float minimum_sign = 0;  // of the minimum in the formula above; 0: there is none
};

/// Of any quantized type but MXFP4, whose scales are powers of two.
GgufBlockForm gguf_block_form(GgufTensorType type);

/// Writes the bytes of a block of such a type; numbers that the type does not have are not read.
void encode_gguf_block(GgufTensorType type, const GgufBlock& block, std::byte* to);

/// The elements [begin, end) of a tensor of a quantized type, whose blocks start at `blocks`, to
/// `to`. Reads only the blocks that hold one of them.
void decode_gguf_elements(GgufTensorType type, const std::byte* blocks, int64_t begin, int64_t end,
                          float* to);

}  // namespace viaduct
