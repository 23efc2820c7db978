#pragma once
// Bytes in order, from files that are not mapped: gzip and zstd files, standard input, pipes. What
// is compressed comes out unpacked, through buffers of fixed size.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace viaduct {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills `to` from the front; less than its size only at the end. IoError with the name and the
  /// offset in the file where reading fails, or where compressed data are damaged or end too early.
  virtual size_t read(std::span<char> to) = 0;
  /// Bytes of the file (as it is stored) that were used up.
  virtual int64_t consumed() const = 0;
};

/// What a name says and shows.
struct InputKind {
  bool standard_input = false;  ///< the name is "-"
  bool stream = false;          ///< to be read by open_stream; false: a file that can be mapped
  int64_t stored_bytes = 0;     ///< size on disk, 0 if nobody knows
};

/// Looks at a file without reading further than its first bytes. IoError if it is missing, or
/// called .gz or .zst while its first bytes are neither.
InputKind input_kind(const std::filesystem::path& path);

/// What messages call it: the path, or "standard input".
std::string input_name(const std::filesystem::path& path);

/// `path` without a last .gz or .zst.
std::filesystem::path without_compression(const std::filesystem::path& path);

/// Opens a file, a pipe, or "-"; content is unpacked if its first bytes are those of gzip or zstd.
std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path);

}  // namespace viaduct
