#pragma once
// What a run refuses of its conversations before anything is allocated: those that are longer than
// a row, and splits in which nothing is scored.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/conversation_limits.h"
#include "data/dataset_config.h"
#include "data/indexed_dataset.h"
#include "data/packing_plan.h"
#include "data/split.h"
#include "data/vocabulary_check.h"

namespace viaduct {

/// ConfigError if sequences of the range, a split of the data set, are longer than a row, or than
/// `limits.longest` where that is less: how many, the longest, and settings that would take them.
/// Nothing is too long where conversations may be cut.
void check_conversation_lengths(const IndexedDataset& dataset, Split split, DocumentRange range,
                                const PackingSettings& packing, const ConversationLimits& limits);

/// The same for all data sets with a mask of the splits; and ConfigError for a split none of whose
/// data sets has a scored token. Where conversations are too long, a record that says that they are
/// of another tokenizer than `tokenizer` is the error: their lengths say nothing then. Returns
/// warnings about single data sets of which this is true. Data sets that cannot be read are passed
/// over: opening them for training reports that. Nothing is checked where indices are trusted
/// (fast_cache_load): rows are checked as they are read.
std::vector<std::string> check_conversations(const DatasetConfig& config,
                                             std::span<const Split> splits,
                                             const NamedTokenizer& tokenizer = {});

}  // namespace viaduct
