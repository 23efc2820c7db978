#pragma once
// Writing a file that appears whole or not at all, and writing to something other than a file: a
// device, a pipe, standard output.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/unfinished_files.h"

namespace viaduct {

/// An output that a caller named by its path.
/// - A new file, or a regular file that belongs to us: data goes to `path` + ".tmp-PID"; `commit`
///   flushes it to disk and renames it to `path`, with the mode of the file that it replaces.
///   Without `commit` the destructor removes it, so a half-written file is never visible; so do
///   signals where the program asks for that (`RemovesUnfinishedFiles`).
/// - A symbolic link is followed: its target is replaced (or created) and the link stays.
/// - A device or a named pipe is opened and written to; `-`, /dev/stdout, /dev/fd/N and
///   /proc/self/fd/N are descriptors that are already open. What was written to them cannot be
///   taken back.
/// - Anything else (a folder, a socket, a regular file of another owner) is an IoError with its
///   path and kind.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends; throws IoError (with the reason, for example "No space left on device") on failure.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// fsync, rename, fsync of the folder; for an output that is not a file, the steps that apply.
  void commit();

 private:
  void open_beside(const std::filesystem::path& target);

  std::filesystem::path path_;    // as it was given, for messages
  std::filesystem::path target_;  // the file that appears; empty: written to directly
  std::filesystem::path temporary_;
  std::optional<UnfinishedFile> unfinished_;  // `temporary_`
  int descriptor_ = -1;
};

/// Removes what interrupted programs left of `target`: regular files `target`.tmp-PID whose process
/// does not exist on this machine, and that no process of another machine is writing (it holds them
/// by flock). For outputs that take long to write. Does nothing where the folder cannot be listed.
void remove_unfinished(const std::filesystem::path& target);

/// The PID of a name NAME.tmp-PID, `digits` being what follows "tmp-"; nothing unless it is the
/// number of a process that can exist and does not exist on this machine.
std::optional<int> dead_process(std::string_view digits);

/// Writes `text` as the whole content of `path` by OutputFile: a regular file changes at once.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Flushes a folder's entries to disk, so that renames inside it survive a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace viaduct
