#pragma once
// Cuts text and JSONL into pieces of bounded size that hold whole documents, in the order of the
// input: from mapped files, or from streams (compressed files, standard input, pipes).

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/function_ref.h"
#include "data/byte_stream.h"

namespace viaduct {

/// Part of an input: one whole text, or whole lines of JSONL.
struct DocumentPiece {
  std::shared_ptr<const MappedFile> file;  ///< holds the text; null for streams
  std::string streamed;                    ///< the text of a stream
  std::string path;
  size_t begin = 0, end = 0;  ///< in the file, or in what the stream unpacks
  int64_t first_line = 1;     ///< number of the first line
  bool jsonl = false;

  std::string_view text() const {
    return file ? file->text().substr(begin, end - begin) : std::string_view(streamed);
  }
};

/// Position of a document in its input.
struct DocumentPlace {
  int64_t line = 1;   ///< of its first character; of JSONL, its line
  size_t offset = 0;  ///< of its text in the file; of JSONL, of its line
};

/// Whether the name means one JSON object a line: .jsonl, .ndjson or .json, optionally followed by
/// .gz or .zst.
bool is_jsonl_path(const std::filesystem::path& path);

class DocumentReader {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 18;
  /// Maximum size of a streamed text or line, which is held in memory whole.
  static constexpr size_t kLargestStreamed = size_t{4} << 30;

  /// `all_jsonl`: every file is JSONL, whatever its name. "-" is standard input, JSONL if
  /// `all_jsonl`. Files are opened in turn; `next` throws IoError for a file whose first bytes are
  /// not text.
  DocumentReader(std::vector<std::filesystem::path> files, bool all_jsonl,
                 size_t piece_bytes = kPieceBytes, size_t largest_streamed = kLargestStreamed);

  /// The next piece: at least one line, lines up to about `piece_bytes`, or a whole text; none at
  /// the end.
  std::optional<DocumentPiece> next();

  /// Stored bytes of the input read so far.
  int64_t consumed() const;

 private:
  void open(const std::filesystem::path& path);
  void close();
  std::optional<DocumentPiece> next_of_file();
  std::optional<DocumentPiece> next_of_stream();
  void fill(std::string& text);

  std::vector<std::filesystem::path> files_;
  bool all_jsonl_;
  size_t piece_bytes_, largest_streamed_;
  size_t file_ = 0;
  int64_t consumed_ = 0;  // of the files before

  // The file that is open.
  std::string name_;
  bool is_open_ = false, jsonl_ = false;
  std::shared_ptr<const MappedFile> mapped_;
  std::unique_ptr<ByteStream> stream_;
  std::string rest_;  // incomplete line of the stream
  bool ended_ = false;
  size_t at_ = 0;
  int64_t line_ = 1;
};

/// Calls `use` with each document of a piece: the text itself, or the string under `key` of each
/// line's object. Lines of only white space are skipped. A line that is not a JSON object, or has
/// no such string, is an IoError with file and line; content that is not text (data/text_check.h)
/// is one with its offset.
void for_each_document(
    const DocumentPiece& piece, const std::string& key,
    FunctionRef<void(std::string_view document, const DocumentPlace& place)> use);

}  // namespace viaduct
