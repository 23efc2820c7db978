#pragma once
// The files of hardware/, and the counts of kernels that multiply by matrix units
// (tools/gpu_code/budgets/kernels.tsv), as the binary holds them.

#include <string_view>

namespace viaduct {

extern const std::string_view kGpusYaml, kClustersYaml, kKernelCountsTsv;

}  // namespace viaduct
