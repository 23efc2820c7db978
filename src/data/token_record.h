#pragma once
// Statistics of the tokens written by `viaduct data tokenize`, in PREFIX.tokens.json beside the
// data, so that later runs need not scan all tokens.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/indexed_dataset.h"

namespace viaduct {

/// Writes the record of the data set PREFIX, which is complete; `largest` is its largest token id,
/// −1 if it has none.
void write_token_record(const std::filesystem::path& prefix, int64_t largest);

/// The recorded largest token id; nothing without a record, or if it belongs to other data: another
/// number of sequences or bytes, or other bytes in a sample of them.
std::optional<int64_t> recorded_largest_token(const IndexedDataset& dataset);

}  // namespace viaduct
