#pragma once
// Identifies the tokens behind the ids of a data set, whatever files the tokenizer was read from.

#include <cstdint>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// Element i is a hash of the spelling of ids 0 to i − 1, for i up to `ids`; ids without a token
/// count as such. One pass for all lengths: the files of a blend end at different ids.
std::vector<uint64_t> vocabulary_hashes(const Tokenizer& tokenizer, int64_t ids);

}  // namespace viaduct
