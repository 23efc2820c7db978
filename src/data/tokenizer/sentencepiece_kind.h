#pragma once
// Which tokenizer Hugging Face's transformers (5.24) makes of a folder with a SentencePiece model.

#include <string_view>

#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

enum class SentencePieceKind {
  plain,  // what the model file says, as for folders without a class
  llama,
  gemma,
  t5,
  albert,
  xlm_roberta,
};

/// The name of the file with the model; null if there is none.
const char* sentencepiece_file(const TokenizerFiles& files);

/// By "tokenizer_class" of `tokenizer_config.json` or `config.json` and "model_type" of the latter.
/// ConfigError, with the class, for those that are not supported.
SentencePieceKind sentencepiece_kind(const TokenizerFiles& files);

/// ConfigError if transformers does not look for the model of this kind under the name of `file`:
/// there it makes a tokenizer of a few special tokens instead.
void check_sentencepiece_file(SentencePieceKind kind, std::string_view file,
                              const TokenizerFiles& files);

/// A "tokenizer_class" that means this kind, whatever the model type.
std::string_view sentencepiece_class(SentencePieceKind kind);

}  // namespace viaduct
