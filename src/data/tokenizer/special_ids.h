#pragma once
// The ids that begin and end texts, from the files of a Hugging Face folder.

#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/token_model.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// Ids from the files, in this order: `tokenizer_config.json`, `special_tokens_map.json`,
/// `generation_config.json`, `config.json`; ids in none of them are taken from `otherwise`, and a
/// missing end of text is the token `<|endoftext|>` or `<|end_of_text|>`. Ids that are no token are
/// ignored: published configurations carry defaults of other vocabularies.
SpecialIds read_special_ids(const TokenizerFiles& files, const TokenModel& model,
                            const std::vector<AddedToken>& added, const SpecialIds& otherwise);

}  // namespace viaduct
