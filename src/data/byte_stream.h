#pragma once
// Bytes in order, from files that are not mapped: gzip and zstd files, standard input, pipes.
// Compressed input is unpacked through buffers of fixed size.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace viaduct {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills `to` from the front; fewer bytes only at the end. IoError with name and file offset if
  /// reading fails, or if compressed data are damaged or truncated.
  virtual size_t read(std::span<char> to) = 0;
  /// Bytes of the stored file consumed so far.
  virtual int64_t consumed() const = 0;
};

/// What a path and its first bytes reveal about an input.
struct InputKind {
  bool standard_input = false;  ///< the name is "-"
  bool stream = false;          ///< to be read by open_stream; false: a file that can be mapped
  int64_t stored_bytes = 0;     ///< size on disk, 0 if unknown
};

/// Inspects a file's first bytes only. IoError if it is missing, or if it is named .gz or .zst and
/// its first bytes are neither.
InputKind input_kind(const std::filesystem::path& path);
/// The sum of their sizes on disk; 0 if one of them is unknown.
int64_t stored_bytes_of(const std::vector<std::filesystem::path>& inputs);

/// Its name in messages: the path, or "standard input".
std::string input_name(const std::filesystem::path& path);

/// `path` without a last .gz or .zst.
std::filesystem::path without_compression(const std::filesystem::path& path);

/// Opens a file, a pipe, or "-"; content is unpacked if its first bytes are those of gzip or zstd.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

}  // namespace viaduct
