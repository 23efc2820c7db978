#pragma once
// Tokens that a user wants to add to a tokenizer, from a file.

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizer/added_tokens.h"

namespace viaduct {

struct NewTokens {
  std::vector<AddedToken> tokens;  // in the order of the file, each content once; without ids
  std::vector<std::string> notes;  // what of the file counts for nothing
};

/// FILE.jsonl: objects with "content" and what an added token of `tokenizer.json` has besides
/// ("special", "single_word", "lstrip", "rstrip", "normalized"). Any other file: one token a line,
/// with all its spaces. Empty lines and repetitions are noted. ConfigError, with file and line, for
/// text that is not UTF-8, for members that are not known, a token with two meanings, and a file
/// without tokens.
NewTokens read_new_tokens(const std::filesystem::path& file);

/// "“a”, “b” and 3 more": names of tokens for messages.
std::string shown_tokens(const std::vector<std::string>& contents);

}  // namespace viaduct
