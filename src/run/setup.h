#pragma once
// Derives the basis of a run from the user's configuration: its model folder, architecture,
// tokenizer, and the configuration with every `auto` resolved.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/grown_tables.h"
#include "checkpoint/model_folder.h"
#include "data/conversation_figures.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"
#include "model/model_config.h"
#include "nn/adapter_settings.h"
#include "run/run_config.h"

namespace viaduct {

/// An adapter beside the model that prompts ask for by its name.
struct NamedAdapter {
  std::string name;
  std::filesystem::path folder;  // as of open_adapter
  AdapterSettings settings = {};
};

struct RunSetup {
  RunConfig config;  // resolved
  ModelConfig model;
  /// The Hugging Face config.json that checkpoints of the run carry.
  std::string hf_config;
  std::optional<ModelFolder> pretrained;  // of checkpoint.pretrained_checkpoint
  /// Where model.vocab_size is above the pretrained folder's vocabulary: that one, and what the
  /// rows beyond it start as.
  int64_t stored_vocabulary = 0;
  std::vector<NewRow> new_rows;
  std::optional<Tokenizer> tokenizer;
  std::filesystem::path tokenizer_folder;  // or GGUF file; empty without tokenizer
  /// Its files, and the generation settings beside them; none without tokenizer.
  TokenizerFiles tokenizer_files;
  /// Of the training data, where rows hold conversations and the files can be read.
  std::optional<ConversationFigures> conversations;
  std::vector<NamedAdapter> adapters;  // of a generation, beside peft.adapter
  std::vector<std::string> notes;      // settings without effect, and notable decisions
  std::vector<std::string> warnings;   // legal settings that hardly anyone means
  std::vector<std::string> given;      // names of the fields that the user set
};

/// What passes through the model: rows of model.seq_length, or texts whose lengths are not known
/// yet (generation).
enum class RunInput { rows, texts };

/// Opens what the configuration names, in this order: architecture from
/// checkpoint.pretrained_checkpoint, else model.hf_config, else the fields; tokenizer from
/// tokenizer.tokenizer_model, else the folder of peft.adapter where that has another than the model
/// (checkpoint/adapter_tokenizer.h), else the pretrained folder. ConfigError or IoError with all
/// problems found.
RunSetup prepare_run(LoadedRunConfig loaded, RunInput input = RunInput::rows);

/// The data settings of a run without the rest of it.
struct DataSetup {
  DatasetConfig dataset;
  std::optional<int64_t> vocabulary_size;  ///< of the model, if configured
  std::optional<Tokenizer> tokenizer;      ///< if configured
};

/// Row length, end of documents and vocabulary as in prepare_run, from the same files; the other
/// fields may be incomplete. Errors as there.
DataSetup prepare_data(RunConfig config);

}  // namespace viaduct
