#pragma once
// What `viaduct data tokenize` knows about the tokens it wrote, in PREFIX.tokens.json beside the
// data: the largest id, so that later runs need not scan all tokens, whose tokens they are, and
// which of them ends documents. Megatron's readers pass over the file.

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/indexed_dataset.h"

namespace viaduct {

struct TokenRecord {
  int64_t largest_token = -1;  // −1: no tokens
  /// The last of vocabulary_hashes of the tokenizer, up to the largest id; older records lack it.
  std::optional<uint64_t> vocabulary;
  /// The token that ends each document; −1: none was appended; older records do not say.
  std::optional<int64_t> separator;
  int64_t inner_separators = 0;  // further ones, inside documents
};

/// Writes the record of the data set PREFIX, which is complete.
void write_token_record(const std::filesystem::path& prefix, const TokenRecord& record);

/// The data set's record; nothing without one, or if it belongs to other data: another number of
/// sequences or bytes, or other bytes in a sample of them.
std::optional<TokenRecord> read_token_record(const IndexedDataset& dataset);

}  // namespace viaduct
