#include "data/image_files.h"

#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace viaduct {

std::string images_prefix(const std::string& prefix) {
  return prefix + ".images";
}

bool has_images(const std::string& prefix) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(images_prefix(prefix) + ".idx", ignored);
}

void remove_images(const std::string& prefix) {
  for (const char* ending : {".idx", ".bin", ".jsonl"}) {
    std::error_code error;
    std::filesystem::remove(images_prefix(prefix) + ending, error);
    VIADUCT_CHECK(IoError, !error, "{}{}: cannot remove it: {}", images_prefix(prefix), ending,
                  error.message());
  }
}

}  // namespace viaduct
