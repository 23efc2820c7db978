#pragma once
// Templates of conversations as keys of a GGUF file.

#include "checkpoint/gguf_metadata.h"
#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// As llama.cpp names them: tokenizer.chat_template, and tokenizer.chat_template.NAME for others.
/// IoError for a damaged tokenizer_config.json.
void add_gguf_chat_templates(GgufHeadWriter& head, const TokenizerFiles& files);

}  // namespace viaduct
