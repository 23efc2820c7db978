#pragma once
// Between a text that a model reads from its beginning and its tokens.

#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// The ids of `text` behind those that the tokenizer puts before a text (a beginning token). What
/// it puts after one, an end token, is left out: the text may go on.
std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text);

/// Bytes of text that each id stands for; 0 for special tokens and for ids that are no tokens.
std::vector<int32_t> token_text_bytes(const Tokenizer& tokenizer);

}  // namespace viaduct
