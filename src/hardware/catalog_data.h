#pragma once
// The files of hardware/ as the binary holds them.

#include <string_view>

namespace viaduct {

extern const std::string_view kGpusYaml, kClustersYaml;

}  // namespace viaduct
