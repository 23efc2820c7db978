#pragma once
// The index of a checkpoint folder, cut so that a rank reads what it needs of it. index.json, the
// directory, says what there is: a tensor's type and shape, and which line of pieces.jsonl lists
// its pieces. Its length goes with the number of tensors, not of ranks. The lines of the tensors,
// and of the shards (kShardsPerLine of them each), stand in pieces.jsonl, and their checksums in
// the directory.

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
  /// A folder of version 1, which has no pieces.jsonl: all that it holds, and nothing above but
  /// `step`, `files` and `state`.
  std::optional<CheckpointIndex> whole;
};

/// The contents of both files.
struct DirectoryTexts {
  std::string index, pieces;
};
DirectoryTexts format_directory(const CheckpointIndex& index);

/// Reads index.json, of version 1 or 2. IoError that starts with `where` unless its checksum fits,
/// every field is there, and every line lies inside pieces.jsonl.
CheckpointDirectory parse_directory(std::string_view text, const std::string& where);

/// The bytes of a line; IoError unless its checksum fits.
std::string_view checked_line(std::string_view pieces, const IndexLine& line,
                              const std::string& where);
/// The shards that a line lists.
std::vector<StoredFile> parse_shards_line(std::string_view line, const std::string& where);
/// The tensor whose pieces a line lists: each inside the tensor, all together each of its elements
/// once, in shards that there are. That the shards are long enough is not known here.
StoredTensor parse_tensor_line(std::string_view line, const DirectoryTensor& tensor, int64_t shards,
                               const std::string& where);

}  // namespace viaduct
