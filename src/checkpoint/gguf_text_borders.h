#pragma once
// The tokens that begin and end texts, as keys of a GGUF file.

#include <string>
#include <vector>

#include "checkpoint/gguf_metadata.h"
#include "data/tokenizer/tokenizer.h"
#include "model/model_config.h"

namespace viaduct {

/// Adds the ids of the model's configuration, else of the tokenizer, and whether the tokenizer puts
/// them around texts; null: only the former. llama.cpp puts at most one token before a text and one
/// after it: appends notes, for people, where a template has others.
void add_gguf_text_borders(GgufHeadWriter& head, const ModelConfig& model,
                           const Tokenizer* tokenizer, std::vector<std::string>& notes);

}  // namespace viaduct
