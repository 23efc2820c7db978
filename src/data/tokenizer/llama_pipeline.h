#pragma once
// Files of tokenizers of class LlamaTokenizer that transformers 5 does not follow.

#include <string>

#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// For people: that a tokenizer.json, which is followed as it stands, as in transformers 4, puts
/// spaces before other texts than the tokenizer that transformers 5 makes of tokenizer_class
/// LlamaTokenizer (Llama 2's does); "" if both cut alike, or if there is none that can be read.
std::string llama_pipeline_warning(const TokenizerFiles& files);

}  // namespace viaduct
