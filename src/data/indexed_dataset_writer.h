#pragma once
// Writer of Megatron's indexed token files (indexed_dataset.h), byte for byte what Megatron's own
// builder writes.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/token_type.h"

namespace viaduct {

class IndexedDataset;

/// Streams tokens into PREFIX.bin and keeps 4 bytes a sequence (plus 8 a document) for PREFIX.idx.
/// Neither name exists before `finish`; a writer destroyed without it leaves no files.
class IndexedDatasetWriter {
 public:
  IndexedDatasetWriter(const std::filesystem::path& prefix, TokenType type);

  /// Appends one sequence to the open document. A token that the type cannot hold is an IoError.
  void add_sequence(std::span<const int64_t> tokens);
  void add_sequence(std::span<const int32_t> tokens);
  /// The same with a mode byte; either all sequences of a file have modes or none.
  void add_sequence(std::span<const int64_t> tokens, int8_t mode);
  /// Closes the open document (which may be empty).
  void end_document();
  /// One sequence that is a document.
  void add_document(std::span<const int32_t> tokens);
  /// Appends a whole file of the same type, documents and modes included.
  void append(const IndexedDataset& dataset);

  int64_t sequence_count() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t document_count() const { return static_cast<int64_t>(documents_.size()) - 1; }
  int64_t total_tokens() const { return total_tokens_; }
  /// The largest token id added, −1 if none; whole files (`append`) are not counted.
  int64_t largest_token() const { return largest_token_; }

  /// Writes .idx and renames both files into place, .bin first.
  void finish();

 private:
  template <class Token>
  void append_tokens(std::span<const Token> tokens);
  void flush();
  void check_modes() const;

  std::string prefix_;
  TokenType type_;
  OutputFile bin_;
  std::string buffer_;
  int64_t total_tokens_ = 0, largest_token_ = -1;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_{0};
  std::vector<int8_t> modes_;
};

/// Concatenates data sets with their masks. All have one element type, all or none modes and masks.
void merge_indexed_datasets(const std::vector<std::filesystem::path>& prefixes,
                            const std::filesystem::path& output);

}  // namespace viaduct
