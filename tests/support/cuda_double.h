#pragma once
// The library of the cuda device on the doubles of tests/cuda_host, which `viaduct` loads as it
// loads libviaduct_cuda.so.

#include <string>

namespace viaduct::test {

/// Its path in this build (support/paths.cpp).
std::string cuda_double_library();

}  // namespace viaduct::test
