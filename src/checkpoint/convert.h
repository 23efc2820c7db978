#pragma once
// Converts a Hugging Face folder to a checkpoint and back. Tensors are converted one at a time,
// each in its stored format and under its stored name. The files of model_side_file_names and
// config.json are copied unchanged, except that torch_dtype of a Hugging Face folder is set to the
// format of its tensors.

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_writer.h"

namespace viaduct {

/// The pieces of the model's logical tensors in each shard of a checkpoint.
struct ShardPlan {
  int shards = 1;
  /// The pieces of the weights, under the model's names; called once for each shard. Other tensors
  /// of a weight (moments) are cut in the same way.
  std::function<std::vector<CheckpointEntry>(int shard)> pieces;
};

struct ConvertSettings {
  std::filesystem::path from, to;
  /// Absent: the opposite of the format of `from`.
  std::optional<ModelFolderKind> format;
  /// Of the written checkpoint; absent: one shard with everything.
  std::optional<ShardPlan> plan;
  int64_t max_shard_bytes = kDefaultShardBytes;  // of a Hugging Face folder's files
};

struct Converted {
  ModelFolder folder;  // what was written
  int64_t tensors = 0, bytes = 0;
  std::vector<std::string> notes;  // messages: ModelConfig::notes of the input, and more
};

/// Writes `to`: a Hugging Face folder (weights only), or a save folder with one step (that of the
/// checkpoint it comes from, with all its state; 0 for a Hugging Face folder). ConfigError for
/// architectures that are not supported, and for a plan with a Hugging Face folder; IoError if the
/// tensors do not match config.json, or if `to` holds something other than an older step of a save
/// folder. The final name does not exist before the result is complete.
Converted convert_model(const ConvertSettings& settings);

}  // namespace viaduct
