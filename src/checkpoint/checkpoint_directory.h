#pragma once
// The index of a checkpoint folder, divided so that a rank reads only the parts it needs.
// index.json, the directory, holds each tensor's type and shape, and which line of pieces.jsonl
// lists its pieces. Its length grows with the number of tensors, not of ranks. The lines of the
// tensors, and of the shards (kShardsPerLine of them each), are in pieces.jsonl; their checksums
// are in the directory.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint_index.h"

namespace viaduct {

inline constexpr int64_t kDirectoryVersion = 2;
inline constexpr int64_t kShardsPerLine = 256;

/// Bytes of pieces.jsonl.
struct IndexLine {
  int64_t offset = 0, bytes = 0;
  uint64_t checksum = 0;
};

struct DirectoryTensor {
  DType dtype = DType::f32;
  Shape shape;  // of the whole logical tensor
  IndexLine line;
};

struct CheckpointDirectory {
  int64_t step = 0;
  std::map<std::string, DirectoryTensor> tensors;  // by logical name
  int64_t shards = 0;
  std::vector<IndexLine> shard_lines;
  std::vector<StoredFile> files;  // that the caller added
  StoredFile pieces;              // pieces.jsonl
  std::string state = "{}";       // JSON of the trainer
  /// The whole index of a version 1 folder, which has no pieces.jsonl; of the fields above only
  /// `step`, `files` and `state` are then set.
  std::optional<CheckpointIndex> whole;
};

/// The contents of index.json and pieces.jsonl.
struct DirectoryTexts {
  std::string index, pieces;
};
DirectoryTexts format_directory(const CheckpointIndex& index);

/// Reads index.json, of version 1 or 2. IoError that starts with `where` unless its checksum
/// matches, every field is present, and every line lies inside pieces.jsonl.
CheckpointDirectory parse_directory(std::string_view text, const std::string& where);

/// The bytes of a line; IoError unless its checksum matches.
std::string_view checked_line(std::string_view pieces, const IndexLine& line,
                              const std::string& where);
/// The shards that a line lists.
std::vector<StoredFile> parse_shards_line(std::string_view line, const std::string& where);
/// The tensor whose pieces a line lists: each inside the tensor, together covering each element
/// once, in existing shards. The lengths of shards are not checked here.
StoredTensor parse_tensor_line(std::string_view line, const DirectoryTensor& tensor, int64_t shards,
                               const std::string& where);

}  // namespace viaduct
