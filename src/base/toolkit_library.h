#pragma once
// Finds libraries of NVIDIA on the machine; they are too large to be shipped with the program.

#include <functional>
#include <string>
#include <vector>

namespace viaduct {

struct ToolkitLibrary {
  const char* name;      // "NCCL"
  const char* file;      // "libnccl.so.2": the name under which other libraries need it
  const char* variable;  // of the environment, that may name the file to take; null: none
};
inline constexpr ToolkitLibrary kCublasLtLibrary{"cuBLASLt", "libcublasLt.so.13", nullptr},
    kCudnnLibrary{"cuDNN", "libcudnn.so.9", "VIADUCT_CUDNN_LIBRARY"},
    kNcclLibrary{"NCCL", "libnccl.so.2", "VIADUCT_NCCL_LIBRARY"};

/// Where `file` may be, in the order in which places are tried: its name alone, for the system's
/// library path; `lib64` and `lib` of the folders that CUDA_HOME and CUDA_PATH name, and of
/// /usr/local/cuda; the wheels (site-packages/nvidia/*/lib) of the Python of VIRTUAL_ENV, of those
/// in PATH, and of the user (~/.local). Of wheels only files that exist. `environment` is getenv's.
std::vector<std::string> toolkit_places(const std::string& file,
                                        const std::function<const char*(const char*)>& environment);

/// Loads `file` ("libcublasLt.so.13") from the first of its places that has it. `flags` are
/// dlopen's; `named`: the only path to try, if not null. Null if no place has it. `reasons` says of
/// each place that was tried in vain why.
void* open_toolkit_library(const std::string& file, int flags, std::string& reasons,
                           const char* named = nullptr);

/// The file of a library that is loaded.
std::string file_of_library(void* library);

/// "/usr/lib/libnccl.so.2", which is loaded, and after it the places that were tried before; or
/// "not found", with all places.
std::string describe_toolkit_library(const ToolkitLibrary& library);

}  // namespace viaduct
