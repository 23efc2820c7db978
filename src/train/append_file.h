#pragma once
// A file that grows by whole records: what was written is with the operating system when `append`
// returns, so a killed process loses nothing.

#include <filesystem>
#include <string_view>

namespace viaduct {

class AppendFile {
 public:
  enum class Mode {
    append,     // continue the file, or start it
    exclusive,  // IoError if the file exists
  };
  /// IoError with the path and the system's reason.
  AppendFile(std::filesystem::path path, Mode mode);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Writes all of `bytes` at the end; IoError with the reason (for example "No space left on
  /// device").
  void append(std::string_view bytes);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace viaduct
