#pragma once
// Tokenizers of SentencePiece model files, made of the same parts as those of a tokenizer.json, as
// Hugging Face's transformers (5.24) converts them.

#include <memory>
#include <optional>
#include <string>

#include "data/tokenizer/folder_tokens.h"
#include "data/tokenizer/pipeline_model.h"
#include "data/tokenizer/sentencepiece_kind.h"
#include "data/tokenizer/sentencepiece_pieces.h"
#include "data/tokenizer/text_decoder.h"

namespace viaduct {

struct SentencePiecePipeline {
  std::unique_ptr<PipelineModel> model;
  TextDecoder decoder;
  /// Names of the special tokens around a text with `--add-special-tokens`. None: "add_bos_token"
  /// and "add_eos_token" of the configuration decide.
  std::optional<NamedBorder> border;
};

/// The pipeline of `pieces`, from the file `source`. Gives `tokens` the names of special tokens
/// that the kind has by default, and the control and user-defined pieces as added tokens.
/// ConfigError for models that the kind cannot have.
SentencePiecePipeline make_sentencepiece_pipeline(SentencePieces pieces, SentencePieceKind kind,
                                                  const TokenizerFiles& files,
                                                  const std::string& source, FolderTokens& tokens);

}  // namespace viaduct
