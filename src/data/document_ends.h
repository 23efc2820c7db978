#pragma once
// Which token ends the documents of the configured data sets, and whether the data agree: attention
// and positions that stop at documents look for this token alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset_config.h"

namespace viaduct {

class DatasetBuilder;

/// Whether a setting looks for ends of documents.
bool needs_document_ends(const DatasetConfig& config);

/// The token that `viaduct data tokenize` appended to documents, by the records of the data sets
/// (token_record.h); nothing if none of them says. ConfigError with two data sets and their tokens
/// if they differ. Files that cannot be read are passed over: opening them reports the error.
std::optional<int64_t> recorded_separator(const DatasetConfig& config);

/// A line for each data set whose documents do not end where dataset.eod_id does: that have the
/// token inside documents (by the record, else by a sample of `max_tokens` tokens), that end with
/// another one, or with none (without a record: none of the sample). Empty if no setting looks for
/// ends of documents.
std::vector<std::string> separator_warnings(DatasetBuilder& builder,
                                            int64_t max_tokens = int64_t{1} << 20);

}  // namespace viaduct
