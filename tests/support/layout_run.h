#pragma once
// A probe on many ranks, as the command line would run it: ranks are threads.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace viaduct::test {

/// What `viaduct probe --model MODEL --batch BATCH [--train] OVERRIDES…` dumps.
std::map<std::string, Tensor> probe_layout(const std::filesystem::path& model,
                                           const std::filesystem::path& batch, bool train,
                                           std::vector<std::string> overrides);

/// The optimizer settings of the reference's ten steps (tests/data/golden), as overrides.
std::vector<std::string> reference_optimizer();

}  // namespace viaduct::test
