#pragma once
// The quantized blocks of GGUF files as FP32 values, equal in every bit to those that the Python
// package `gguf` computes: each product of codes and scales is exact in FP32, only the subtraction
// of a minimum rounds.

#include <cstddef>
#include <cstdint>

#include "checkpoint/gguf_types.h"

namespace viaduct {

/// The elements [begin, end) of a tensor of a quantized type, whose blocks start at `blocks`, to
/// `to`. Reads only the blocks that hold one of them.
void decode_gguf_elements(GgufTensorType type, const std::byte* blocks, int64_t begin, int64_t end,
                          float* to);

}  // namespace viaduct
