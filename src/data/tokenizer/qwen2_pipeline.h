#pragma once
// Tokenizers beside a Qwen2 model that transformers would not compute.

#include <string>

#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// For people: that the tokenizer of a folder cuts texts in another way than Qwen2Tokenizer, the
/// class that transformers takes for every folder of model_type qwen2; "" if it does not, or if
/// there is none that can be read.
std::string qwen2_pipeline_warning(const TokenizerFiles& files);

}  // namespace viaduct
