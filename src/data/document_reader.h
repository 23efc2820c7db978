#pragma once
// Cuts text and JSONL files into pieces of bounded size that hold whole documents, in the order of
// the input.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/function_ref.h"

namespace viaduct {

/// A stretch of an input file: one whole text file, or whole lines of a JSONL file.
struct DocumentPiece {
  std::shared_ptr<const MappedFile> file;
  std::string path;
  size_t begin = 0, end = 0;
  int64_t first_line = 1;  ///< number of the first line
  bool jsonl = false;

  std::string_view text() const { return file->text().substr(begin, end - begin); }
};

/// What files of .jsonl, .ndjson and .json hold one JSON object a line.
bool is_jsonl_path(const std::filesystem::path& path);

class DocumentReader {
 public:
  /// `all_jsonl`: every file is JSONL, whatever its name. Files are opened when their turn comes;
  /// `next` throws IoError for one whose first bytes say that it is no text.
  DocumentReader(std::vector<std::filesystem::path> files, bool all_jsonl,
                 size_t piece_bytes = size_t{1} << 18);

  /// The next piece: at least one line, lines up to `piece_bytes`, or a whole text file; none at
  /// the end.
  std::optional<DocumentPiece> next();

 private:
  std::vector<std::filesystem::path> files_;
  bool all_jsonl_;
  size_t piece_bytes_;
  size_t file_ = 0;
  std::shared_ptr<const MappedFile> open_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

/// Calls `use` with each document of a piece: the text itself, or the string under `key` of each
/// line's object. Lines of white space alone are skipped. A line that is not a JSON object, or has
/// no such string, is an IoError that names file and line; so is content that is no text
/// (data/text_check.h), with its offset.
void for_each_document(const DocumentPiece& piece, const std::string& key,
                       FunctionRef<void(std::string_view document)> use);

}  // namespace viaduct
