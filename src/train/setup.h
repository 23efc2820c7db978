#pragma once
// From a configuration as the user wrote it to everything a run stands on: the model folder it
// starts from, architecture, tokenizer, and the configuration with every `auto` resolved.

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/model_folder.h"
#include "data/tokenizer/tokenizer.h"
#include "model/model_config.h"
#include "train/run_config.h"

namespace viaduct {

struct RunSetup {
  RunConfig config;  // resolved
  ModelConfig model;
  /// The Hugging Face config.json that checkpoints of the run carry.
  std::string hf_config;
  std::optional<ModelFolder> pretrained;  // of checkpoint.pretrained_checkpoint
  std::optional<Tokenizer> tokenizer;
  std::filesystem::path tokenizer_folder;  // empty without tokenizer
  std::vector<std::string> notes;          // settings without effect, decisions worth saying
};

/// Opens what the configuration names, in this order: architecture from
/// checkpoint.pretrained_checkpoint, else model.hf_config, else the fields; tokenizer from
/// tokenizer.tokenizer_model, else the pretrained folder. ConfigError or IoError with all that is
/// known.
RunSetup prepare_run(LoadedRunConfig loaded);

/// The data of a run without the rest of it.
struct DataSetup {
  DatasetConfig dataset;
  std::optional<int64_t> vocabulary_size;  ///< of the model, where the configuration says it
  std::optional<Tokenizer> tokenizer;      ///< where the configuration names one
};

/// Row length, end of documents and vocabulary as prepare_run finds them, from the same files; the
/// other fields may be incomplete. Errors as there.
DataSetup prepare_data(RunConfig config);

}  // namespace viaduct
