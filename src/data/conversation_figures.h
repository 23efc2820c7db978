#pragma once
// What a plan knows about the conversations of a run: the shape of its rows, from a sample of their
// lengths.

#include <cstdint>
#include <optional>
#include <vector>

#include "data/dataset_config.h"

namespace viaduct {

struct ConversationFigures {
  int64_t conversations = 0;  // that were looked at
  double mean_tokens = 0;
  int64_t longest = 0;
  double padding = 0;         // share of the rows' places, as the run's rows are filled
  double padding_packed = 0;  // the same if they were packed, the longest first
  /// The documents of the row whose attention costs about the mean, in tokens; their sum is the
  /// row.
  std::vector<int32_t> row_documents;
  bool ends_with_padding = false;  // the last of these documents is padding
  int64_t most_documents = 0;      // of a row, with some to spare for rows that were not looked at
  int64_t images = 0;              // pictures of a row: the mean, rounded up
  /// Of each row in order of reading, the sum of squares of its documents' lengths: attention's
  /// cost. Padding between the last conversation and the row's end is a document too.
  std::vector<double> row_squares;
};

/// Of the first conversations of the training split, 16384 at most; without a blend of training, of
/// the validation split. Nothing if no rows hold
/// conversations, or the files cannot be read (opening them for training reports it).
std::optional<ConversationFigures> conversation_figures(const DatasetConfig& config);

/// The same from lengths in tokens; those that do not fit a row count as whole rows.
ConversationFigures conversation_figures(std::vector<int32_t> lengths, int64_t row_tokens,
                                         const PackingConfig& config, uint32_t seed);

}  // namespace viaduct
