#pragma once
// Tokenizers of `vocab.json` and `merges.txt`: byte-level BPE, as Hugging Face's transformers
// (5.24) makes it of the folder's class.

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/tokenizer/folder_tokens.h"
#include "data/tokenizer/pipeline_model.h"
#include "data/tokenizer/token_places.h"

namespace viaduct {

struct VocabularyPipeline {
  std::unique_ptr<PipelineModel> model;
  std::optional<NamedBorder> border;  // none: the configuration decides
  std::vector<TokenPlaces::Trim> trims;
};

/// By "tokenizer_class" of `tokenizer_config.json` or "model_type" of `config.json`; GPT-2's if
/// there is neither. Gives `tokens` the special tokens that the class has by default. ConfigError,
/// with the class, for those that are not supported.
VocabularyPipeline read_vocabulary_files(const TokenizerFiles& files, FolderTokens& tokens);

/// The supported "tokenizer_class" that these files have by name or by their "model_type"; empty if
/// they have neither. ConfigError as above.
std::string_view vocabulary_class(const TokenizerFiles& files);

}  // namespace viaduct
