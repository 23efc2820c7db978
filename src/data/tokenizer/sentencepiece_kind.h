#pragma once
// Which tokenizer Hugging Face's transformers (5.24) makes of a folder with a SentencePiece model.

#include <string_view>

#include "data/tokenizer/tokenizer_files.h"

namespace viaduct {

/// Names that publishers give the model's file, in the order in which they are looked for.
inline constexpr const char* kSentencePieceFiles[] = {"tokenizer.model", "spiece.model",
                                                      "sentencepiece.bpe.model"};

enum class SentencePieceKind {
  plain,  // what the model file says, as for folders without a class
  llama,
  gemma,
  t5,
  albert,
  xlm_roberta,
};

/// By "tokenizer_class" of `tokenizer_config.json` or `config.json` and "model_type" of the latter.
/// ConfigError, with the class, for those that are not supported.
SentencePieceKind sentencepiece_kind(const TokenizerFiles& files);

/// A "tokenizer_class" that means this kind, whatever the model type.
std::string_view sentencepiece_class(SentencePieceKind kind);

}  // namespace viaduct
