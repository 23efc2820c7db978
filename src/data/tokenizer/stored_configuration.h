#pragma once
// A tokenizer's files are stored without the model's `config.json`, whose "model_type" decides for
// some which tokenizer they are, and which may be the only one to say what ends texts.

#include <optional>
#include <string>

#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// The text of `tokenizer_config.json` with which the other files make the same tokenizer without
/// `config.json`: "tokenizer_class" says what "model_type" said. Nothing if the file there does.
std::optional<std::string> stored_tokenizer_configuration(const TokenizerFiles& files);

/// The text of `generation_config.json` with the ids of special tokens that `config.json` has and
/// it lacks. Nothing if there are none.
std::optional<std::string> stored_generation_configuration(const TokenizerFiles& files);

}  // namespace viaduct
