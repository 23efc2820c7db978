#pragma once
// A picture as a data set knows it.

#include <cstdint>
#include <filesystem>
#include <string>

namespace viaduct {

/// A picture's file, as it was when it was read.
struct PictureFile {
  std::string path;
  uint64_t hash = 0;  // hash64 of its bytes
  int64_t height = 0, width = 0;
};

/// Reads a file, and the picture in it to check it. IoError with the path.
PictureFile read_picture_file(const std::filesystem::path& path);

}  // namespace viaduct
