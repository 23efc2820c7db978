#pragma once
// Identifies the tokens behind the ids of a data set, whatever files the tokenizer was read from.

#include <cstdint>

#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// A hash of the spelling of ids 0 to `ids` − 1; ids without a token count as such. Tokens added
/// behind them do not change it.
uint64_t vocabulary_hash(const Tokenizer& tokenizer, int64_t ids);

}  // namespace viaduct
