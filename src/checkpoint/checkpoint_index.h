#pragma once
// What a checkpoint folder holds: logical tensors, the pieces of them that are stored, where, and
// the checksums of everything. As one text it is written by each rank beside its shard while a
// checkpoint is made, and was index.json in version 1 of the format; the current format is in
// checkpoint_directory.h. docs/checkpoint-format.md describes the files.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/box.h"
#include "checkpoint/tensor_source.h"

namespace viaduct {

inline constexpr int64_t kCheckpointVersion = 1;
/// Every stored piece starts at a multiple of this in its shard.
inline constexpr int64_t kCheckpointAlignment = 64;
inline constexpr const char* kCheckpointIndexFile = "index.json";
inline constexpr const char* kCheckpointPiecesFile = "pieces.jsonl";

/// A piece of a logical tensor and the place of its bytes.
struct StoredPiece {
  Piece piece;
  size_t shard = 0;    // of CheckpointIndex::shards
  int64_t offset = 0;  // bytes from the start of the shard
  uint64_t checksum = 0;
};

struct StoredTensor {
  DType dtype = DType::f32;
  Shape shape;  // of the whole logical tensor
  std::vector<StoredPiece> pieces;
};

/// A file of the folder, with its hash64.
struct StoredFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t checksum = 0;
};

struct CheckpointIndex {
  int64_t step = 0;
  std::map<std::string, StoredTensor> tensors;  // by logical name
  std::vector<StoredFile> shards;               // of tensor bytes
  std::vector<StoredFile> files;                // added by the caller (config.json …)
  std::string state = "{}";                     // JSON of the trainer
};

/// One line a tensor, keys in alphabetical order, with a checksum of itself.
std::string format_checkpoint_index(const CheckpointIndex& index);

/// Parses such a text. IoError that starts with `where` unless its checksum matches, every field is
/// present, every piece lies inside its tensor and its shard, and no two share bytes of a shard.
CheckpointIndex parse_checkpoint_index(std::string_view text, const std::string& where);

/// IoError unless the pieces of a tensor hold each of its elements exactly once. Boxes must be
/// equal or disjoint.
void check_tensor_complete(const StoredTensor& tensor, const std::string& where);

/// IoError unless the pieces of each tensor hold each of its elements exactly once. Boxes of one
/// tensor must be equal or disjoint.
void check_complete(const CheckpointIndex& index, const std::string& where);

/// Adds the tensors and shards of another rank's index; IoError if they disagree about a tensor's
/// dtype or shape.
void merge_checkpoint_index(CheckpointIndex& index, CheckpointIndex&& other,
                            const std::string& where);

}  // namespace viaduct
