#pragma once
// How conversations become rows: fields of section `dataset` that matter for data sets with a mask
// (score_mask.h).

#include <cstdint>
#include <optional>

#include "config/field.h"
#include "data/conversation_limits.h"
#include "data/packing_plan.h"

namespace viaduct {

struct PackingConfig {
  /// Tokens of a row that holds several conversations; null: each conversation is a row.
  std::optional<int64_t> packed_sequence_size;
  /// How conversations are chosen for a row (packing_plan.h).
  PackingAlgorithm packing_algorithm = PackingAlgorithm::first_fit_decreasing;
  /// Conversations may be cut at the end of a row.
  bool packing_split = false;
  /// Each row has the same number of documents; surplus ones are empty.
  bool pad_cu_seqlens = false;
  /// The places of a conversation in its row are a multiple of this.
  int64_t pad_seq_to_mult = 1;
  /// Only tokens that the mask has are scored; false: every one.
  bool answer_only_loss = true;
  /// Megatron-Bridge's names of the same, which set the fields above (run/packing_settings.h).
  std::optional<bool> enable_offline_packing;
  Value offline_packing_specs, packed_sequence_specs;

  // Not fields: what follows from the data and the rest of the configuration.
  /// Some data set has a mask, or rows are packed: rows have documents.
  bool conversations = false;
  /// Some data set has none: its rows are single documents.
  bool plain = false;
  ConversationLimits limits;
};

FieldGroup packing_fields(PackingConfig& config);

/// How rows of so many tokens are filled. The fields of packing act on packed rows alone: without a
/// size a row has one whole conversation.
PackingSettings packing_settings(const PackingConfig& config, int64_t row_tokens);

}  // namespace viaduct
