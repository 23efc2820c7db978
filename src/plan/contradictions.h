#pragma once
// Which of the given sizes exclude each other where no layout is left.

#include <string>
#include <vector>

#include "plan/layout_space.h"

namespace viaduct {

/// Given sizes that no layout of the model has together, while there are layouts without any one of
/// them: "model.tensor_model_parallel_size=3", "--ranks 8". Empty if the cause is none of them.
/// `limits` has no layouts.
std::vector<std::string> contradicting_sizes(const SpaceLimits& limits);

/// The error for a search without layouts: what its ranks, layers and rows do not go with.
std::string no_layout_text(const SpaceLimits& limits);

}  // namespace viaduct
