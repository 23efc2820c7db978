#pragma once
// The lines of chat files in pieces of bounded size: JSONL, or a JSON list whose elements become
// lines; also compressed by gzip or zstd, and standard input.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.h"

namespace viaduct {

/// Whole lines of an input, each a JSON value.
struct ConversationPiece {
  std::string text, path;
  size_t file = 0;    // its place among the inputs
  int64_t first = 1;  // number of the first line, or of the first element of a list
  bool list = false;
  size_t offset = 0;  // of what is read, unpacked; of a list, of its elements alone

  /// "FILE:7", or "FILE: element 7" of a list.
  std::string place(int64_t number) const;
};

class ConversationSource {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 18;

  explicit ConversationSource(std::vector<std::filesystem::path> files,
                              size_t piece_bytes = kPieceBytes);

  /// The next piece: lines up to about `piece_bytes`, at least one; nothing at the end. IoError for
  /// a file that is no text (Parquet and NumPy files with the reason), a list that does not end,
  /// and a line beyond 1 GiB.
  std::optional<ConversationPiece> next();

  /// Stored bytes of the input read so far.
  int64_t consumed() const { return consumed_ + (stream_ ? stream_->consumed() : 0); }

 private:
  void open();
  void close();
  void read();
  void cut_lines(std::string& text);
  void cut_elements(std::string& text);

  std::vector<std::filesystem::path> files_;
  size_t piece_bytes_;
  size_t file_ = 0;
  int64_t consumed_ = 0;  // of the files before

  // The file that is open.
  std::unique_ptr<ByteStream> stream_;
  std::string name_;
  std::string buffer_;   // read and not yet given out
  size_t searched_ = 0;  // bytes of it without the end of a line
  bool ended_ = false, list_ = false;
  int64_t number_ = 1;  // of the next line
  size_t given_ = 0;    // bytes

  // Inside of a list.
  std::string element_;  // that is not complete
  int depth_ = 0;
  bool in_text_ = false, escaped_ = false, closed_ = false;
};

}  // namespace viaduct
