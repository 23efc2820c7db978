#include "support/paths.h"

#include "support/cuda_double.h"

namespace viaduct::test {

std::filesystem::path source_folder() {
  return VIADUCT_SOURCE_FOLDER;
}

std::filesystem::path test_data(const std::filesystem::path& name) {
  return source_folder() / "tests" / "data" / name;
}

std::string viaduct_binary() {
  return VIADUCT_BINARY;
}

std::string cuda_double_library() {
  return VIADUCT_CUDA_DOUBLE;
}

}  // namespace viaduct::test
