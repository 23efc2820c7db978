#pragma once
// Finds libraries of the CUDA toolkit on the machine; they are too large to be shipped with the
// program.

#include <string>

namespace viaduct {

/// Loads `file` ("libcublasLt.so.13") from the system's library path, or else from
/// `lib64` and `lib` of the folders that CUDA_HOME and CUDA_PATH name, and of /usr/local/cuda.
/// `flags` are dlopen's; `named`: the only path to try, if not null. Null if no place has it;
/// `reasons` then says of each place why.
void* open_toolkit_library(const std::string& file, int flags, std::string& reasons,
                           const char* named = nullptr);

}  // namespace viaduct
