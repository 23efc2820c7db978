#pragma once
// The parts of a parameter in the order of its storage.

#include <cstdint>
#include <vector>

#include "nn/parameter.h"

namespace viaduct {

/// The dim of the logical tensor along which rows of the storage lie.
inline int dim_of_rows(const Part& part) {
  return part.transposed ? 1 : 0;
}

/// Rows of the storage up to the end of the last part.
inline int64_t rows_of(const std::vector<Part>& parts) {
  return parts.empty() ? 0 : parts.back().storage_row + parts.back().rows();
}

/// Appends `part`, or extends the last one if `part` continues it in storage and logical tensor (a
/// fused tensor that is held whole is one part).
void append_part(std::vector<Part>& parts, Part part);

}  // namespace viaduct
