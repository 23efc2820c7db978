#pragma once
// Shapes in the JSON of checkpoints and safetensors files.

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/json_reader.h"
#include "tensor/shape.h"

namespace viaduct {

/// An array of counts as a Shape; the product of its sizes and `element_bytes` fits int64. IoError
/// that starts with `where` and names `field` otherwise.
template <class Json>
Shape json_shape(const Json& value, int64_t element_bytes, const char* field,
                 const std::string& where) {
  VIADUCT_CHECK(IoError, value.is_array(), "{}: \"{}\" is not an array", where, field);
  VIADUCT_CHECK(IoError, value.size() <= Shape::kMaxRank,
                "{}: \"{}\" has {} dims, at most {} are supported", where, field, value.size(),
                Shape::kMaxRank);
  Shape shape;
  int64_t bytes = element_bytes;
  for (const auto& dim : value) {
    const auto size = json_count(dim);
    VIADUCT_CHECK(IoError, size, "{}: a size in \"{}\" is not a count", where, field);
    // A zero size would hide an overflow of the others, so it multiplies as one.
    const bool overflow = __builtin_mul_overflow(bytes, std::max<int64_t>(*size, 1), &bytes);
    VIADUCT_CHECK(IoError, !overflow, "{}: the sizes in \"{}\" overflow", where, field);
    shape.append(*size);
  }
  return shape;
}

}  // namespace viaduct
