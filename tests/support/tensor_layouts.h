#pragma once
// Layouts of, and walks over, one step of a small model, for tests of options that must not change
// any bit.

#include <string>
#include <vector>

#include "support/tensor_ranks.h"

namespace viaduct::test {

/// Whether tests try every unit of every layer in every layout (`./viaduct.sh policies`, by
/// VIADUCT_ALL_POLICIES in the environment) instead of a part of them.
bool all_policies();

/// A small model with dropout that supports all layouts below.
ModelConfig layout_model(const std::string& name, int64_t layers = 2);

struct LayoutRun {
  std::string name;
  TensorRun run;
};
/// Tensor, sequence and context ranks, overlaps, halves, segments, fusions.
std::vector<LayoutRun> layouts(const ModelConfig& model, const std::string& recipe);

}  // namespace viaduct::test
