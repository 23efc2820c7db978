#pragma once
// Conversions between a text that a model reads from its beginning and its tokens.

#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// The ids that the tokenizer puts before a text (a beginning token), then those of `text`. The end
/// token is omitted: the text may continue.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text);

/// Bytes of text that each id stands for; 0 for special tokens and for ids that are no tokens.
std::vector<int32_t> token_text_bytes(const Tokenizer& tokenizer);

}  // namespace viaduct
