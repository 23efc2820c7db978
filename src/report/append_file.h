#pragma once
// A file that grows by whole records: records are handed to the operating system before `append`
// returns, so a killed process loses nothing. A deleted file is recreated with its content; if it
// was replaced, appending continues in the new file.

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
  /// device"), and the file is as it was before. If the file no longer exists, folder and file are
  /// recreated first, with a warning.
  void append(std::string_view bytes);
  /// Flushes the file to disk, if it is on one; IoError with the reason.
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_all(std::string_view bytes);
  enum class Place { here, deleted, replaced };
  /// Where the opened file is now: still at its path, deleted or replaced.
  Place place() const;
  void open_again(Place found);

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace viaduct
