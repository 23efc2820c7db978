#pragma once
// What llama.cpp will cut into other tokens than the tokenizer that a GGUF file was made from.

#include <string>
#include <vector>

#include "checkpoint/gguf_metadata.h"
#include "data/tokenizer/tokenizer.h"

namespace viaduct {

/// Notes, for people, one for each kind of texts that the tokenizer of the keys, without a whole
/// tokenizer.json, encodes to other ids than `tokenizer`. None where the keys hold no tokenizer.
std::vector<std::string> gguf_tokenizer_differences(const GgufKeys& keys,
                                                    const Tokenizer& tokenizer);

}  // namespace viaduct
