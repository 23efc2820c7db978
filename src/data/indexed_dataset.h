#pragma once
// Reader of Megatron's indexed token files: PREFIX.bin holds the tokens of all sequences back to
// back, PREFIX.idx holds the position of each sequence and the first sequence of each document.
// Both are memory-mapped: opening a file of terabytes reads its index once (to validate it) and no
// token.
//
// .idx, little-endian: "MMIDIDX\0\0"; u64 version = 1; u8 dtype code; u64 sequences S; u64
// document-index entries D (documents + 1); i32[S] lengths in tokens; i64[S] byte offsets in .bin;
// i64[D] first sequence of each document, then S; optionally i8[S] modes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/token_type.h"

namespace viaduct {

/// When the entries of an index are compared with the sizes of the files.
enum class IndexCheck {
  at_once,  ///< all of them when it is opened
  on_use,   ///< each when its tokens are read: opening does not depend on the size of the index
};

class IndexedDataset {
 public:
  /// Opens PREFIX.idx and PREFIX.bin. Every count, length, offset and document border is checked
  /// against the sizes of the files before use; a mismatch is an IoError with file, entry, found
  /// and expected.
  explicit IndexedDataset(const std::filesystem::path& prefix,
                          IndexCheck check = IndexCheck::at_once);
  /// The same from the bytes of both files; `name` stands for the prefix in messages.
  static IndexedDataset from_memory(std::string idx, std::string bin, std::string name);

  /// The prefix as given.
  const std::string& prefix() const { return prefix_; }
  TokenType token_type() const { return type_; }
  int64_t sequence_count() const { return sequence_count_; }
  int64_t document_count() const { return document_entries_ - 1; }
  /// Of all sequences; counted now if not all of them have been checked.
  int64_t total_tokens() const;
  /// All bytes of both files.
  std::span<const std::byte> index_bytes() const { return idx_; }
  std::span<const std::byte> token_bytes() const { return bin_; }
  bool has_modes() const { return modes_ != nullptr; }

  /// Tokens of sequence `sequence`.
  int32_t sequence_length(int64_t sequence) const { return load<int32_t>(lengths_, sequence); }
  /// Prefetches the length of `sequence`.
  void prefetch_length(int64_t sequence) const { __builtin_prefetch(lengths_ + 4 * sequence); }
  /// The lengths of all sequences, as stored.
  std::string_view length_bytes() const {
    return {reinterpret_cast<const char*>(lengths_), static_cast<size_t>(4 * sequence_count_)};
  }
  /// Byte offset of the sequence in .bin.
  int64_t sequence_offset(int64_t sequence) const { return load<int64_t>(offsets_, sequence); }
  /// First sequence of document `entry`; entry document_count() gives sequence_count().
  int64_t document_start(int64_t entry) const { return load<int64_t>(documents_, entry); }
  int8_t sequence_mode(int64_t sequence) const { return load<int8_t>(modes_, sequence); }

  /// Tokens [offset, offset + out.size()) of a sequence, widened. A range outside of the sequence
  /// is a ShapeError, a floating-point file an IoError.
  void read(int64_t sequence, int64_t offset, std::span<int64_t> out) const;
  /// The same for model input: a token that is negative or above INT32_MAX is an IoError with its
  /// position.
  void read(int64_t sequence, int64_t offset, std::span<int32_t> out) const;
  /// The same for any type of file, as numbers.
  void read(int64_t sequence, int64_t offset, std::span<double> out) const;
  /// IoError that names file and offset if bytes of the two files could not be read, or one of them
  /// is shorter than when it was opened. `read` checks only what costs nothing; callers that read a
  /// whole sample, or use lengths and offsets alone, call this afterwards.
  void check_read() const;
  /// The stored bytes of a whole sequence.
  std::span<const std::byte> bytes(int64_t sequence) const;

 private:
  // Arrays of .idx start at odd addresses, hence copies instead of pointers to integers.
  template <class T>
  static T load(const std::byte* array, int64_t index) {
    T value;
    __builtin_memcpy(&value, array + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  IndexedDataset() = default;
  void parse(IndexCheck check);
  void parse_header();
  void validate_sequences();
  void validate_documents();
  /// Calls `check_read` if a thread met missing bytes.
  void check_known_faults() const;
  const std::byte* range(int64_t sequence, int64_t offset, int64_t count) const;

  std::string prefix_;
  struct Files;
  std::shared_ptr<const void> owner_;
  const Files* files_ = nullptr;  // of `owner_`; null where the bytes are in memory
  std::span<const std::byte> idx_, bin_;
  TokenType type_ = TokenType::int32;
  int64_t sequence_count_ = 0, document_entries_ = 0;
  int64_t total_tokens_ = -1;  // until counted
  const std::byte *lengths_ = nullptr, *offsets_ = nullptr, *documents_ = nullptr,
                  *modes_ = nullptr;
};

}  // namespace viaduct
