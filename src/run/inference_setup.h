#pragma once
// The setup of commands that only run forwards of a model folder, in any layout: `viaduct eval` and
// `viaduct generate`.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "comm/dist_config.h"
#include "run/setup.h"

namespace viaduct {

/// Conversations that are evaluated (data/conversation_dataset.h).
struct EvaluatedConversations {
  std::string prefix;   // of a data set with a mask
  int64_t longest = 0;  // tokens of the longest one
  bool images = false;  // it has pictures, which a model that takes some reads
};

struct InferenceRequest {
  /// As of resolve_model_folder; or an adapter, without `adapter`: the model that it names.
  std::filesystem::path model;
  std::vector<std::string> overrides;       // section.field=value
  std::optional<std::string> adapter = {};  // as of open_adapter
  std::vector<NamedAdapter> adapters = {};  // that prompts name; without settings
  DistConfig dist;                          // defaults, as a launcher gives them
  /// Tokens of a row; none: as dataset.packed_sequence_size, else as model.seq_length, else at most
  /// 2048, or more if a conversation needs them.
  std::optional<int64_t> sequence_length = {};
  /// For generation, which feeds few tokens at a time: no sequence parallelism unless the model has
  /// experts, no exchanges in chunks under products, and weights as tiles if GEMMs read them.
  bool few_tokens = false;
  /// Prompts may have images: of a model that takes some, its layers for them are read.
  bool images = false;
  /// The run's validation data, in rows that are packed unless dataset.packed_sequence_size says
  /// otherwise.
  std::optional<EvaluatedConversations> conversations = {};
};

/// The length of rows, for a model of so many positions, that hold texts of up to `longest` tokens
/// as far as the positions reach; layouts can cut them.
int64_t row_that_holds(int64_t longest, int64_t positions);

/// A run that trains nothing (train.skip_train), in the type of the folder's weights unless the
/// overrides say otherwise: model, tokenizer and configuration. A micro-batch has about 2048 tokens
/// unless train.micro_batch_size is given. No weight is read. ConfigError or IoError with all
/// problems found.
RunSetup prepare_inference(const InferenceRequest& request);

}  // namespace viaduct
