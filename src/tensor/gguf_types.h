#pragma once
// The types that tensors of GGUF files have, by ggml's numbers. A quantized type stores the
// elements of a row in blocks of a fixed number of elements and bytes (gguf_blocks.h).

#include <cstdint>
#include <string>
#include <string_view>

#include "tensor/dtype.h"

namespace viaduct {

/// The types that are read.
enum class GgufTensorType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  f64 = 28,
  bf16 = 30,
  mxfp4 = 39,
};

struct GgufType {
  GgufTensorType type = GgufTensorType::f32;
  std::string_view name;
  int64_t block = 1;         // elements that are stored together
  int64_t bytes = 0;         // of a block
  DType dtype = DType::f32;  // of the elements; f32 for quantized types, whose values it holds

  bool quantized() const { return block > 1; }
};

const GgufType& gguf_type(GgufTensorType type);
/// Null for numbers that are not read.
const GgufType* find_gguf_type(uint32_t number);
/// The name of a type of ggml that is not read; "" for a number that ggml does not have.
std::string_view unread_gguf_type(uint32_t number);
/// "F32, F16, Q4_0, …": those that are read, for messages.
std::string gguf_type_names();

std::string_view gguf_type_name(GgufTensorType type);
/// Bytes of this many elements, a multiple of the type's block.
int64_t gguf_bytes(GgufTensorType type, int64_t elements);

}  // namespace viaduct
