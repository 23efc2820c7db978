#pragma once
// Integers of a batch file of `probe`.

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace viaduct {

/// The integers of a tensor (of its entry `step` where step ≥ 0). IoError for another type.
std::vector<int64_t> probe_integers(const TensorSource& file, const std::string& name,
                                    int64_t step);

}  // namespace viaduct
