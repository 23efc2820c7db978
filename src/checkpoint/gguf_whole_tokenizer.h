#pragma once
// The copy of a whole tokenizer.json in a GGUF file, which programs other than llama.cpp read.

#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// The text of tokenizer.json with those of the added tokens that it lacks. IoError for a damaged
/// file.
std::string whole_tokenizer_json(const TokenizerFiles& files, const std::vector<AddedToken>& added);

}  // namespace viaduct
