#pragma once
// Which ids begin and end texts, as the files of a Hugging Face folder say it.

#include <filesystem>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/token_model.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// Added tokens that a folder without `tokenizer.json` names: "added_tokens_decoder" of
/// `tokenizer_config.json`, and `added_tokens.json`.
std::vector<AddedToken> read_added_tokens(const std::filesystem::path& folder);

/// What the folder's files say, in this order: `tokenizer_config.json`, `special_tokens_map.json`,
/// `generation_config.json`, `config.json`; what none of them says is as in `otherwise`, and an end
/// of text that nothing names is a token `<|endoftext|>` or `<|end_of_text|>`. Ids of no token are
/// passed over: published configurations carry defaults of other vocabularies.
SpecialIds read_special_ids(const std::filesystem::path& folder, const TokenModel& model,
                            const std::vector<AddedToken>& added, const SpecialIds& otherwise);

}  // namespace viaduct
