#pragma once
// A tokenizer with further added tokens, as the files of a Hugging Face folder.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

struct GrownTokenizer {
  /// The added tokens that have new ids, ascending by id.
  std::vector<AddedToken> fresh;
  std::map<std::string, std::string> files;  // texts by name, also those that did not change
  int32_t vocab_size = 0;                    // the largest id + 1
  std::vector<std::string> notes;
};

/// Adds `tokens` to `tokenizer`, whose files are `files` (with config.json) and lie in `where`. New
/// ids follow all others, as in transformers' add_tokens. Changed are tokenizer.json, and, where
/// they are there, added_tokens_decoder in tokenizer_config.json, added_tokens.json, and the lists
/// of special tokens in tokenizer_config.json and special_tokens_map.json; without tokenizer.json,
/// added_tokens.json is made. A word of the vocabulary becomes an added token with its own id, and
/// a token that is added already stays as it is: both are noted. ConfigError where nothing is new,
/// and for files that could not hold the tokens without a change to others.
GrownTokenizer add_tokens(const Tokenizer& tokenizer, std::map<std::string, std::string> files,
                          const std::filesystem::path& where,
                          const std::vector<AddedToken>& tokens);

}  // namespace viaduct
