#include "support/paths.h"

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

}  // namespace viaduct::test
