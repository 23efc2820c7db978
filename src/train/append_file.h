#pragma once
// A file that grows by whole records: what was written is with the operating system when `append`
// returns, so a killed process loses nothing. A file that was deleted since is made again with all
// that it held; one that somebody replaced is gone on with in the new one.

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
  /// device"), and the file is as it was before. If the file is not there any more, folder and file
  /// are made again first, with a warning.
  void append(std::string_view bytes);
  /// Hands what was appended to the disk, as far as the file has one; IoError with the reason.
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_all(std::string_view bytes);
  enum class Place { here, deleted, replaced };
  /// What has become of the file that was opened.
  Place place() const;
  void open_again(Place found);

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace viaduct
