#pragma once
// Added tokens that the files beside a tokenizer name: `tokenizer_config.json`, `added_tokens.json`
// and `special_tokens_map.json`, as Hugging Face's transformers reads them.

#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/token_model.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// Adds what the files name to `added`, the tokens of the tokenizer's own file:
///  - "added_tokens_decoder" of the configuration; without it `added_tokens.json`. They replace
///    tokens of the same content;
///  - the special tokens by name ("eos_token" …) of the configuration, and where it has no
///    "added_tokens_decoder", of `special_tokens_map.json`;
///  - "extra_special_tokens" and "additional_special_tokens".
/// A token that the model has keeps its id, others get the next one; `ids_as_given`: the id that a
/// file gives them, if it does. IoError for malformed files.
void add_folder_tokens(const TokenizerFiles& files, const TokenModel& model, bool ids_as_given,
                       std::vector<AddedToken>& added);

}  // namespace viaduct
