#pragma once
// Converts a model between a Hugging Face folder, a checkpoint and a GGUF file. Tensors are
// converted one at a time. Between folders each keeps its name and, unless another format is
// requested, its stored format; the files of model_side_file_names and config.json are copied
// unchanged, except that torch_dtype of a Hugging Face folder is set to the format of its tensors,
// and quantization_config describes them. A merged adapter's own tokenizer files take the place of
// the model's (adapter_tokenizer.h).

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/export_tensors.h"
#include "checkpoint/extend_vocabulary.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors_writer.h"
#include "model/config_form.h"

namespace viaduct {

/// The pieces of the model's logical tensors in each shard of a checkpoint.
struct ShardPlan {
  int shards = 1;
  /// The pieces of the weights, under the model's names; called once for each shard. Other tensors
  /// of a weight (moments) are cut in the same way.
  std::function<std::vector<CheckpointEntry>(int shard)> pieces;
};

/// peft: an adapter of PEFT's (checkpoint/peft_folder.h), from the checkpoint of a run with
/// adapters.
enum class ModelFormat { hugging_face, checkpoint, gguf, peft };

struct ConvertSettings {
  std::filesystem::path from, to;  // GGUF files end in .gguf
  /// An adapter that is merged into the weights; such a model is not written as a checkpoint.
  std::optional<std::filesystem::path> adapter = {};
  /// The adapter is not merged but written alone, as llama.cpp's file (checkpoint/gguf_adapter.h).
  bool adapter_only = false;
  /// Tokens that the result has besides.
  std::optional<NewTokensRequest> new_tokens = {};
  /// Absent: gguf if `to` ends in .gguf; peft from a run with adapters; else a checkpoint for a
  /// Hugging Face folder without an adapter, and a Hugging Face folder for others.
  std::optional<ModelFormat> format;
  /// The spelling of config.json in a Hugging Face folder; absent: as it was.
  std::optional<ConfigForm> config_form = {};
  /// Of the tensors of an export (a Hugging Face folder or a GGUF file); absent: as stored.
  std::optional<ExportFormat> dtype;
  /// Of the written checkpoint; absent: one shard with everything.
  std::optional<ShardPlan> plan;
  int64_t max_shard_bytes = kDefaultShardBytes;  // of a Hugging Face folder's files
};

struct Converted {
  std::filesystem::path path;  // what was written: a folder, a step folder, a file
  int64_t tensors = 0, bytes = 0;
  std::optional<Rounding> rounding;  // where a format was requested
  std::vector<std::string> notes;    // messages: ModelConfig::notes of the input, and more
  std::string vocabulary = {};       // what new tokens changed
};

/// Writes `to`: a Hugging Face folder or a GGUF file (weights only), or a save folder with one step
/// (that of the checkpoint it comes from, with all its state; 0 for others). ConfigError for
/// architectures and formats that are not supported, for a plan or a format that the output cannot
/// have, for a missing `from`, and if `to` holds something other than an older step of a save
/// folder; IoError if the tensors do not match the configuration or exceed the format. The final
/// name does not exist before the result is complete.
Converted convert_model(const ConvertSettings& settings);

}  // namespace viaduct
