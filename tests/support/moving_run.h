#pragma once
// A run that is saved in one layout and goes on in another.

#include <utility>
#include <vector>

#include "support/layout_run.h"
#include "support/training.h"

namespace viaduct::test {

/// Three steps on mock data of a model of the reference (tests/data/golden), in FP32.
Overrides three_steps(const std::string& model);

/// For each pair: `run` of three steps saves after two in the first layout. Loaded in the second
/// one, the weights, masters and moments, more than `least` tensors, have the same bits, and the
/// third step's loss is that of one rank.
void expect_goes_on(const Overrides& run,
                    const std::vector<std::pair<LayoutCase, LayoutCase>>& moves, size_t least);

}  // namespace viaduct::test
