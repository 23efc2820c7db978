#pragma once
// From a Hugging Face folder to a checkpoint and back. Tensors go through one at a time, each in
// its stored format and under its stored name; the files of model_side_file_names are copied as
// they are, and so is config.json, but that torch_dtype of a Hugging Face folder is that of its
// tensors.

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_writer.h"

namespace viaduct {

/// Which pieces of the model's logical tensors each shard of a checkpoint gets.
struct ShardPlan {
  int shards = 1;
  /// Of the weights, under the model's names for them; asked for once for each shard. What
  /// else is stored for a weight (moments) is cut as it is.
  std::function<std::vector<CheckpointEntry>(int shard)> pieces;
};

struct ConvertSettings {
  std::filesystem::path from, to;
  /// Absent: the other one than that of `from`.
  std::optional<ModelFolderKind> format;
  /// Of the checkpoint that is written; absent: one shard with everything.
  std::optional<ShardPlan> plan;
  int64_t max_shard_bytes = kDefaultShardBytes;  // of a Hugging Face folder's files
};

struct Converted {
  ModelFolder folder;  // what was written
  int64_t tensors = 0, bytes = 0;
  std::vector<std::string> notes;  // for people: ModelConfig::notes of what was read, and more
};

/// Writes `to`: a Hugging Face folder (weights only), or a save folder with one step (that of the
/// checkpoint it comes from, with all its state; 0 for a Hugging Face folder). ConfigError for
/// architectures that are not supported, and for a plan of a Hugging Face folder; IoError if the
/// tensors do not fit config.json, or if `to` holds something that is not an older step of a save
/// folder. Nothing is seen under the final name before it is complete.
Converted convert_model(const ConvertSettings& settings);

}  // namespace viaduct
